"""The figures of a run, as `summary.json` holds them and `speceyes eval --json` prints them.

    {"format": 1, "complete": bool, "rule": "strict",
     "dataset": {"name", "kind", "digest", "items", "asked", "shuffle_seed", ...},
     "gate": {"score", "k", "aggregate", "threshold", "screen_threshold", ...},
     "models": {"draft": {"name", "fingerprint"}, "agent": {..}},
     "concurrency": 1,                                  of all figures but those of `load`
     "systems": {name: SYSTEM},
     "pairs": [{"first", "second", "n", "both", "only_first", "only_second", "neither", "mcnemar_p",
                "difference": ESTIMATE}],               accuracy of the second minus that of the first
     "law": null | {                                    null too where another plan than the paper's was run
                    "alpha", "beta", "acceptance", "closer", "looked", "ideal", "honest", "measured": SPEEDUP,
                    "costs": {"screen", "draft", "agent", "queries", "look"}},
     "depth": null | {"base": ESTIMATE, "per_call": ESTIMATE, "r_squared", "n", "depths": [{"depth", "n", "seconds"}]},
     "load": [{"concurrency", "systems": {name: {"wall_seconds", "queries", "accuracy", "errors",
                                                 "speedup": SPEEDUP}}}],
     "batch": [{"in_flight", "queries", "seconds_a_query": ESTIMATE}],
     "random": null | {"let_through", "accepted", "share", "speceyes_share", "realised_share"},
     "notes": [..]}

    SYSTEM = {"n", "errors", "answered", "unparsed", "accuracy": SHARE, "accuracy_answered": SHARE,
              "categories": {name: SHARE}, "metrics": METRICS, "how": {name: count},
              "finishes": {name: count},
              "seconds": {"mean", "median", "p95"}, "wall_seconds", "speedup": SPEEDUP, "latency_speedup",
              "acceptance", "reasons": {name: count}, "depth",
              "tokens": {role: {"prompt", "completion", "cached", "calls"}}}
    SHARE = {"value", "low", "high", "successes", "n"}           Wilson's 95 % interval
    ESTIMATE = {"value", "low", "high"}                          percentile bootstrap, 95 %
    METRICS = {} | {"rotations": ..} | {"pope": ..}              of HR-Bench and POPE: `evals/scoring`
    SPEEDUP = ESTIMATE + {"blocks"}                              the agent's wall time over the system's

Null is "not known". A failed query and an unparsed answer are not right; `accuracy_answered` leaves failed queries out.
Questions whose right answer is not known are in no share.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from speceyes.evals.law import Costs, law_honest, law_ideal
from speceyes.evals.runs.format import FORMAT, Lap, Result
from speceyes.evals.runs.judging import STATELESS
from speceyes.evals.runs.loading import EvalRun
from speceyes.evals.runs.marking import set_metrics
from speceyes.evals.statistics.depth import fit_depth
from speceyes.evals.statistics.paired import accuracy_differences, discordance, numbered
from speceyes.evals.statistics.shares import share, shares_by
from speceyes.evals.statistics.speed import Speedup, seconds_a_query, speedup
from speceyes.evals.systems import SystemName
from speceyes.gating.separability import IntArray
from speceyes.scheduling import Plan
from speceyes.types import Reason

AGENT, SPECEYES, RANDOM = SystemName.AGENT.value, SystemName.SPECEYES.value, SystemName.RANDOM.value


def summarise(run: EvalRun) -> dict[str, Any]:
    """All figures of a run, of what there is of it."""
    header = run.header
    plain: dict[str, Any] = msgspec.to_builtins(header)
    return {
        "format": FORMAT,
        "complete": run.complete,
        "rule": header.rule,
        "dataset": plain["dataset"],
        "gate": plain["gate"],
        "models": plain["models"],
        "concurrency": header.concurrency[0],
        "systems": {name: _system(run, name) for name in header.systems},
        "pairs": _pairs(run),
        "law": _law(run),
        "depth": _depth(run),
        "load": [_level(run, concurrency) for concurrency in header.concurrency] if len(header.concurrency) > 1 else [],
        "batch": [_batch(run, size) for size in _batch_sizes(run)],
        "random": _random(run),
        "notes": _notes(run),
    }


def _system(run: EvalRun, name: str) -> dict[str, Any]:
    rows = run.results[name]
    answered = [row for row in rows if row.error is None]
    judged = [row for row in rows if row.right is not None]
    own = [row.seconds for row in answered if row.seconds is not None]
    laps = _laps(run, name, run.header.concurrency[0])
    return {
        "n": len(rows),
        "errors": len(rows) - len(answered),
        "answered": len(answered),
        "unparsed": sum(row.unparsed for row in rows),
        "accuracy": share(bool(row.right) for row in judged).as_json(),
        "accuracy_answered": share(bool(row.right) for row in judged if row.error is None).as_json(),
        "categories": {
            category: found.as_json()
            for category, found in shares_by((run.by_id[row.id].category, bool(row.right)) for row in judged).items()
        },
        "metrics": set_metrics(run, rows),
        "how": dict(Counter(row.how for row in answered).most_common()),
        "finishes": dict(Counter(row.finish for row in answered if row.finish is not None).most_common()),
        "seconds": _seconds(own),
        "wall_seconds": sum(lap.seconds for lap in laps) if laps else None,
        "speedup": _speedup(run, name, run.header.concurrency[0]).as_json(),
        "latency_speedup": _latency_speedup(run, name),
        "acceptance": _mean([row.accepted for row in answered]),
        "reasons": dict(Counter(row.reason or "" for row in answered).most_common()),
        "depth": _mean([row.depth for row in answered if row.depth is not None]),
        "tokens": _tokens(rows),
    }


def _speedup(run: EvalRun, name: str, concurrency: int) -> Speedup:
    """Against the agent, over the blocks in which neither had an error."""
    if AGENT not in run.results:
        return speedup({}, {})
    slow, fast = (
        {lap.block: lap.seconds for lap in _laps(run, one, concurrency) if not lap.errors and lap.queries}
        for one in (AGENT, name)
    )
    return speedup(slow, fast, seed=run.header.seed)


def _latency_speedup(run: EvalRun, name: str) -> float | None:
    """The agent's mean seconds of own work over the system's, over the questions that both answered."""
    theirs = run.answers.get(AGENT, {})
    pairs = [
        (theirs[row.id].seconds, row.seconds)
        for row in run.results[name]
        if row.seconds is not None and row.id in theirs and theirs[row.id].seconds is not None
    ]
    below = sum(own for _, own in pairs)
    return sum(agent or 0.0 for agent, _ in pairs) / below if below > 0 else None


def _pairs(run: EvalRun) -> list[dict[str, Any]]:
    """The agent against all others, and SpecEyes against the rest, on the questions that both have a mark for."""
    names = list(run.header.systems)
    firsts = [name for name in (AGENT, SPECEYES) if name in names]
    wanted = [(first, name) for first in firsts for name in names if name not in firsts[: firsts.index(first) + 1]]
    ids = [
        sample.id
        for sample in run.samples
        if all((row := run.answers[name].get(sample.id)) is not None and row.right is not None for name in names)
    ]
    if not wanted or not ids:
        return []
    right = {name: np.array([run.answers[name][one].right for one in ids], dtype=np.bool_) for name in names}
    first, second = (np.array([right[pair[side]] for pair in wanted]) for side in (0, 1))
    steps = accuracy_differences(first, second, clusters(run, ids), seed=run.header.seed)
    found = []
    for (a, b), step in zip(wanted, steps, strict=True):
        table = discordance(right[a], right[b])
        found.append(
            {
                "first": a,
                "second": b,
                "n": len(ids),
                "both": table.both,
                "only_first": table.first,
                "only_second": table.second,
                "neither": table.neither,
                "mcnemar_p": table.p,
                "difference": step.as_json(),
            }
        )
    return found


def clusters(run: EvalRun, ids: Sequence[str]) -> IntArray:
    """Which questions are drawn together: those about one picture, or turns of one question. Shape (N,)."""
    samples = [run.by_id[one] for one in ids]
    return numbered([sample.image_name or sample.group or sample.id for sample in samples])


def _law(run: EvalRun) -> dict[str, Any] | None:
    """The laws from SpecEyes' own shares and from what the phases cost in this run. They are about the paper's plan."""
    if run.header.settings.get("plan", Plan.PAPER.value) != Plan.PAPER:
        return None
    rows = [row for row in run.results.get(SPECEYES, ()) if row.error is None and row.seconds is not None]
    if not rows:
        return None
    drafted = [row for row in rows if "speculate" in row.phase_seconds]
    accepted = sum(row.accepted for row in rows)
    closer = sum(row.reason == Reason.ACCEPTED_CLOSER for row in rows)
    looked = [row.phase_seconds["look_closer"] for row in rows if "look_closer" in row.phase_seconds]
    alpha, beta = (accepted - closer) / len(drafted) if drafted else 0.0, len(drafted) / len(rows)
    costs = _costs(run, rows, float(np.mean(looked)) if looked else 0.0)
    shares = closer / len(rows), len(looked) / len(rows)
    return {
        "alpha": alpha,
        "beta": beta,
        "acceptance": accepted / len(rows),
        "closer": shares[0],
        "looked": shares[1],
        "ideal": law_ideal(alpha, beta, shares[0]),
        "honest": None if costs is None else law_honest(alpha, beta, costs, *shares),
        "measured": _speedup(run, SPECEYES, run.header.concurrency[0]).as_json(),
        "costs": None if costs is None else msgspec.to_builtins(costs),
    }


def _costs(run: EvalRun, rows: Sequence[Result], look: float) -> Costs | None:
    """Mean seconds of each part. Phase I's is what is left of a query beside the others, so the first look is in it."""
    agent = [row.seconds for row in run.results.get(AGENT, ()) if row.seconds is not None]
    screen = [
        row.seconds - sum(row.phase_seconds.get(phase, 0.0) for phase in ("speculate", "look_closer", "fall_back"))
        for row in rows
        if row.seconds is not None and "screen" in row.phase_seconds
    ]
    draft = [row.phase_seconds["speculate"] for row in rows if "speculate" in row.phase_seconds]
    if not agent or not screen:
        return None
    return Costs(
        float(np.mean(screen)), float(np.mean(draft)) if draft else 0.0, float(np.mean(agent)), len(agent), look
    )


def _depth(run: EvalRun) -> dict[str, Any] | None:
    rows = [row for row in run.results.get(AGENT, ()) if row.seconds is not None and row.depth is not None]
    if not rows:
        return None
    depths = np.array([row.depth for row in rows], dtype=np.int64)
    seconds = np.array([row.seconds for row in rows], dtype=np.float64)
    return fit_depth(depths, seconds, clusters(run, [row.id for row in rows]), seed=run.header.seed).as_json()


def _level(run: EvalRun, concurrency: int) -> dict[str, Any]:
    systems = {}
    for name in run.header.systems:
        laps = _laps(run, name, concurrency)
        marked = [lap for lap in laps if lap.right is not None]
        asked = sum(lap.queries for lap in marked)
        systems[name] = {
            "wall_seconds": sum(lap.seconds for lap in laps) if laps else None,
            "queries": sum(lap.queries for lap in laps),
            "accuracy": sum(lap.right or 0 for lap in marked) / asked if asked else None,
            "errors": sum(lap.errors for lap in laps),
            "speedup": _speedup(run, name, concurrency).as_json(),
        }
    return {"concurrency": concurrency, "systems": systems}


def _batch_sizes(run: EvalRun) -> list[int]:
    return sorted({lap.concurrency for lap in run.laps if lap.system == STATELESS})


def _batch(run: EvalRun, size: int) -> dict[str, Any]:
    laps = [lap for lap in _laps(run, STATELESS, size) if not lap.errors]
    seconds, queries = (np.array([float(getattr(lap, name)) for lap in laps]) for name in ("seconds", "queries"))
    found = seconds_a_query(seconds, queries, seed=run.header.seed)
    return {"in_flight": size, "queries": int(queries.sum()), "seconds_a_query": found.as_json()}


def _random(run: EvalRun) -> dict[str, Any] | None:
    """What the lot was drawn from, and what it came to."""
    if RANDOM not in run.results:
        return None
    judged = [line for line in run.judged.values() if line.error is None]
    accepted = sum(line.accepted for line in judged)
    return {
        "let_through": sum(line.let_through for line in judged),
        "accepted": accepted,
        "share": accepted / len(judged) if judged else None,
        "speceyes_share": _mean([row.accepted for row in run.results.get(SPECEYES, ()) if row.error is None]),
        "realised_share": _mean([row.accepted for row in run.results[RANDOM] if row.error is None]),
    }


def _notes(run: EvalRun) -> list[str]:
    """What a reader of the figures must know."""
    said = []
    longest = max((lap.queries for lap in run.laps if lap.system != STATELESS), default=0)
    if too_many := [c for c in run.header.concurrency if c > longest > 0]:
        said.append(
            f"The longest block has {longest} questions, so {', '.join(map(str, too_many))} at a time were never under "
            "way: use longer blocks, or more questions."
        )
    for name, rows in run.results.items():
        if errors := sum(row.error is not None for row in rows):
            said.append(f"{name}: {errors} of {len(rows)} queries failed; they count as wrong.")
    if run.header.gate.threshold is None:
        said.append("The calibration proves no threshold, so the gate accepts nothing.")
    if len(run.header.sessions) > 1:
        said.append(f"The run was interrupted and resumed {len(run.header.sessions) - 1} times.")
    return said


def _laps(run: EvalRun, name: str, concurrency: int) -> list[Lap]:
    return [lap for lap in run.laps if lap.system == name and lap.concurrency == concurrency]


def _seconds(values: Sequence[float]) -> dict[str, float | None]:
    if not values:
        return {"mean": None, "median": None, "p95": None}
    return {
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "p95": float(np.quantile(values, 0.95)),
    }


def _tokens(rows: Sequence[Result]) -> dict[str, dict[str, int | None]]:
    """Sums by role over the queries that were answered. Unknown for one query is unknown for all."""
    found: dict[str, dict[str, int | None]] = {}
    for role in dict.fromkeys(role for row in rows for role in row.usage):
        used = [row.usage[role] for row in rows if role in row.usage]
        found[role] = {
            "prompt": _sum([one.prompt_tokens for one in used]),
            "completion": _sum([one.completion_tokens for one in used]),
            "cached": _sum([one.cached_tokens for one in used]),
            "calls": sum(one.calls for one in used),
        }
    return found


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
