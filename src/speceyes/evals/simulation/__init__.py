"""A discrete-event simulator of SpecEyes' servers: recorded service times in, throughput, latency and replicas out.

It runs on SimPy, which comes with the extra `evals`.
"""

from speceyes.evals.simulation.arrivals import Arrivals, Closed, Open
from speceyes.evals.simulation.batching import BatchingCurve, read_batching
from speceyes.evals.simulation.capacity import Found, Limits, Search
from speceyes.evals.simulation.demand import Demand, System, demand, law_honest, least_seconds
from speceyes.evals.simulation.forecast import SHOWN, Forecast, Row, forecast
from speceyes.evals.simulation.representative import representative
from speceyes.evals.simulation.scenario import Scenario
from speceyes.evals.simulation.servers import Servers
from speceyes.evals.simulation.sharing import mean_calls
from speceyes.evals.simulation.simulate import Simulated, simulate
from speceyes.evals.simulation.workload import QueryTimes, Workload, load_workload

__all__ = [
    "SHOWN",
    "Arrivals",
    "BatchingCurve",
    "Closed",
    "Demand",
    "Forecast",
    "Found",
    "Limits",
    "Open",
    "QueryTimes",
    "Row",
    "Scenario",
    "Search",
    "Servers",
    "Simulated",
    "System",
    "Workload",
    "demand",
    "forecast",
    "law_honest",
    "least_seconds",
    "load_workload",
    "mean_calls",
    "read_batching",
    "representative",
    "simulate",
]
