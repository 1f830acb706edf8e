"""The conformance suite of dialects: right turns, wrong ones, and what a run makes of them.

    checks = await check_dialect(make_dialect("qwen3vl"))

It writes turns as a model of the family would, and as models really do when they get it wrong, and drives the agent's
loop with them, the dialect's own tools included. Every wrong turn must become an observation that the model sees, or a
call that was mended; never an exception, never a lost turn, and no tag may reach the user. No model is needed.

A dialect of your own is checked alike, as long as it can also write: see `Writer`.
"""

from speceyes.agents.dialects.conformance.stage import Check, Writer
from speceyes.agents.dialects.conformance.stand_in import StandInPython, dialect_to_check
from speceyes.agents.dialects.conformance.suite import check_dialect

__all__ = ["Check", "StandInPython", "Writer", "check_dialect", "dialect_to_check"]
