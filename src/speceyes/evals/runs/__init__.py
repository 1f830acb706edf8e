"""Evaluation runs: several systems answer one data set, and every answer is kept.

    run = open_run(folder)      an `EvalRun`, checked: its header, questions, results and laps
    summarise(run)              its figures, as `summary.json` holds them

`format` says what the files hold.
"""

from speceyes.evals.runs.format import Header, Judged, Lap, Result, Sample, TurnLine
from speceyes.evals.runs.loading import EvalRun, open_run
from speceyes.evals.runs.summary import summarise

__all__ = ["EvalRun", "Header", "Judged", "Lap", "Result", "Sample", "TurnLine", "open_run", "summarise"]
