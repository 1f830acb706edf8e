"""Scoring rules side by side: the table of the documentation, and the compatible rules against the originals.

    python benchmarks/scorer_parity.py                              print the table of `scorer_cases.json`
    python benchmarks/scorer_parity.py --docs docs/scoring.md       write it there, between its two marks
    python benchmarks/scorer_parity.py --originals DIR [--answers 20000] [--json FILE]

DIR holds other people's code, unpacked and not installed: `lmms_eval/` and `vlmeval/` as in their wheels, and POPE's
script as `pope_evaluate.py` if it is to be compared. Of their files only the scoring functions are read and run, on
generated answers and on the table's. Every answer on which ours and theirs differ is counted and shown.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import io
import json
import os
import random
import re
import string
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from speceyes.evals.scoring import REFUSAL, Mark, Rule, averages, failed, pope_metrics, score_answer

CASES = Path(__file__).with_name("scorer_cases.json")
FIGURES = Path(__file__).with_name("scorer_parity.json")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
COLUMNS = {
    "strict": (Rule.STRICT, "vstar", "strict"),
    "lmms": (Rule.LMMS, "vstar", "lmms"),
    "lmms-hrbench": (Rule.LMMS, "hrbench", "lmms, HR-Bench"),
    "vlmevalkit": (Rule.VLMEVALKIT, "mcq", "vlmevalkit"),
    "pope": (Rule.POPE, "pope", "pope"),
}
"""Name in the cases' file: rule, kind of question, heading."""

Case = dict[str, Any]
Differences = dict[str, list[str]]


def read_cases() -> list[Case]:
    """Answers, right answers, options, what each rule makes of it, and why they differ."""
    return json.loads(CASES.read_text(encoding="utf-8"))


def read_figures() -> dict[str, Any]:
    """What the last comparison with the originals found."""
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def parity_table(record: dict[str, Any]) -> str:
    """How many answers were read alike, in Markdown."""
    lines = ["| original | answers | read alike |", "|---|---|---|"]
    for name, found in record["compared"].items():
        same = found["answers"] - len(found["differences"])
        lines.append(f"| {name} | {found['answers']:,} | {same:,} |")
    return "\n".join(lines)


def mark(case: Case, column: str) -> Mark:
    """What one rule says today."""
    rule, kind, _ = COLUMNS[column]
    return score_answer(case["answer"], (case["gold"], case["options"]), rule, kind=kind)


def table(cases: Sequence[Case]) -> str:
    """Both tables in Markdown: questions with options, and yes/no."""
    colours = "Options: A blue, B green, C red, D white. Right is C."
    parts = [(colours, [c for c in cases if c["options"][:1] == ["blue"] and c["gold"] == "C"])]
    parts += [("Other options and other right answers.", [c for c in cases if c["options"] and c not in parts[0][1]])]
    parts += [("Yes or no.", [c for c in cases if not c["options"]])]
    return "\n\n".join(f"{title}\n\n{_rows(part, title.startswith('Other'))}" for title, part in parts)


def _rows(cases: Sequence[Case], with_options: bool) -> str:
    columns = list(cases[0]["marks"])
    right = with_options or not cases[0]["options"]
    heads = ["answer", *(["right"] if right else []), *(COLUMNS[name][2] for name in columns), "why they differ"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for case in cases:
        gold = f"{case['gold']} of {', '.join(case['options'])}" if with_options else case["gold"]
        said = [_cell(*case["marks"][name], case["gold"]) for name in columns]
        lines.append(
            "| "
            + " | ".join([_code(case["answer"]), *([gold] if right else []), *said, case["why"].replace("*", "\\*")])
            + " |"
        )
    return "\n".join(lines)


def _cell(parsed: str | None, how: str, gold: str) -> str:
    if parsed is None:
        return "*refusal*" if how == REFUSAL else "-"
    return f"**{parsed}**" if parsed == gold else parsed


def _code(text: str) -> str:
    return f"`{text}`".replace("\n", "⏎").replace("|", "\\|") if text else "*(empty)*"


def write_docs(page: Path, cases: Sequence[Case]) -> None:
    """Put the table between its marks."""
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(cases)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def originals(file: Path, names: Sequence[str], **space: Any) -> SimpleNamespace:
    """Functions or classes of a file, run without the rest of it and without what it imports."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    kept = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names]
    found = {"re": re, "os": os, "cp": copy, "string": string, "defaultdict": defaultdict, **space}
    exec(compile(ast.Module(kept, []), str(file), "exec"), found)
    return SimpleNamespace(**{name: found[name] for name in names})


OPTIONS = (
    ["blue", "green", "red", "white"],
    ["left of the car", "right of the car"],
    ["2", "12", "20", "22"],
    ["The dog is in front of the tree.", "The dog is behind the tree.", "There is no dog."],
    ["A", "B", "C", "D"],
)
_LEADS = (
    "",
    "The answer is ",
    "Answer: ",
    "answer: ",
    "I think it is ",
    "Based on the picture, ",
    "Option ",
    "It is not ",
)
_TAILS = (
    "",
    ".",
    ")",
    " because it is near.",
    ", yes",
    " or so",
    "!",
    "\n",
    ". The rest of the scene does not matter here.",
)
_FORMS = "{}", "({})", "**{}**", "[{}]", "{}:", "{}.", "'{}'", "#{}", "{{{}}}", "\\boxed{{{}}}"
_SAID = "yes", "no", "Yes", "No", "not", "YES", "none", "notice", "know", "a", "dog", "there", "is", "1,000", "Indeed"
_GLUE = " ", " ", " ", ", ", ". ", "-", "/", "! ", "\n", ",", "? ", "; ", "**", ": ", "'"
_PHRASES = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "Failed to obtain answer via API.",
    "Z",
    "I see a cat and a dog.",
)


def generate(rng: random.Random, options: Sequence[str]) -> str:
    """An answer such as models write it, and many that none ever wrote."""
    if not options:
        return "".join(rng.choice(_SAID) + rng.choice(_GLUE) for _ in range(rng.randint(0, 6))) + rng.choice(_SAID)
    letters = string.ascii_uppercase[: len(options) + rng.randint(0, 1)]
    words = [rng.choice([*letters, *letters, *options, *letters.lower()]) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    said = rng.choice((" ", " or ", " and ", ", ", ". ")).join(rng.choice(_FORMS).format(word) for word in words)
    text = rng.choice(_LEADS) + said + rng.choice(_TAILS)
    return rng.choice(
        (text, text, text, text.lower(), text.upper(), f"{rng.choice(_PHRASES)} {text}", rng.choice(_PHRASES))
    )


def compare(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Ours against theirs, on `count` generated answers with options and as many without, and on the table's."""
    rng = random.Random(seed)
    asked = [(generate(rng, options), options) for options in (rng.choice(OPTIONS) for _ in range(count))]
    asked += [(generate(rng, []), []) for _ in range(count)]
    asked += [(case["answer"], case["options"]) for case in read_cases()]
    theirs = _scorers(folder)
    differences: Differences = {name: [] for name in theirs}
    tried: Counter[str] = Counter()
    for answer, options in asked:
        for name, (column, with_options, score) in theirs.items():
            if with_options != bool(options):
                continue
            rule, kind, _ = COLUMNS[column]
            found = score_answer(answer, (None, options), rule, kind=kind)
            ours = "Z" if found.how == REFUSAL else found.parsed
            tried[name] += 1
            if ours != (other := score(answer, options)):
                differences[name].append(f"{answer!r} of {options}: ours {ours}, theirs {other}")
    return {
        "answers": len(asked),
        "seed": seed,
        "versions": _versions(folder),
        "compared": {name: {"answers": tried[name], "differences": found} for name, found in differences.items()},
        "figures": _figures(folder, rng),
    }


def _scorers(folder: Path) -> dict[str, tuple[str, bool, Callable[[str, Sequence[str]], str | None]]]:
    tasks, kit = folder / "lmms_eval" / "tasks", folder / "vlmeval"
    vstar = originals(tasks / "vstar_bench" / "utils.py", ["extract_answer_letter"])
    pope = originals(tasks / "pope" / "utils.py", ["pope_process_results"])
    judge = originals(tasks / "hrbench" / "hrbench_evals.py", ["HRBenchEval"]).HRBenchEval("")
    names = ["can_infer_option", "can_infer_text", "can_infer"]
    matching = originals(kit / "utils" / "matching_util.py", names)
    misc = originals(kit / "smp" / "misc.py", ["process_punctuation"])
    yorn = originals(kit / "dataset" / "utils" / "yorn.py", ["YOrN_Extraction"], **vars(misc))

    def lmms_pope(answer: str, options: Sequence[str]) -> str | None:
        row = pope.pope_process_results({"answer": "yes", "question_id": "1"}, [answer])["pope_accuracy"]
        return row["prediction"] if row["prediction"] in ("yes", "no") else None

    def letters(options: Sequence[str]) -> dict[str, str]:
        return dict(zip(string.ascii_uppercase, options, strict=False))

    found: dict[str, tuple[str, bool, Callable[[str, Sequence[str]], str | None]]] = {
        "lmms-eval vstar_bench": ("lmms", True, lambda a, o: vstar.extract_answer_letter(a)),
        "lmms-eval hrbench": ("lmms-hrbench", True, lambda a, o: judge.can_infer(a.strip(), letters(o)) or None),
        "lmms-eval pope": ("lmms", False, lmms_pope),
        "VLMEvalKit can_infer": ("vlmevalkit", True, lambda a, o: matching.can_infer(a, letters(o)) or None),
        "VLMEvalKit YOrN_Extraction": (
            "vlmevalkit",
            False,
            lambda a, o: {"Yes": "yes", "No": "no"}.get(yorn.YOrN_Extraction(a)),
        ),
    }
    if (folder / "pope_evaluate.py").exists():
        script = (folder / "pope_evaluate.py").read_text()
        found["POPE evaluate.py"] = ("pope", False, lambda a, o: _script(script, [a], ["yes"])[0][0])
    return found


def _script(source: str, answers: Sequence[str], labels: Sequence[str]) -> tuple[list[str], dict[str, float]]:
    """Run POPE's script: what it reads, and the figures that it prints."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"ans_file": ("answer", answers), "label_file": ("label", labels)}
        for name, (key, values) in files.items():
            path = Path(folder) / name
            path.write_text("".join(json.dumps({key: value}) + "\n" for value in values))
            source = source.replace(f"{name} = ''", f"{name} = {str(path)!r}")
        said, space = io.StringIO(), {}
        with contextlib.redirect_stdout(said), contextlib.suppress(ZeroDivisionError):
            exec(compile(source, "pope_evaluate.py", "exec"), space)
    printed = dict(re.findall(r"^(\w[\w ]+): ([\d.]+)$", said.getvalue(), re.MULTILINE))
    return [row["answer"] for row in space["answers"]], {name: float(value) for name, value in printed.items()}


def _figures(folder: Path, rng: random.Random) -> dict[str, int]:
    """How many sets of answers had the same figures by ours and by theirs, to 12 digits."""
    import numpy as np
    import pandas as pd

    tasks, kit = folder / "lmms_eval" / "tasks", folder / "vlmeval" / "dataset" / "utils"
    names = [f"pope_aggregate_{name}" for name in ("accuracy", "precision", "recall", "f1_score", "yes_ratio")]
    lmms = originals(tasks / "pope" / "utils.py", names, pope_aggregate_precision=None)
    rating = originals(kit / "yorn.py", ["POPE_rating"], np=np, pd=pd, load=lambda frame: frame).POPE_rating
    hr = originals(kit / "hrbench.py", ["report_acc_hrbench", "hrbench_score"], np=np, pd=pd).report_acc_hrbench
    cycles = originals(tasks / "hrbench" / "utils.py", ["hrbench_aggregate_results"]).hrbench_aggregate_results
    script = folder / "pope_evaluate.py"
    same: Counter[str] = Counter()
    for _ in range(200):
        rows = _yes_no_rows(rng)
        golds, texts = [gold for gold, _ in rows], [text for _, text in rows]
        ours = pope_metrics(_marked(rows, Rule.LMMS), Rule.LMMS)
        theirs = [
            {"ground_truth": g, "prediction": t.lower().strip(), "score": g == t.lower().strip()} for g, t in rows
        ]
        mine = (ours.accuracy, ours.precision, ours.recall, ours.f1, ours.label_yes_ratio)
        same["lmms-eval pope"] += _equal(mine, [getattr(lmms, name)(theirs) for name in names])
        pairs = _marked(rows, Rule.VLMEVALKIT)
        kit_rows = {
            "category": ["all"] * len(rows),
            "answer": [gold.title() for gold in golds],
            "extracted": [(mark.parsed or "Unknown").title() for _, mark in pairs],
            "score": [mark.right for _, mark in pairs],
        }
        line = rating(pd.DataFrame(kit_rows)).iloc[0]
        ours = pope_metrics(pairs, Rule.VLMEVALKIT)
        other = [line[name] / 100 for name in ("acc", "precision", "recall", "Overall")]
        same["VLMEvalKit POPE_rating"] += _equal((ours.accuracy, ours.precision, ours.recall, ours.f1), other)
        if script.exists():
            printed = _script(script.read_text(), texts, golds)[1]
            ours = pope_metrics(_marked(rows, Rule.POPE), Rule.POPE)
            mine = (ours.accuracy, ours.precision, ours.recall, ours.f1, ours.yes_ratio)
            heads = ("Accuracy", "Precision", "Recall", "F1 score", "Yes ratio")
            # Without a rightly said yes it divides by zero, and prints nothing.
            agree = _equal(mine, [printed[name] for name in heads]) if printed else ours.true_yes == 0
            same["POPE evaluate.py"] += agree
        askings = list(_rotated(rng))
        found = averages(askings)
        frame = pd.DataFrame(
            [{"cycle_category": i.cycle, "category": i.category, "hit": int(m.right or 0)} for i, m in askings]
        )
        report = hr(frame)
        mean = report[report["cycle"] == "Average"].set_index("type")["accuracy"]
        mine = (found.each_rotation.value, *(found.categories[n].each_rotation.value for n in ("cross", "single")))
        same["VLMEvalKit report_acc_hrbench"] += _equal(mine, [mean[name] for name in ("all", "cross", "single")])
        scores = [{"gpt_score": int(m.right or 0), "cycle_category": i.cycle} for i, m in askings]
        same["lmms-eval hrbench_aggregate_results"] += _equal((found.each_rotation.value,), [cycles(scores, None)])
    return {"sets": 200, **same}


def _yes_no_rows(rng: random.Random) -> list[tuple[str, str]]:
    texts = ("yes", "no", "Yes", "No.", "no", "yes", "perhaps", "Yes, no doubt", "there is not")
    return [(rng.choice(("yes", "no")), rng.choice(texts)) for _ in range(rng.randint(20, 60))]


def _marked(rows: Sequence[tuple[str, str]], rule: Rule) -> list[tuple[Any, Mark]]:
    return [(_item(str(i), g), score_answer(t, (g, ()), rule)) for i, (g, t) in enumerate(rows)]


def _item(name: str, gold: str, category: str = "", group: str = "", cycle: int = 0) -> SimpleNamespace:
    return SimpleNamespace(id=name, gold=gold, category=category, group=group, cycle=cycle, options=())


def _rotated(rng: random.Random) -> Iterator[tuple[Any, Mark]]:
    for group in range(rng.randint(4, 12)):
        category = ("single", "cross")[group % 2]
        for cycle in range(4):
            item = _item(f"{group}/{cycle}", "A", category, str(group), cycle)
            yield item, rng.choice((Mark("A", True, "letter"), Mark("B", False, "letter"), failed("A")))


def _equal(ours: Sequence[float | None], theirs: Sequence[float]) -> bool:
    return all(abs((a or 0.0) - float(b)) < 1e-12 for a, b in zip(ours, theirs, strict=True))


def _versions(folder: Path) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for path in sorted(folder.glob("*.dist-info")):
        name, _, version = path.name.removesuffix(".dist-info").rpartition("-")
        found[name] = version
    return found


def main() -> None:
    """Print the table, write it, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--originals", type=Path)
    parser.add_argument("--answers", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.docs:
        write_docs(args.docs, read_cases())
    if not args.originals:
        print(table(read_cases()))
        return
    record = compare(args.originals, args.answers, args.seed)
    for name, found in record["compared"].items():
        print(f"{name}: {found['answers'] - len(found['differences'])} of {found['answers']} the same")
        print("".join(f"    {line}\n" for line in found["differences"][:10]), end="")
    print(f"figures that agree, of {record['figures']['sets']} sets:", record["figures"])
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
