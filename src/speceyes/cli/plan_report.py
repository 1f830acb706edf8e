"""What `speceyes plan` shows in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from speceyes.evals.simulation import Forecast, Row

_COLUMNS = (
    ("system", "left"),
    ("draft + agent", "right"),
    ("queries/s", "right"),
    ("mean s", "right"),
    ("p50", "right"),
    ("p95", "right"),
    ("p99", "right"),
    ("draft used", "right"),
    ("agent used", "right"),
    ("by draft", "right"),
    ("speedup", "right"),
    ("of the law", "right"),
)


def report(made: Forecast) -> Any:
    """The table, with what was simulated before it and what to know behind it."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from speceyes.evals.simulation.report import notes

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title, side in _COLUMNS:
        table.add_column(title, justify="left" if side == "left" else "right", no_wrap=True)
    for row in made.rows:
        table.add_row(*_cells(made, row))
    parts: list[Any] = [Text(_headline(made), "bold"), Text(_law(made), "dim"), Text(""), table, Text("")]
    for row in made.rows:
        if not row.found.feasible:
            parts.append(Text(f"{row.system}: the limits are out of reach: {row.found.why}.", "yellow"))
        elif row.found.simulated.overloaded:
            parts.append(Text(f"{row.system}: queries come faster than they are answered; latency grows on.", "yellow"))
    return Group(*parts, *(Text(f"- {note}", "dim") for note in notes(made)))


def _headline(made: Forecast) -> str:
    from speceyes.evals.simulation import Closed

    arrivals = made.rows[0].found.scenario.arrivals
    load = f"{arrivals.clients} clients" if isinstance(arrivals, Closed) else f"{arrivals.rate:,g} queries a second"
    if made.limits is None:
        return f"{load}, on the servers given"
    target = "" if made.limits.p95 is None else f" and 95 % of the queries under {made.limits.p95:g} s"
    return f"{load}: the fewest servers used up to {100 * made.limits.utilisation:.0f} %{target}"


def _law(made: Forecast) -> str:
    chances = made.workload.chances
    honest = "no bound" if made.law_honest is None else f"{made.law_honest:.2f}"
    ideal = "no bound" if made.law_ideal is None else f"{made.law_ideal:.2f}"
    return (
        f"{len(made.workload.queries):,} recorded queries; screening lets {chances.let_through:.0%} through, the draft "
        f"answers {1.0 - made.workload.left_over:.0%}; speedup by the honest law {honest}, by the ideal one {ideal}"
    )


def _cells(made: Forecast, row: Row) -> list[str]:
    from speceyes.evals.simulation.report import throughput

    found = row.found.simulated
    draft, agent = row.replicas
    share = made.share_of_law(row)
    latencies = [found.mean, *(found.quantile(share) for share in (0.5, 0.95, 0.99))]
    return [
        row.system.value,
        f"{draft:,} + {agent:,}" if draft else f"{agent:,}",
        f"{throughput(row.found):,.4g}" if throughput(row.found) < 1000 else f"{throughput(row.found):,.0f}",
        *("grows" if found.overloaded else f"{seconds:.3g}" for seconds in latencies),
        f"{found.draft_utilisation:.0%}" if draft else "-",
        f"{found.agent_utilisation:.0%}",
        f"{found.by_draft:.0%}",
        "-" if row.speedup is None else f"{row.speedup:.2f}",
        "-" if share is None else f"{share:.2f}",
    ]
