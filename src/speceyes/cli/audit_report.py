"""An audit for people: its state, its events, and what a simulation says, each number with its meaning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speceyes.gating.audit import Alarm, AuditEvent, AuditsMissing, AuditSnapshot, Drifted, DriftSnapshot, Tightened

if TYPE_CHECKING:
    from speceyes.evals.audit_simulation import Detection, FalseAlarms, Simulation

LOST = {
    "disagreement": "of the accepted answers differ from the agent's",
    "excess": "of the accepted answers are wrong where the agent is right",
    "error": "of the accepted answers are wrong",
}
_WATCHED = {
    "screening": "queries that screening lets through",
    "acceptance": "queries whose draft is accepted",
    "score": "drafts by score",
}


def percent(share: float) -> str:
    """A share with as many digits as it needs: 2 %, 0.35 %, 0.0021 %."""
    if share in (0.0, 1.0):
        return f"{share:.0%}".replace("%", " %")
    digits = max(0, 1 - math.floor(math.log10(100 * share)))
    return f"{100 * share:.{min(digits, 6)}f}".rstrip("0").rstrip(".") + " %" if digits else f"{100 * share:.0f} %"


# A state


def state_report(found: AuditSnapshot) -> RenderableType:
    """Where an audit stands."""
    rows = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 1, 0))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column()
    rows.add_row("promise", f"At most {percent(found.alpha)} {LOST[found.risk]}.")
    rows.add_row("gate", _gate(found))
    rows.add_row("audited", _audited(found))
    if found.threshold is not None:
        rows.add_row("test", _test(found))
        rows.add_row("detector", _detector(found))
        rows.add_row("distance", _distance(found))
    for drift in found.drift:
        rows.add_row(f"drift: {drift.watched}", _drift(drift))
    for alarm in found.alarms:
        rows.add_row(Text("alarm", "bold red"), event_line(alarm))
    return rows


def _gate(found: AuditSnapshot) -> str:
    if found.threshold is None:
        what = "There is no stricter certified threshold left" if found.levels else "No threshold is certified"
        return f"{what}: the gate accepts nothing, and the agent answers all. Calibrate again to change that."
    often = "never tightened" if not found.level else f"tightened {_times(found.level)}"
    left = found.levels - found.level - 1
    then = f"to the next stricter certified threshold ({left} left)" if left else "to accepting nothing"
    return f"Threshold {found.threshold:.4g}, {often}. An alarm tightens it {then}; only a new calibration loosens it."


def _audited(found: AuditSnapshot) -> str:
    if not found.audited + found.missing:
        return "Nothing yet at this threshold."
    text = f"{found.audited:,} accepted queries also went to the agent, {found.losses:,} of them lost"
    if found.rate is not None:
        text += f": {percent(found.rate)}"
    text += "."
    if found.interval is not None:
        low, high = found.interval
        text += (
            f" If the loss rate does not change, it lies between {percent(low)} and {percent(high)} "
            f"({percent(found.confidence)} confidence, however often one looks)."
        )
    if found.missing:
        text += f" {found.missing:,} more have no result, because the agent failed; they count as neither."
    if found.blind:
        text += " That is more than is tolerated: the audit is going blind."
    return text


def _test(found: AuditSnapshot) -> str:
    return (
        f"Evidence that the promise is broken: {found.wealth:.3g}; alarm at {found.alarm_at:,.0f}. It began at 1. "
        f"While the promise holds, the test ever alarms with a probability of at most {percent(found.delta)}."
    )


def _detector(found: AuditSnapshot) -> str:
    text = (
        f"Evidence that it broke recently: {found.detector:.3g}; alarm at {found.detector_alarm_at:,.0f}. While the "
        f"promise holds, false alarms are at least {found.detector_alarm_at - 1:,.0f} audits apart on average."
    )
    return f"{text} It has raised its alarm, and was told only to warn." if found.change_suspected else text


def _distance(found: AuditSnapshot) -> str:
    if found.losses_to_alarm is None:
        return "Over a thousand losses in a row would be needed for an alarm."
    if found.losses_to_alarm == 1:
        return "The next loss would raise an alarm."
    return f"{found.losses_to_alarm} losses in a row would raise an alarm now. Each success moves it away a little."


def _drift(drift: DriftSnapshot) -> str:
    if drift.found is not None:
        return event_line(drift.found)
    if not drift.n:
        return "Nothing seen yet."
    seen = f"As calibrated, after {drift.n:,} queries: evidence {drift.wealth:.3g}, warning at {drift.alarm_at:,.0f}."
    if len(drift.shares) > 1:
        return seen
    (share,), ((low, high),) = drift.shares, drift.ranges
    return f"{percent(share)} (expected: {percent(low)} to {percent(high)}). {seen}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# Events


def events_report(events: Sequence[tuple[int, AuditEvent]]) -> RenderableType:
    """Events, each with the number of its query."""
    if not events:
        return Text("There was no alarm and no warning.\n")
    return Group(*(Text(f"query {index + 1:,}: {event_line(event)}") for index, event in events), Text())


def event_line(event: AuditEvent) -> str:
    """One event in a sentence."""
    match event:
        case Alarm():
            when = f" ({event.at})" if event.at else ""
            return (
                f"The {event.monitor} raised an alarm at threshold {event.threshold:.4g}{when}: "
                f"{event.losses:,} of {event.audited:,} audited queries lost."
            )
        case Tightened(threshold=None):
            return "The gate accepts nothing from now on."
        case Tightened():
            return f"The gate was tightened to threshold {event.threshold:.4g}."
        case AuditsMissing():
            return f"{event.missing:,} of {event.missing + event.audited:,} audits have no result: the agent fails."
        case Drifted():
            low, high = event.expected
            where = "" if event.interval is None else f", interval {event.interval + 1} from below"
            moved = "above" if event.direction == "up" else "below"
            return (
                f"Drift: the share of {_WATCHED[event.watched]}{where} is {moved} the calibration's "
                f"({percent(low)} to {percent(high)}). The promise was made for other traffic; calibrate again."
            )


# A simulation


def simulation_report(found: Simulation, audits_a_day: float | None) -> RenderableType:
    """False alarms, delays, and what they mean at this traffic."""
    lines = [Text(f"{_no_fault(one, found)}\n") for one in found.false_alarms]
    return Group(*lines, _delays(found, audits_a_day), Text(_meaning(found, audits_a_day)))


def _no_fault(one: FalseAlarms, found: Simulation) -> str:
    share, low, high = one.test
    budget = found.plan.delta / max(1, len(found.plan.thresholds))
    worst = ", the worst case" if one.rate == found.plan.alpha else ""
    every = "did not alarm" if one.run_length is None else f"alarmed once in {one.run_length:,.0f} audits"
    return (
        f"Without a fault, at a loss rate of {percent(one.rate)}{worst}: the test alarmed in {share:.1%} of "
        f"{found.streams:,} streams of {found.horizon:,} audits ({low:.1%} to {high:.1%}); promised is at most "
        f"{percent(budget)}. The detector {every}; promised is at most once in {found.plan.mean_run:,}."
    )


def _delays(found: Simulation, audits_a_day: float | None) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.title, table.title_justify = "With a fault", "left"
    columns = ["loss rate", "begins", "noticed", "audits: half", "9 in 10", "lost by then"]
    for column in [*columns, *["days: half", "9 in 10"] * (audits_a_day is not None)]:
        table.add_column(column, justify="right", no_wrap=column == "begins")
    for one in found.detections:
        begins = f"after {one.world.begins:,}" if one.world.begins else "at once"
        lost = "" if one.either.median is None else f"{_lost(one, found):,.0f}"
        delays = (one.either.median, one.either.late)
        cells = ["later" if delay is None else f"{delay:,.0f}" for delay in delays]
        if audits_a_day is not None:
            days = ["later" if delay is None else _days(delay, audits_a_day) for delay in delays]
            table.add_row(percent(one.world.rate), begins, f"{one.either.found:.1%}", *cells, lost, *days)
        else:
            table.add_row(percent(one.world.rate), begins, f"{one.either.found:.1%}", *cells, lost)
    return table


def _meaning(found: Simulation, audits_a_day: float | None) -> str:
    lines = []
    told = [one for one in found.detections if one.either.median is not None]
    if told:
        one = told[len(told) // 2]
        median = one.either.median or 0.0
        begins = f"after {one.world.begins:,} good audits" if one.world.begins else "from the start"
        days = f", {_days(median, audits_a_day)} days at your traffic" if audits_a_day else ""
        lines.append(
            f"So: if the loss rate is {percent(one.world.rate)} {begins}, you would know after a median of "
            f"{median:,.0f} audited queries{days}. About {_lost(one, found):,.0f} of all accepted answers were lost by "
            "then, the unaudited ones included."
        )
    if audits_a_day:
        lines.append(f"The audit costs about {audits_a_day:,.0f} agent runs a day.")
    else:
        lines.append("With --per-day or --qps, and --accept, this is told in days too.")
    return "\n".join(lines)


def _lost(one: Detection, found: Simulation) -> float:
    return (one.either.median or 0.0) / found.plan.share * one.world.rate


def _days(audits: float, audits_a_day: float) -> str:
    days = audits / audits_a_day
    return f"{days:,.0f}" if days >= 10.0 else f"{days:.1f}"
