"""Records of requests, in SQLite or PostgreSQL: what was answered how, so that it can be looked up and learned from.

Needs the extra `gateway`: pip install 'speceyes[gateway]'.
"""

from speceyes.store.database import check_url, default_url, state_folder, what_failed
from speceyes.store.pictures import Pictures
from speceyes.store.record import CLIENT_GONE, AuditOutcome, ImageFacts, RequestRecord, Retention, Selection
from speceyes.store.recorder import Image, Recorder
from speceyes.store.store import Store

__all__ = [
    "CLIENT_GONE",
    "AuditOutcome",
    "Image",
    "ImageFacts",
    "Pictures",
    "Recorder",
    "RequestRecord",
    "Retention",
    "Selection",
    "Store",
    "check_url",
    "default_url",
    "state_folder",
    "what_failed",
]
