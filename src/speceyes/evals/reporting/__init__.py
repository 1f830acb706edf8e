"""Evaluation runs as a report: a page to read, a table to paste, and JSON.

found = study([folder, ...])            the runs, their columns and figures
write_page(found, gallery(found))       one HTML page that needs nothing else
write_markdown(found)                   for a repository
write_latex(found)                      the main table for a paper
report_json(found)                      for programs
"""

from speceyes.evals.reporting.documents import report_json, write_latex, write_markdown
from speceyes.evals.reporting.page import gallery, write_page
from speceyes.evals.reporting.study import Study, study
from speceyes.evals.reporting.verdict import Verdict, judge

__all__ = [
    "Study",
    "Verdict",
    "gallery",
    "judge",
    "report_json",
    "study",
    "write_latex",
    "write_markdown",
    "write_page",
]
