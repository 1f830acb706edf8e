"""Attacks and accidents that every sandbox has to withstand, as named checks.

`checks.py` is what a check is, `host.py` what is planted outside, `suite.py` runs all; the others hold the checks, each
what its name says. `speceyes sandbox check` runs them on every provider that works on this machine.
"""

from speceyes.sandbox.conformance.suite import CHECKS, Report, Result, check_provider

__all__ = ["CHECKS", "Report", "Result", "check_provider"]
