"""The parity program: its generator is not trivial, and what it reads of other people's files is what it runs."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import scorer_parity
from speceyes.evals.scoring import Rule, score_answer


def test_generated_answers_reach_every_step_of_every_rule() -> None:
    rng = random.Random(0)
    seen: Counter[tuple[str, str]] = Counter()
    for _ in range(3000):
        options = rng.choice(scorer_parity.OPTIONS)
        answer = scorer_parity.generate(rng, options)
        for column in ("strict", "lmms", "lmms-hrbench", "vlmevalkit"):
            rule, kind, _ = scorer_parity.COLUMNS[column]
            seen[column, score_answer(answer, (None, options), rule, kind=kind).how] += 1
        words = scorer_parity.generate(rng, [])
        for column in ("strict", "lmms", "vlmevalkit", "pope"):
            rule = scorer_parity.COLUMNS[column][0]
            seen[column, score_answer(words, ("yes", ()), rule).how] += 1
    compatible = {"letter", "option_text", "refusal", "unparsed"}
    wanted = {("strict", how) for how in ("cue", "letter", "option_text", "word", "unparsed")}
    wanted |= {("lmms-hrbench", how) for how in compatible} | {("vlmevalkit", how) for how in compatible}
    steps = ("first_letter", "cue", "bracketed", "closed", "letter", "only_letter", "unparsed", "word")
    wanted |= {("lmms", how) for how in steps} | {("vlmevalkit", "word"), ("pope", "original")}
    assert not {pair for pair in wanted if seen[pair] < 5}


def test_only_the_named_functions_of_a_file_are_run(tmp_path: Path) -> None:
    file = tmp_path / "theirs.py"
    file.write_text(
        "import nothing_like_this\nraise SystemExit\n\ndef read(text):\n    return re.sub('a', 'b', text)\n"
    )
    assert scorer_parity.originals(file, ["read"]).read("aha") == "bhb"


def test_the_committed_figures_are_of_this_program() -> None:
    record = scorer_parity.read_figures()
    assert len(record["compared"]) == 6
    for name, found in record["compared"].items():
        assert found["answers"] >= 10_000, name
        assert found["differences"] == [], name
    assert {**record["figures"]} == dict.fromkeys(record["figures"], 200)
    assert {"lmms_eval", "ms_vlmeval"} <= set(record["versions"])


def test_the_rules_of_the_table_are_all_rules() -> None:
    assert {rule for rule, _, _ in scorer_parity.COLUMNS.values()} == set(Rule)
