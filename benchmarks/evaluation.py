"""The whole evaluation, from files to figures: SpecEyes against all baselines on nano data in three benchmarks' forms.

    python benchmarks/evaluation.py [--questions 60] [--out out/evaluation] [--json FILE]

Three steps for V*, HR-Bench and POPE, with the commands that anybody would use: `speceyes data make` writes the files,
`speceyes eval` lets all systems answer them in turns, `speceyes report` makes the page, one for all sets. The clock
runs from the first file to the last byte of the page.

HR-Bench asks each question in four rows and POPE six about a picture, so these sets have a quarter and a sixth as many
scenes as questions. The gate is the one that ships with the nano pair; its threshold was found on other scenes. With
`--json` the report's tables stand beside the figures, as Markdown. If the run is interrupted, the same command goes on
with it, and the wall time of the whole is then not told.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from machine import line, machine
from speceyes.cli.eval_report import report

SETS = {"vstar": 1, "hrbench": 4, "pope": 6}
"""Questions for each scene, by form."""


def run(*words: object) -> float:
    """Run a `speceyes` command; its wall seconds."""
    command = [sys.executable, "-c", "from speceyes.cli import main; main()", *map(str, words)]
    print(f"$ {shlex.join(['speceyes', *map(str, words)])}", file=sys.stderr, flush=True)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def evaluate(out: Path, form: str, questions: int, chosen: argparse.Namespace) -> dict[str, Any]:
    """One set, from its files to its figures."""
    files, folder, figures = out / f"{form}-files", out / form, out / f"{form}.json"
    resumed = folder.exists()
    making = 0.0
    if not files.exists():
        making = run("data", "make", files, "--format", form, "--count", questions // SETS[form], "--seed", chosen.seed)
    flags: list[object] = ["--systems", chosen.systems, "--concurrency", chosen.concurrency, "--block", chosen.block]
    if chosen.batch:
        flags += ["--batch", chosen.batch]
    asking = run("eval", files, "-o", folder, *flags, "--json", figures)
    summary = json.loads(figures.read_text())
    return {"resumed": resumed, "seconds": {"data": making, "eval": asking}, "summary": summary}


def write_page(out: Path, folders: Sequence[Path]) -> float:
    """One page for all sets."""
    return run("report", *folders, "-o", out / "report.html", "--markdown", out / "report.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=60, help="of each set")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--systems", default="all", help="who is compared, with commas between")
    parser.add_argument("--concurrency", default="1", help="questions under way at a time, with commas between")
    parser.add_argument("--batch", default="1,2,4,8", help="sizes at which screening and drafting alone are timed")
    parser.add_argument("--block", type=int, default=20, help="questions after which systems take turns, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the scenes")
    parser.add_argument("--out", type=Path, default=Path("out/evaluation"), help="folder for files, runs and page")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures here, and the report's tables beside them"
    )
    chosen = parser.parse_args()
    if chosen.questions < max(SETS.values()):
        parser.error(f"--questions needs at least {max(SETS.values())}: POPE asks so many about a picture")
    for folder in (chosen.out, *([chosen.json.parent] if chosen.json else [])):
        folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"questions": chosen.questions, "seed": chosen.seed, "machine": machine(), "sets": {}}
    began = time.monotonic()
    for form in chosen.sets:
        record["sets"][form] = evaluate(chosen.out, form, chosen.questions, chosen)
    record["report_seconds"] = write_page(chosen.out, [chosen.out / form for form in chosen.sets])
    took = time.monotonic() - began
    record["seconds"] = None if any(found["resumed"] for found in record["sets"].values()) else took
    console = Console(highlight=False, width=140)
    for form, found in record["sets"].items():
        console.print(report(found["summary"], chosen.out / form))
    console.print(f"from files to page in {took / 60:.1f} minutes; {chosen.out / 'report.html'}")
    console.print(line(record["machine"]))
    if chosen.json:
        chosen.json.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        shutil.copy(chosen.out / "report.md", chosen.json.with_suffix(".md"))


if __name__ == "__main__":
    main()
