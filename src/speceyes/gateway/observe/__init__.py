"""What the gateway tells about itself: metrics, a log line and a record a request, traces.

observer.py      the one object that the gateway talks to
observation.py   one request: what is noted while it runs, and the record that comes of it
metrics.py       Prometheus metrics; gauges.py those that are read when somebody scrapes
logs.py          one line of JSON a request
telemetry.py     OpenTelemetry spans; propagation.py carries a caller's trace to the upstream servers
savings.py       the estimate of the time saved
opening.py       from settings to an observer
"""

from speceyes.gateway.observe.gauges import Gauges, Pool
from speceyes.gateway.observe.logs import RequestLog
from speceyes.gateway.observe.metrics import CONTENT_TYPE, Metrics
from speceyes.gateway.observe.observation import Agree, Observation
from speceyes.gateway.observe.observer import Observer
from speceyes.gateway.observe.opening import open_observer
from speceyes.gateway.observe.telemetry import Telemetry, open_telemetry

__all__ = [
    "CONTENT_TYPE",
    "Agree",
    "Gauges",
    "Metrics",
    "Observation",
    "Observer",
    "Pool",
    "RequestLog",
    "Telemetry",
    "open_observer",
    "open_telemetry",
]
