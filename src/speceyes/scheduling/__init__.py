"""When things run, and for how long: bounded concurrency, deadlines."""

from speceyes.scheduling.deadlines import deadline
from speceyes.scheduling.slots import Slots

__all__ = ["Slots", "deadline"]
