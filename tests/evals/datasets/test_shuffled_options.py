"""Where the right option stands: not at A, in an order that a seed gives and the item tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_files import coded, turns, write_table, write_vstar_question

from speceyes.errors import DatasetError
from speceyes.evals.datasets.formats import Format, write_benchmark
from speceyes.evals.datasets.readers import Dataset, open_dataset
from speceyes.evals.datasets.readers.collecting import drawn_order
from speceyes.gating.agreement import LETTERS

WORDS = ("red", "green", "blue", "white")


@pytest.fixture(scope="module")
def vstar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 questions with four options and 100 with two."""
    folder = tmp_path_factory.mktemp("vstar")
    for i in range(300):
        name, options = ("direct_attributes", WORDS) if i % 3 else ("relative_position", WORDS[:2])
        write_vstar_question(folder, f"{name}/sa_{i}", options, f"What colour is thing {i}?")
    return folder


def constant_a(found: Dataset) -> float:
    """The accuracy of a model that always says A."""
    return sum(item.gold == "A" for item in found.items) / len(found.items)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_model_that_always_says_a_scores_chance(vstar: Path, seed: int) -> None:
    found = open_dataset(str(vstar), shuffle_seed=seed)
    chance = sum(1 / len(item.options) for item in found.items) / len(found.items)
    assert chance == pytest.approx(1 / 3)
    # Three standard errors of 300 answers.
    assert constant_a(found) == pytest.approx(chance, abs=3 * (chance * (1 - chance) / 300) ** 0.5)
    assert found.shuffle_seed == seed


def test_the_order_is_stored_and_leads_back_to_the_file(vstar: Path) -> None:
    for item in open_dataset(str(vstar), shuffle_seed=5).items:
        written = json.loads((vstar / f"{item.id}.json").read_text())["options"]
        assert tuple(written[place] for place in item.order) == item.options
        assert item.gold == LETTERS[item.order.index(0)]


def test_orders_depend_on_seed_and_name_alone(vstar: Path, tmp_path: Path) -> None:
    first, again, other = (open_dataset(str(vstar), shuffle_seed=seed) for seed in (1, 1, 2))
    assert first.digest == again.digest != other.digest
    orders = {item.id: item.order for item in first.items}
    assert sum(orders[item.id] != item.order for item in other.items) > 150
    write_vstar_question(tmp_path, "direct_attributes/sa_1", WORDS, "Asked otherwise, alone")
    (alone,) = open_dataset(str(tmp_path), shuffle_seed=1).items
    assert alone.order == orders["direct_attributes/sa_1"]


@given(count=st.integers(1, 26), seed=st.integers(), name=st.text(max_size=9))
def test_an_order_names_each_option_once(count: int, seed: int, name: str) -> None:
    assert sorted(drawn_order(count, seed, name)) == list(range(count))


def test_every_order_comes_about_as_often_as_any_other() -> None:
    orders = [drawn_order(3, 0, str(i)) for i in range(6000)]
    assert all(abs(orders.count(order) - 1000) < 120 for order in set(orders))
    assert len(set(orders)) == 6


@pytest.mark.parametrize("kind", [form for form in Format if form is not Format.VSTAR])
def test_other_forms_keep_their_order(tmp_path: Path, kind: Format) -> None:
    write_benchmark(tmp_path, kind, count=3, seed=0, side=48)
    first, other = open_dataset(str(tmp_path)), open_dataset(str(tmp_path), shuffle_seed=9)
    assert (first.shuffle_seed, first.digest) == (None, other.digest)
    assert not any(item.order for item in first.items)


@pytest.mark.parametrize("kind", [Format.VSTAR_JSONL, Format.VSTAR_PARQUET, Format.MCQ])
def test_other_forms_are_shuffled_when_asked_for(tmp_path: Path, kind: Format) -> None:
    write_benchmark(tmp_path, kind, count=12, seed=0, side=48)
    plain, mixed = open_dataset(str(tmp_path)), open_dataset(str(tmp_path), shuffle_seed=3, shuffle_all=True)
    assert mixed.shuffle_seed == 3
    changed = 0
    for before, after in zip(plain.items, mixed.items, strict=True):
        assert [before.options[place] for place in after.order] == list(after.options)
        if before.options:
            assert before.gold is not None
            assert after.gold is not None
            right = before.options[LETTERS.index(before.gold)]
            assert after.options[LETTERS.index(after.gold)] == right
            lines = [line.strip() for line in after.prompt.splitlines()]
            assert lines[1:] == [f"{x}. {option}" for x, option in zip(LETTERS, after.options, strict=False)]
        assert after.prompt.splitlines()[0] == before.prompt.splitlines()[0]
        changed += before.options != after.options
    assert changed > 4


def test_turned_options_are_not_shuffled_again(tmp_path: Path) -> None:
    path = write_table(tmp_path / "hr.tsv", turns("Which?", WORDS, "blue"))
    with pytest.raises(DatasetError, match="stand in the file in several turns already"):
        open_dataset(str(path), shuffle_all=True)


def test_a_set_in_which_a_is_always_right_is_remarked_upon(tmp_path: Path) -> None:
    from speceyes.evals.datasets.readers import check_dataset

    rows = [{"index": i, "question": "?", "answer": "A", "A": "x", "B": "y", "image": coded()} for i in range(5)]
    path = write_table(tmp_path / "a.tsv", rows)
    assert check_dataset(str(path)).remarks == ("The right option is always A: open it with its options shuffled.",)
