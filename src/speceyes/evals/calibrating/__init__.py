"""From a recorded run to a calibration with a guarantee, and to a page that says in plain words what it promises.

The statistics are in `speceyes.gating.certify`; here stands what joins them to records and to people. Needs the extra
`evals`.
"""

from speceyes.evals.calibrating.calibrate import Calibrated, Method, calibrate, make_calibration
from speceyes.evals.calibrating.evidence import Coverage, Evidence, GateSetting, collect
from speceyes.evals.calibrating.page import write_page
from speceyes.evals.calibrating.words import summary_lines

__all__ = [
    "Calibrated",
    "Coverage",
    "Evidence",
    "GateSetting",
    "Method",
    "calibrate",
    "collect",
    "make_calibration",
    "summary_lines",
    "write_page",
]
