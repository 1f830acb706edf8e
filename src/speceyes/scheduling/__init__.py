"""When things run: bounded concurrency."""

from speceyes.scheduling.slots import Slots

__all__ = ["Slots"]
