"""`speceyes eval score`: what a scoring rule makes of one answer, or of a file of answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from speceyes.cli import options as flags
from speceyes.cli import output
from speceyes.errors import ConfigError, InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from speceyes.evals.scoring import Mark, Rule
    from speceyes.evals.scoring.batch import AnswerLine
    from speceyes.evals.scoring.judge import JudgeReport

_ONE, _MANY, _JUDGE = "One answer", "Many answers", "Judge of what the rule cannot parse"


@dataclass(frozen=True, slots=True)
class _JudgeFlags:
    url: str | None
    model: str | None
    key_variable: str | None
    cache: Path | None
    max_tokens: int


def register(group: typer.Typer) -> None:
    """Add the command to the group `eval`."""
    group.command("score")(score)


def score(
    rule: Annotated[str, typer.Option(help="strict, lmms, vlmevalkit or pope.")] = "strict",
    kind: Annotated[
        str, typer.Option(help="Whose questions: vstar, hrbench, mcq, pope or nano. Only the rule lmms asks.")
    ] = "vstar",
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the model said.", rich_help_panel=_ONE)
    ] = None,
    gold: Annotated[
        str | None,
        typer.Option(
            metavar="G", help="The right option's letter, or the right word without options.", rich_help_panel=_ONE
        ),
    ] = None,
    options: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Options in the order shown: a list, or an object by letter.", rich_help_panel=_ONE
        ),
    ] = None,
    question: Annotated[str, typer.Option(metavar="TEXT", help="For the judge.", rich_help_panel=_ONE)] = "",
    answers: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON lines with id, answer, gold, options; also question, category, group, error.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where the marks go, one a line; by default standard output, unless --json takes it.",
            rich_help_panel=_MANY,
        ),
    ] = None,
    judge_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Server of the judge.", rich_help_panel=_JUDGE)
    ] = None,
    judge_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Its name there; not needed for one.", rich_help_panel=_JUDGE)
    ] = None,
    judge_key_env: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="Environment variable with its API key.", rich_help_panel=_JUDGE),
    ] = None,
    judge_cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where verdicts are kept; without it none are.", rich_help_panel=_JUDGE),
    ] = None,
    judge_max_tokens: Annotated[
        int, typer.Option(min=1, help="Of a reply; a model that thinks aloud needs many.", rich_help_panel=_JUDGE)
    ] = 512,
    json_target: output.JsonTarget = None,
) -> None:
    """Read the choice from an answer by a rule, and say whether it is right; or do so for a file of answers.

    The JSON of one answer has `parsed` (null where there is no choice), `right`, `how` (what found it), `form` and
    `rule`. That of a file has the figures of all its answers.
    """
    from speceyes.evals.scoring import KINDS, AnswerKey, find_rule
    from speceyes.evals.scoring.batch import AnswerLine, options_of

    output.check_target(json_target)
    chosen = find_rule(rule)
    if kind not in KINDS:
        raise ConfigError(f"--kind {kind}: there is no such kind; there are {', '.join(KINDS)}")
    judge = _JudgeFlags(judge_url, judge_model, judge_key_env, judge_cache, judge_max_tokens)
    if (answer is None) == (answers is None):
        raise ConfigError("give either --answer TEXT or --answers FILE")
    if answers is not None:
        if gold is not None or options is not None or question:
            raise ConfigError("--gold, --options and --question belong to --answer; a file has its own")
        return _score_file(answers, chosen, kind, judge, out, json_target)
    if out is not None:
        raise ConfigError("--out belongs to --answers; for one answer there is --json")
    row = AnswerLine("answer", answer, AnswerKey.of((gold, options_of(_json(options)))), question)
    (mark,), report = _marks([row], chosen, kind, judge)
    record: dict[str, Any] = {
        "parsed": mark.parsed,
        "right": mark.right,
        "how": mark.how,
        "form": mark.form,
        **_named(chosen, kind),
        "gold": row.gold,
    }
    if report is not None:
        record["judge"] = report.as_json()
    if json_target != output.STDOUT:
        output.console().print(_sentence(mark))
    output.write_json(json_target, record)
    return None


def _score_file(
    answers: Path, rule: Rule, kind: str, judge: _JudgeFlags, out: str | None, json_target: str | None
) -> None:
    from speceyes.evals.scoring.batch import figures, mark_json, read_answers

    if out == output.STDOUT and json_target == output.STDOUT:
        raise ConfigError("--out - and --json -: standard output can take one of them")
    rows = read_answers(answers)
    marks, report = _marks(rows, rule, kind, judge)
    lines = [json.dumps(mark_json(row, mark), allow_nan=False) for row, mark in zip(rows, marks, strict=True)]
    to_stdout = out == output.STDOUT or (out is None and json_target != output.STDOUT)
    if out not in (None, output.STDOUT):
        _write(Path(str(out)), lines)
    elif to_stdout:
        typer.echo("\n".join(lines))
    record = {**_named(rule, kind), **figures(rows, marks, rule)}
    if report is not None:
        record["judge"] = report.as_json()
    output.console(output.STDOUT if to_stdout else json_target).print(_table(record))
    output.write_json(json_target, record)


def _marks(
    rows: Sequence[AnswerLine], rule: Rule, kind: str, judge: _JudgeFlags
) -> tuple[list[Mark], JudgeReport | None]:
    from speceyes.evals.scoring.batch import score_line

    marks = [score_line(row, rule, kind) for row in rows]
    if judge.url is None:
        if judge.model or judge.key_variable or judge.cache:
            raise ConfigError("--judge-model, --judge-key-env and --judge-cache need --judge-url")
        return marks, None
    return asyncio.run(_judged(rows, marks, judge))


async def _judged(
    rows: Sequence[AnswerLine], marks: Sequence[Mark], chosen: _JudgeFlags
) -> tuple[list[Mark], JudgeReport]:
    from speceyes.evals.scoring.judge import Judge, wants_judge
    from speceyes.wiring.engines import connect

    pairs = [(row.case, mark) for row, mark in zip(rows, marks, strict=True)]
    client = await connect(
        str(chosen.url), chosen.model, setting="--judge-model", api_key=flags.key_from(chosen.key_variable)
    )
    async with client:
        judge = Judge(client, chosen.cache, max_tokens=chosen.max_tokens)
        with _bar(sum(wants_judge(*pair) for pair in pairs)) as advance:
            return await judge.decide(pairs, done=advance)


@contextmanager
def _bar(total: int) -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("Judging", total=total)
        yield lambda: bars.advance(task)


def _named(rule: Rule, kind: str) -> dict[str, str]:
    return {"rule": rule.value, "kind": kind} if rule.value == "lmms" else {"rule": rule.value}


def _json(text: str | None) -> object:
    try:
        return None if text is None else json.loads(text)
    except ValueError as error:
        raise InputError(f"--options is not JSON: {error}") from error


def _write(path: Path, lines: Sequence[str]) -> None:
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    except OSError as error:
        raise ConfigError(f"--out {path}: cannot be written ({error.strerror or error})") from error


def _sentence(mark: Mark) -> str:
    said = "states nothing" if mark.parsed is None else f"states {output.visible(mark.parsed)}"
    verdict = {True: "right", False: "wrong", None: "not known to be right or wrong"}[mark.right]
    return f"{verdict}: the answer {said} ({mark.how})"


def _table(record: dict[str, Any]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), show_header=False)
    table.add_row("rule", record["rule"])
    for name, words in (("accuracy", "right, of all"), ("accuracy_answered", "right, of all answered")):
        table.add_row(words, _share(record[name]))
    table.add_row("unparsed", str(len(record["unparsed"])))
    table.add_row("errors", str(len(record["errors"])))
    table.add_row("read by", ", ".join(f"{how} {count}" for how, count in record["how"].items()))
    if record["headline"] is None and record["errors"]:
        table.add_row("", "no headline figure: too many questions failed")
    for name, words in (("each_rotation", "each rotation counts"), ("all_rotations", "all rotations right")):
        if "rotations" in record:
            table.add_row(words, _share(record["rotations"][name]))
    for name in ("precision", "recall", "f1", "yes_ratio"):
        if "pope" in record:
            value = record["pope"][name]
            table.add_row(name.replace("_", " "), "-" if value is None else f"{100 * value:.1f} %")
    if "judge" in record:
        judge = record["judge"]
        table.add_row("judge", f"{output.visible(judge['model'])}, prompt {judge['prompt'][:15]}")
        table.add_row("judged", f"{judge['judged']}, {judge['cached']} from the cache; {judge['unparsed']} unparsed")
    return table


def _share(share: dict[str, Any]) -> str:
    if share["value"] is None:
        return "-"
    low, high = 100 * share["low"], 100 * share["high"]
    return f"{100 * share['value']:.1f} % ({share['successes']} of {share['n']}; {low:.1f} to {high:.1f} %)"
