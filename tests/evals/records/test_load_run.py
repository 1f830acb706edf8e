"""Loading: the arrays say what the rows say, and the gate finds in them what it finds in the answers themselves."""

from __future__ import annotations

import math
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import FAULTY, MANIFEST, failed_row, observed, row

from speceyes.errors import DatasetError
from speceyes.evals.records import Observed, RunWriter, load_run, make_row, read_rows
from speceyes.evals.records.parts import as_table
from speceyes.evals.records.rows import Asked
from speceyes.gating import AnswerTable, confidence
from speceyes.types import Draft, Reason, Screening, Token


def written(folder: Path, *rows: dict[str, object], rows_per_part: int = 1000) -> Path:
    with RunWriter(folder, MANIFEST, rows_per_part=rows_per_part) as writer:
        for one in rows:
            writer.write_rows([one])
    return folder


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [row(0), failed_row(1), row(2, observed(2, k=0)), row(3, gold=None, options=())]
    found = list(read_rows(written(tmp_path, *rows, rows_per_part=2)))
    assert found == as_table(rows).to_pylist()  # with log-probs as 32-bit floats
    exact = [name for name in rows[0] if "logprobs" not in name]
    assert [{name: one[name] for name in exact} for one in found] == [
        {name: one[name] for name in exact} for one in rows
    ]
    assert found[0]["top_logprobs"][0] == pytest.approx(rows[0]["top_logprobs"][0], rel=1e-6)


def test_columns_can_be_chosen(tmp_path: Path) -> None:
    written(tmp_path, row(1), row(0))
    assert list(read_rows(tmp_path, ["id", "p_yes"])) == [
        {"id": "q0", "p_yes": row(0)["p_yes"]},
        {"id": "q1", "p_yes": row(1)["p_yes"]},
    ]
    with pytest.raises(DatasetError, match="no column colour"):
        list(read_rows(tmp_path, ["colour"]))


def test_the_arrays_say_what_the_rows_say(tmp_path: Path) -> None:
    rows = [row(index) for index in range(30)]
    table = load_run(written(tmp_path, *rows, rows_per_part=7))
    assert table.ids.tolist() == [one["id"] for one in rows]
    assert set(table.categories) == {"color"}
    assert table.help_probability == pytest.approx([one["p_yes"] / (one["p_yes"] + one["p_no"]) for one in rows])
    for name in ("draft_right", "agent_right", "agrees", "draft_seconds", "agent_seconds", "screen_seconds"):
        assert getattr(table, name).tolist() == [one[name] for one in rows], name
    assert table.depth.tolist() == [1] * 30
    assert table.labelled.all()
    assert table.draft_usable.all()
    assert table.complete.all()
    assert table.bound_to == MANIFEST.bound_to
    assert table.digest.startswith("sha256:")


def test_what_failed_is_nan_and_false(tmp_path: Path) -> None:
    unreadable = Observed(Screening(0.0, 0.0), observed(1).draft, observed(1).run)
    faulty = Observed(observed(2).screening, FAULTY, observed(2).run)
    table = load_run(written(tmp_path, failed_row(0), row(1, unreadable), row(2, faulty), row(3, gold=None)))
    assert np.isnan(table.help_probability).tolist() == [True, True, False, False]
    assert not table.screened(1.0)[:2].any()
    assert np.isnan(table.draft_seconds).tolist() == [True, False, False, False]
    assert table.draft_usable.tolist() == [False, True, False, True]
    assert table.labelled.tolist() == [True, True, True, False]
    assert table.complete.tolist() == [False, True, True, True]
    assert not table.draft_right[[0, 3]].any()
    assert not table.agrees[0]


odd = st.sampled_from([math.nan, -math.inf, math.inf, -9999.0, 0.5])
values = st.lists(st.one_of(st.floats(-20, 0, width=32), odd), max_size=6)
tokens = st.builds(
    lambda text, own, top: Token(text, own, tuple(top), ("x",) * len(top)),
    st.sampled_from(["A", " ", "", "no", "yes ", "na" * 20]),
    st.one_of(st.none(), st.floats(-20, 0, width=32)),
    values,
)


@given(st.lists(st.lists(tokens, max_size=3), min_size=1, max_size=6), st.integers(0, 5))
def test_the_gate_finds_the_same_in_a_record(
    tmp_path_factory: pytest.TempPathFactory, answers: list[list[Token]], k: int
) -> None:
    drafts = [Draft("".join(token.text for token in answer), tuple(answer)) for answer in answers]
    rows = [make_row(Asked(f"q{i}", i, "?"), Observed(draft=draft)) for i, draft in enumerate(drafts)]
    recorded = load_run(written(tmp_path_factory.mktemp("run"), *rows)).answers
    direct = AnswerTable.of(answers)
    for score in ("separability", "margin", "entropy"):
        found, expected = (table.score(score, k, "min") for table in (recorded, direct))
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.reasons.tolist() == expected.reasons.tolist()


def test_the_gate_applied_to_one_row_finds_what_the_table_has(tmp_path: Path) -> None:
    rows = [row(index) for index in range(20)]
    table = load_run(written(tmp_path, *rows))
    scores = table.answers.score("separability", 8, "min").values
    for one, score in zip(read_rows(tmp_path), scores, strict=True):
        answer = [
            Token(text, own, tuple(top))
            for text, own, top in zip(one["tokens"], one["logprobs"], one["top_logprobs"], strict=True)
        ]
        assert confidence(answer, k=8).score == pytest.approx(score, rel=1e-12)


def test_loops_and_blanks_are_known_from_the_record(tmp_path: Path) -> None:
    rng = random.Random(0)
    loop = tuple(
        Token("again ", -0.1, tuple(sorted((-rng.random() for _ in range(8)), reverse=True))) for _ in range(9)
    )
    blank = (Token("  ", -0.1, (-0.1, -2.0, -3.0)),)
    rows = [row(i, Observed(draft=Draft("x", answer))) for i, answer in enumerate([loop, blank])]
    scored = load_run(written(tmp_path, *rows)).answers.score("separability", 3, "min")
    assert scored.reasons.tolist() == [Reason.REPETITIVE_ANSWER, Reason.EMPTY_ANSWER]


def test_a_digest_is_the_records_own(tmp_path: Path) -> None:
    first = load_run(written(tmp_path / "a", row(0), row(1)))
    again = load_run(tmp_path / "a")
    other = load_run(written(tmp_path / "b", row(0), row(2)))
    assert first.digest == again.digest != other.digest


def test_no_run_no_rows_and_damage_are_said(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="holds no recorded run"):
        load_run(tmp_path)
    with pytest.raises(DatasetError, match="has no rows yet"):
        load_run(written(tmp_path / "empty"))
    part = written(tmp_path / "run", row(0)) / "parts" / "00000.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(DatasetError, match=r"00000\.parquet is damaged"):
        load_run(tmp_path / "run")
