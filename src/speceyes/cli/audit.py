"""`speceyes audit`: where the standing audit of a gateway stands, and what an audit would notice, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from speceyes.cli import output
from speceyes.errors import ConfigError, InputError

_FAULTS, _TRAFFIC = "What is watched for", "Traffic"
_RATIOS = (1.5, 2.0, 3.0, 5.0)
_SECONDS_A_DAY = 86_400.0


class _StateOrCommand(TyperGroup):
    """`speceyes audit FILE` is short for `show FILE`, and with a folder for `replay FOLDER`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["replay" if Path(args[0]).is_dir() else "show", *args]
        return super().resolve_command(ctx, args)


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    audit = typer.Typer(no_args_is_help=True, cls=_StateOrCommand, subcommand_metavar="STATE.json | RUN | COMMAND ...")
    audit.callback()(_audit)
    audit.command("show")(show)
    audit.command("simulate")(simulate)
    audit.command("replay")(replay)
    app.add_typer(audit, name="audit")


def _audit() -> None:
    """Watch the promise in service: show an audit's state, plan its budget, or replay a recorded run."""


def show(
    state: Annotated[Path, typer.Argument(metavar="STATE", help="File of an audit's state, as the gateway keeps it.")],
    json_target: output.JsonTarget = None,
) -> None:
    """Show where an audit stands, in plain language: what was seen, what would raise the alarm, how far away it is."""
    from speceyes.cli.audit_report import state_report
    from speceyes.gating.audit import load, snapshot

    output.check_target(json_target)
    try:
        text = state.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot read the audit's state {state}: {said}") from error
    found = snapshot(load(text, f"the audit's state {state}"))
    if json_target != output.STDOUT:
        output.console().print(state_report(found))
    output.write_json(json_target, found.as_json())


def simulate(
    alpha: Annotated[float, typer.Option(help="The promised loss rate, at most.", rich_help_panel=_FAULTS)] = 0.02,
    delta: Annotated[
        float, typer.Option(help="Greatest probability of a false alarm, ever.", rich_help_panel=_FAULTS)
    ] = 0.05,
    thresholds: Annotated[
        int, typer.Option(min=1, help="Certified thresholds, which share delta.", rich_help_panel=_FAULTS)
    ] = 1,
    rates: Annotated[
        list[float] | None,
        typer.Option("--rate", help="Loss rate after a fault. Repeatable.", rich_help_panel=_FAULTS),
    ] = None,
    healthy: Annotated[
        float | None, typer.Option(help="Loss rate before it; by default alpha / 2.", rich_help_panel=_FAULTS)
    ] = None,
    begins: Annotated[
        int, typer.Option("--after", min=0, help="Good audits before a late fault.", rich_help_panel=_FAULTS)
    ] = 2000,
    run_length: Annotated[
        int | None,
        typer.Option(help="Audits between the detector's false alarms; by default 200 / alpha."),
    ] = None,
    share: Annotated[
        float, typer.Option(help="Share of the accepted queries that is audited.", rich_help_panel=_TRAFFIC)
    ] = 0.05,
    accepted: Annotated[
        float, typer.Option("--accept", help="Share of all queries that is accepted.", rich_help_panel=_TRAFFIC)
    ] = 0.5,
    per_day: Annotated[float | None, typer.Option(help="Queries a day.", rich_help_panel=_TRAFFIC)] = None,
    qps: Annotated[
        float | None, typer.Option(help="Queries a second, day and night.", rich_help_panel=_TRAFFIC)
    ] = None,
    streams: Annotated[int, typer.Option(min=1, help="Simulated streams for each rate.")] = 1000,
    horizon: Annotated[int | None, typer.Option(min=1, help="Audits in each stream; by default 400 / alpha.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random numbers.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture of the delays (png, svg, pdf).")] = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Simulate how often an audit raises a false alarm, and how soon it notices a fault, at your traffic."""
    from speceyes.cli.audit_report import simulation_report
    from speceyes.evals.audit_simulation import World
    from speceyes.evals.audit_simulation import simulate as run
    from speceyes.gating.audit import AuditPlan

    output.check_target(json_target)
    plan = AuditPlan(
        thresholds=tuple(float(level) for level in range(thresholds)),
        alpha=alpha,
        delta=delta,
        share=share,
        run_length=run_length,
    )
    audits_a_day = _audits_a_day(per_day, qps, accepted, share)
    faults = rates or [min(ratio * alpha, 1.0) for ratio in _RATIOS]
    good = alpha / 2 if healthy is None else healthy
    worlds = [World(rate, good, start) for rate in faults for start in dict.fromkeys((0, begins))]
    draw = _drawing() if out else None
    with _parts(len(worlds) + 2) as advance:
        found = run(
            plan,
            worlds,
            healthy=good,
            streams=streams,
            horizon=horizon or round(400 / alpha),
            seed=seed,
            advance=advance,
        )
    if out and draw:
        draw(found, out, audits_per_day=audits_a_day)
    if json_target != output.STDOUT:
        output.console().print(simulation_report(found, audits_a_day))
        if out:
            typer.echo(f"wrote {out}")
    output.write_json(json_target, {**found.as_json(), "audits_a_day": audits_a_day})


def _audits_a_day(per_day: float | None, qps: float | None, accepted: float, share: float) -> float | None:
    if per_day is not None and qps is not None:
        raise InputError("--per-day and --qps say the same: give one of them")
    queries = qps * _SECONDS_A_DAY if qps is not None else per_day
    if not 0.0 < accepted <= 1.0:
        raise InputError(f"--accept {accepted}: that is not in 0..1, 0 excluded")
    if queries is not None and not 0.0 < queries < float("inf"):
        raise InputError(f"{queries} queries a day: that must be a positive number")
    return None if queries is None else queries * accepted * share


def replay(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a recorded run.")],
    calibration: Annotated[Path, typer.Option(metavar="FILE", help="Thresholds, and what they were made for.")],
    risk: Annotated[str, typer.Option(help="What counts as a loss: disagreement, excess or error.")] = "disagreement",
    alpha: Annotated[float | None, typer.Option(help="Greatest loss rate; by default the calibration's.")] = None,
    share: Annotated[float, typer.Option(help="Share of the accepted queries that is audited.")] = 1.0,
    key: Annotated[str, typer.Option(help="Another one audits other queries.")] = "replay",
    state: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to keep the audit's state.")] = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Send a recorded run through gate and audit: would there have been an alarm, and when?"""
    from speceyes.cli.audit_report import events_report, state_report
    from speceyes.evals.audit_replay import replay as send
    from speceyes.evals.records import load_run
    from speceyes.gating import Calibration
    from speceyes.gating.audit import dump, plan_for, snapshot

    output.check_target(json_target)
    made = Calibration.load(calibration)
    plan = plan_for(made, risk=risk, alpha=alpha, share=share)  # type: ignore[arg-type]  # checked by the plan
    table = load_run(run)
    with _parts(len(table), "replaying") as advance:
        done = send(table, made, plan, key=key, advance=advance)
    if state is not None:
        _write(state, dump(done.state) + "\n")
    found = snapshot(done.state)
    if json_target != output.STDOUT:
        console = output.console()
        console.print(f"{done.accepted:,} of {done.queries:,} recorded queries were accepted\n")
        console.print(events_report(done.events))
        console.print(state_report(found))
    events = [{"query": index, "event": type(event).__name__, **asdict(event)} for index, event in done.events]
    output.write_json(
        json_target,
        {"queries": done.queries, "accepted": done.accepted, "events": events, "audit": found.as_json()},
    )


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="ascii")
    except OSError as error:
        raise ConfigError(f"--state {path}: cannot be written ({error.strerror or error})") from error


def _drawing() -> Callable[..., None]:
    """The function that draws. ConfigError where matplotlib is missing, before any work is done."""
    try:
        from speceyes.evals.audit_picture import draw_simulation
    except ImportError as error:
        raise ConfigError(
            f"--out draws with matplotlib, and that is not installed ({error}): pip install 'speceyes[evals]'"
        ) from error
    return draw_simulation


@contextmanager
def _parts(total: int, what: str = "simulating") -> Iterator[Callable[[], None]]:
    """A progress bar on standard error; silent where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(what, total=total)
        yield lambda: bars.advance(task)
