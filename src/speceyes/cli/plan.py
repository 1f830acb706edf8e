"""`speceyes plan RECORD`: what a load needs and what it gets, simulated from recorded service times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speceyes.cli import options, output
from speceyes.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from speceyes.evals.simulation import Arrivals, Forecast, System

_LOAD, _SERVERS = "Load", "Servers"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    record: Annotated[Path, typer.Argument(metavar="RECORD", help="A folder that `speceyes record` filled.")],
    rate: Annotated[
        float | None, typer.Option(metavar="QPS", help="Queries a second that come at random.", rich_help_panel=_LOAD)
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(min=1, help="Or clients that wait for their answers; 8 without --rate.", rich_help_panel=_LOAD),
    ] = None,
    burstiness: Annotated[
        float, typer.Option(help="Of the gaps, with --rate: 1 is a Poisson process.", rich_help_panel=_LOAD)
    ] = 1.0,
    plans: Annotated[
        list[str] | None,
        typer.Option(
            "--plan",
            metavar="NAME",
            help="agent, published, paper, draft-first, parallel, hedged, no-screen, auto, or all: all but no-screen. "
            "Repeatable.",
        ),
    ] = None,
    draft_replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Draft servers. Not given: with --rate searched.", rich_help_panel=_SERVERS),
    ] = None,
    agent_replicas: Annotated[
        int | None,
        typer.Option(min=1, help="Agent servers. Not given: with --rate searched.", rich_help_panel=_SERVERS),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, help="Calls that a server runs at a time.", rich_help_panel=_SERVERS)
    ] = None,
    batching: Annotated[
        str,
        typer.Option(
            metavar="CURVE",
            help="How calls on one server slow one another down: cpu, cpu:CORES, gpu, gpu:KNEE, alone, or a JSON file.",
            rich_help_panel=_SERVERS,
        ),
    ] = "cpu",
    target_p95: Annotated[
        float | None, typer.Option(metavar="S", help="Find replicas with which 95 % of the queries take no longer.")
    ] = None,
    utilisation: Annotated[float, typer.Option(help="Find replicas that are used no more than this.")] = 0.8,
    queries: Annotated[int, typer.Option(min=100, metavar="N", help="Of each simulation, at least.")] = 4000,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw and of the arrivals.")] = 0,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw latency against load on these servers (png).")
    ] = None,
    calibration: options.CalibrationFile = None,
    threshold: options.Threshold = None,
    k: options.LogprobCount = None,
    max_depth: options.MaxDepth = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
    json_target: output.JsonTarget = None,
) -> None:
    """Predict throughput, latency and the servers that a load needs, from a record's times. No model is asked."""
    output.check_target(json_target)
    _check(rate, clients, target_p95, utilisation, draft_replicas, agent_replicas, picture)
    given = {"gate.calibration": calibration, "gate.threshold": threshold, "gate.k": k}
    given |= {"speculation.max_depth": max_depth}
    settings = options.read_settings(config, assignments, given)
    _need_extra()

    from speceyes.cli.plan_report import report
    from speceyes.evals.simulation import (
        Closed,
        Limits,
        Open,
        Scenario,
        Servers,
        forecast,
        load_workload,
        read_batching,
    )
    from speceyes.evals.simulation.report import forecast_json
    from speceyes.wiring import find_calibration

    arrivals: Arrivals = Closed(clients or 8) if rate is None else Open(rate, burstiness)
    systems = _systems(plans)
    draft_curve, agent_curve = read_batching(batching, slots)
    draft, agent = Servers(draft_replicas or 1, draft_curve), Servers(agent_replicas or 1, agent_curve)
    scenario = Scenario(systems[0], draft, agent, arrivals, queries=queries, seed=seed)
    with output.working("Reading the record") as say:
        workload = load_workload(record, find_calibration(settings), settings.speculation.max_depth)
        runs = 0

        def told(system: System) -> None:
            nonlocal runs
            runs += 1
            say(f"Simulating {system}: {runs} runs so far")

        made = forecast(
            workload,
            scenario,
            systems,
            limits=Limits(utilisation, target_p95),
            fixed_draft=draft_replicas is not None or rate is None,
            fixed_agent=agent_replicas is not None or rate is None,
            told=told,
        )
        if picture is not None:
            _draw(made, picture, told)
    if json_target != output.STDOUT:
        screen = output.console()
        screen.print(report(made))
        if picture is not None:
            screen.print(f"wrote {picture}", style="dim")
    output.write_json(json_target, forecast_json(made))


def _systems(names: list[str] | None) -> list[System]:
    from speceyes.evals.simulation import SHOWN, System

    found: list[System] = []
    for name in names or ["all"]:
        if name == "all":
            found += SHOWN
        elif name in list(System):
            found.append(System(name))
        else:
            raise ConfigError(f"--plan {name}: there is no such plan. Name one of {', '.join(System)}, or all")
    return found


def _draw(made: Forecast, path: Path, told: Callable[[System], None]) -> None:
    """On the servers that were given, or else on those that the agent alone needs and the most that a draft needs."""
    from dataclasses import replace

    from speceyes.evals.simulation.load_curves import load_chart, load_curves

    agent = made.rows[0].found.scenario
    draft = max((row.found.scenario.draft for row in made.rows), key=lambda servers: servers.replicas)
    scenario = replace(agent, draft=draft)
    chart = load_chart(load_curves(made.workload, scenario, [row.system for row in made.rows], told=told), scenario)
    try:
        path.write_bytes(chart.png)
    except OSError as error:
        raise ConfigError(f"--picture {path}: cannot be written ({error.strerror or error})") from error


def _check(
    rate: float | None,
    clients: int | None,
    target_p95: float | None,
    utilisation: float,
    draft_replicas: int | None,
    agent_replicas: int | None,
    picture: Path | None,
) -> None:
    if rate is not None and clients is not None:
        raise ConfigError("--rate and --clients are two kinds of load: give one of them")
    if target_p95 is not None and (rate is None or (draft_replicas and agent_replicas)):
        raise ConfigError("--target-p95 is for finding replicas: give --rate, and leave one number of replicas out")
    if target_p95 is not None and target_p95 <= 0:
        raise ConfigError(f"--target-p95 {target_p95:g}: that must be more than 0 seconds")
    if not 0.0 < utilisation < 1.0:
        raise ConfigError(f"--utilisation {utilisation:g}: that must be between 0 and 1")
    if picture is not None and (picture.is_dir() or not picture.absolute().parent.is_dir()):
        raise ConfigError(f"--picture {picture}: name a file in a folder that is there")


def _need_extra() -> None:
    try:
        import matplotlib  # noqa: F401
        import simpy  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"simulations need libraries that are not installed ({error}): pip install 'speceyes[evals]'"
        ) from error
