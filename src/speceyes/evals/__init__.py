"""The evaluation kit: data sets, scoring, baselines, records and reports."""
