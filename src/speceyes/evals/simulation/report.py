"""A forecast as JSON, and what must be said about it."""

from __future__ import annotations

from typing import Any

from speceyes.evals.simulation.arrivals import Closed
from speceyes.evals.simulation.batching import BatchingCurve
from speceyes.evals.simulation.capacity import Found
from speceyes.evals.simulation.demand import System, least_demand
from speceyes.evals.simulation.forecast import Forecast, Row

FORMAT = 1
"""Version of the JSON's layout; `docs/capacity.md` describes it."""
FEW = 50


def forecast_json(made: Forecast) -> dict[str, Any]:
    """Everything that a forecast found, as strict JSON: null stands for what is not known or has no bound."""
    scenario, times, chances = made.rows[0].found.scenario, made.workload.times, made.workload.chances
    arrivals = scenario.arrivals
    return {
        "format": FORMAT,
        "workload": {
            "queries": len(made.workload.queries),
            "left_out": made.workload.left_out,
            "concurrency": made.workload.concurrency,
            "seconds": {name: getattr(times, name) for name in times.__dataclass_fields__},
            "chances": {name: getattr(chances, name) for name in chances.__dataclass_fields__},
            "left_over": made.workload.left_over,
        },
        "arrivals": {"clients": arrivals.clients}
        if isinstance(arrivals, Closed)
        else {"rate": arrivals.rate, "burstiness": arrivals.burstiness},
        "batching": {"draft": _curve(scenario.draft.curve), "agent": _curve(scenario.agent.curve)},
        "limits": None if made.limits is None else {"utilisation": made.limits.utilisation, "p95_s": made.limits.p95},
        "seed": scenario.seed,
        "law": {"honest": made.law_honest, "ideal": made.law_ideal},
        "notes": notes(made),
        "systems": {row.system.value: _row(made, row) for row in made.rows},
    }


def _row(made: Forecast, row: Row) -> dict[str, Any]:
    found, (draft, agent) = row.found, row.replicas
    seen = found.simulated
    return {
        "replicas": {"draft": draft, "agent": agent},
        "feasible": found.feasible,
        "why_not": found.why or None,
        "overloaded": seen.overloaded,
        "throughput": throughput(found),
        "latency_s": {
            "mean": seen.mean,
            **{f"p{round(100 * share)}": seen.quantile(share) for share in (0.5, 0.95, 0.99)},
        },
        "utilisation": {"draft": seen.draft_utilisation, "agent": seen.agent_utilisation},
        "utilisation_by_work": _by_work(made, row),
        "work_s": {"draft": seen.draft_work, "agent": seen.agent_work},
        "by_draft": seen.by_draft,
        "inside": seen.inside / found.share,
        "speedup": row.speedup,
        "share_of_law": made.share_of_law(row),
        "simulated": {"queries": len(seen.latencies), "seconds": seen.seconds, "share_of_servers": found.share},
    }


def throughput(found: Found) -> float:
    """Answers a second of all the servers, of which a part may have been simulated."""
    return found.simulated.throughput / found.share


def _by_work(made: Forecast, row: Row) -> dict[str, float] | None:
    """Utilisation without a simulation: work that comes in over what the servers can do. Of an open loop."""
    scenario = row.found.scenario
    if isinstance(scenario.arrivals, Closed) or scenario.system is System.AUTO:
        return None
    asked, rate = least_demand(scenario.system, made.workload), scenario.arrivals.rate
    return {
        "draft": rate * float(asked.draft.mean()) / scenario.draft.capacity,
        "agent": rate * float(asked.agent.mean()) / scenario.agent.capacity,
    }


def _curve(curve: BatchingCurve) -> dict[str, Any]:
    return {"name": curve.name, "points": [list(point) for point in curve.points], "slots": curve.slots}


def notes(made: Forecast) -> list[str]:
    """What a reader must know before believing a figure."""
    workload, found = made.workload, []
    if workload.left_out:
        found.append(
            f"{workload.left_out} of {workload.left_out + len(workload.queries)} records lack a phase and are left "
            "out. Where those are answers of drafts in service, what is left is not the traffic."
        )
    if len(workload.queries) < FEW:
        found.append(f"Few records ({len(workload.queries)}): the tails of the latencies are not in them.")
    if workload.concurrency is not None and workload.concurrency > 1:
        found.append(
            f"The records were made with {workload.concurrency} queries at a time, so their seconds hold waiting, "
            "which is counted once more here. Record with --concurrency 1."
        )
    shares = [row.found.share for row in made.rows if row.found.share < 1.0]
    if shares:
        found.append(
            f"Of the larger fleets a part was simulated ({min(shares):.1%} or more of their servers), with the load "
            "scaled down alike; it waits a little longer than the whole would."
        )
    found.append(f"Batching is taken to be {made.rows[0].found.scenario.agent.curve.name}; the servers were not asked.")
    return found
