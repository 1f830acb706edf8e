"""A calibration as one HTML page that needs nothing else, written for people who have to decide on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from importlib.resources import files

from speceyes.evals.calibrating import words
from speceyes.evals.calibrating.calibrate import Calibrated
from speceyes.evals.calibrating.chart import draw_chart
from speceyes.gating.calibration import BOUND_FIELDS

READING = (
    "How to read it: each mark is one threshold. The dot is the share of accepted questions that was lost in the "
    "records. The bar reaches up to the worst that the records still allow for future questions. A threshold is proven "
    "where the whole bar stays under the dashed limit. They are tested from left to right; after a failure none is, "
    "until the sequence starts anew, if it has another start. Grey ones are not proven, however short their bar."
)


def write_page(result: Calibrated) -> str:
    """The page's HTML."""
    style = files("speceyes.evals.calibrating").joinpath("page.css").read_text(encoding="utf-8")
    body = "\n".join(
        [_head(result), _charts(result), _provisos(), _looks(result), _kinds(result), _how(result), _bound_to(result)]
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>SpecEyes calibration</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _head(result: Calibrated) -> str:
    delta = result.certificate.delta
    if result.need is not None:
        asked = "".join(f"<li>{escape(words.promise(limit))}</li>" for limit in result.certificate.limits)
        said = "".join(f"<p>{escape(line)}</p>" for line in words.infeasible(result))
        head = f'<h1>No threshold could be proven</h1><div class="verdict no">{said}</div>'
        return f"{head}<h3>Asked for</h3><ul>{asked}</ul>"
    promised = "".join(f"<p><b>{escape(words.promise(limit))}</b></p>" for limit in result.certificate.limits)
    return (
        f'<h1>What this calibration promises</h1><div class="verdict yes">{promised}'
        f"<p>{escape(words.confidence(delta))}</p></div>{_tiles(result)}<p>{escape(words.found(result))}</p>"
    )


def _tiles(result: Calibrated) -> str:
    chosen = result.certificate.chosen
    assert chosen is not None
    accepted = chosen.accepted / result.certificate.n
    tiles = [(words.percent(accepted), "of all questions are answered by the draft, at once")]
    for limit, lost, bound in zip(result.certificate.limits, chosen.losses, chosen.bounds, strict=True):
        measured = (words.percent(lost / chosen.accepted), f"of these lost in the records ({words.SHORT[limit.risk]})")
        worst, promised = words.percent(bound), words.percent(limit.alpha)
        if len(result.certificate.limits) == 1:
            tiles += [measured, (worst, f"is the worst that these records allow; promised: {promised}")]
        else:
            tiles.append((measured[0], f"{measured[1]}; at worst {worst}, promised {promised}"))
    cells = "".join(f'<div class="tile"><b>{value}</b><span>{escape(said)}</span></div>' for value, said in tiles)
    return f'<section class="tiles">{cells}</section>'


def _charts(result: Calibrated) -> str:
    parts = []
    for i, limit in enumerate(result.certificate.limits):
        if picture := draw_chart(result.certificate, i):
            parts.append(f"<h3>{limit.risk.value.capitalize()}: {escape(words.SHORT[limit.risk])}</h3>{picture}")
    if not parts:
        return ""
    legend = "".join(
        f'<li class="{state}"><i></i>{said}</li>'
        for state, said in (("passed", "proven"), ("failed", "tested, not proven"), ("untested", "not tested"))
    )
    return f'<h2>The thresholds</h2>{"".join(parts)}<ul class="legend">{legend}</ul><p class="soft">{READING}</p>'


def _provisos() -> str:
    cells = "".join(f"<dt>{escape(head)}</dt><dd>{escape(said)}</dd>" for head, said in words.NOT_PROMISED)
    return f"<h2>What is not promised</h2><dl>{cells}</dl>"


def _looks(result: Calibrated) -> str:
    if len(result.depths) < 2 or result.need is not None:
        return ""
    first, n = result.certificate.limits[0].risk, result.certificate.n
    rows = [
        (words.after(depth), f"{accepted:,}", words.percent(accepted / n), f"{lost:,}", _percent_of(lost, accepted))
        for depth, (accepted, lost) in enumerate(result.depths)
    ]
    heads = ("when", "accepted", "of all questions", f"lost ({first})", "share of the accepted")
    return (
        "<h2>At a glance, and after closer looks</h2><p>A draft that is refused at a glance is not the last word: the "
        "draft model looks closer by itself, and its new answer is held against the same threshold. The promise is "
        f"about all accepted answers together, not about those of each depth.</p>{_table(heads, rows)}"
    )


def _percent_of(count: int, n: int) -> str:
    return words.percent(count / n if n else None)


def _kinds(result: Calibrated) -> str:
    if len(result.groups) < 2 or result.need is not None:
        return ""
    first = result.certificate.limits[0].risk
    rows = [
        (name or "(none)", f"{n:,}", f"{accepted:,}", f"{lost:,}", _percent_of(lost, accepted))
        for name, (n, accepted, lost) in result.groups.items()
    ]
    heads = ("kind of question", "questions", "accepted", f"lost ({first})", "share")
    return (
        "<h2>By kind of question</h2><p>Measured on the certifying records. The promise is about all of them together, "
        f"not about each kind.</p>{_table(heads, rows)}"
    )


def _how(result: Calibrated) -> str:
    coverage, gate = result.coverage, result.calibration
    rows = [
        ("recorded", coverage.recorded),
        ("left out: a phase failed or did not run", coverage.incomplete),
        ("left out: no label", coverage.unlabelled),
        ("used", coverage.used),
        ("of these, chose the thresholds", gate.n_tuning),
        ("of these, certified", gate.n),
        ("of the used, kept from the first draft by screening", coverage.kept_back),
        *((f"of the used, without a score: {reason}", count) for reason, count in coverage.unscored.items()),
        *(
            (f"of the used, without a score {words.after(depth)}: {reason}", count)
            for depth, counts in enumerate(coverage.unscored_closer, start=1)
            for reason, count in counts.items()
        ),
    ]
    steps = [
        (
            f"{step.threshold:.6g}",
            f"{step.accepted:,}",
            ", ".join(map(str, step.losses)),
            ", ".join(map(words.percent, step.bounds)),
            "proven" if step.passed else "not proven" if step.tested else "not tested",
        )
        for step in result.certificate.steps
    ]
    heads = ("threshold", "accepted", "lost", "upper bound", "outcome")
    return (
        f"<h2>How it was found</h2><p>{escape(words.method(result))}</p>"
        f"{_table(('records', 'number'), [(name, f'{count:,}') for name, count in rows])}"
        f"<details><summary>All {len(steps)} thresholds</summary>{_table(heads, steps)}</details>"
    )


def _bound_to(result: Calibrated) -> str:
    gate = result.calibration
    fields: Mapping[str, object] = {
        **{name: getattr(gate, name) for name in BOUND_FIELDS},
        "screen_threshold": gate.screen_threshold,
        "data": gate.data,
        "created": gate.created,
        "digest": gate.digest,
    }
    rows = [(name, "not known" if value is None else str(value)) for name, value in fields.items()]
    return (
        "<h2>What it belongs to</h2><p>With another model, prompt, score or K the threshold means nothing, and the "
        f"gate refuses it.</p>{_table(('field', 'value'), rows)}"
    )


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    top = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
