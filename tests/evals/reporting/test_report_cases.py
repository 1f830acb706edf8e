"""Which questions are shown, what is said of them, and their pictures' budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from made_eval_runs import SYSTEMS, failed, make_run, unparsed
from speceyes.evals.reporting import gallery, study
from speceyes.evals.reporting.cases import choose, find_cases, kinds_of
from speceyes.evals.reporting.images import SIDE, collect, packed_picture
from speceyes.evals.runs import Result, open_run


def result(system: str = "speceyes", **more: object) -> Result:
    return Result(system, "q", 0, "A", "A", "letter", **more)  # type: ignore[arg-type]


RIGHT, WRONG = result("agent", right=True), result("agent", right=False)


@pytest.mark.parametrize(
    ("mine", "agent", "kinds"),
    [
        (result(right=True), RIGHT, []),
        (result(right=True), WRONG, ["gained"]),
        (result(right=True), failed(RIGHT), []),
        (result(right=False), WRONG, ["wrong"]),
        (result(right=False), RIGHT, ["wrong", "lost"]),
        (result(right=False, route="draft"), RIGHT, ["wrong", "lost", "accepted"]),
        (result(right=False, route="agent"), None, ["wrong"]),
        (unparsed(result()), RIGHT, ["unparsed", "lost"]),
        (failed(result()), RIGHT, ["error"]),
        (result(right=None), RIGHT, []),
        (replace(unparsed(result()), right=None), None, ["unparsed"]),
    ],
)
def test_kinds(mine: Result, agent: Result | None, kinds: list[str]) -> None:
    assert kinds_of(mine, agent) == kinds


def faulty(result: Result) -> Result:
    number = int(result.id.rpartition("/")[2])
    if result.system == "speceyes" and number == 3:
        return failed(result)
    return unparsed(result) if result.system == "agent" and number == 4 else result


def test_every_kind_is_shown_before_there_is_more_of_one(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", count=80, change=faulty))
    cases = find_cases(0, run)
    leading = {case.leading for case in cases if case.leading is not None}
    chosen = choose(cases, len(leading))
    assert {case.leading for case in chosen} == leading
    assert ("speceyes", "error") in leading
    assert choose(cases, len(cases) + 5) == cases
    assert choose(cases, 0) == []
    places = [cases.index(case) for case in chosen]
    assert places == sorted(places)


def test_cases_of_baselines_alone_come_last(tmp_path: Path) -> None:
    cases = find_cases(0, open_run(make_run(tmp_path / "run", count=80)))
    leading = [case for case in cases if case.leading is not None]
    assert 0 < len(leading) < len(cases)
    assert set(map(id, choose(cases, len(leading)))) == set(map(id, leading))


def test_one_picture_for_several_questions(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", count=40))
    cases = find_cases(0, run)
    album = collect(cases, [run])
    names = {case.sample.image for case in cases}
    assert len(album.data) == len(names) < len(cases)
    assert album.used == sum(map(len, album.data.values()))
    assert (album.left_out, album.missing) == (0, 0)


def test_pictures_keep_to_their_budget(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", count=40))
    cases = find_cases(0, run)
    album = collect(cases, [run], 60_000)
    assert 0 < album.used <= 60_000
    assert album.left_out > 0
    assert collect(cases, [run], 0).data == {}


def test_damaged_and_missing_pictures_are_left_out(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", count=12)
    (folder / "images" / "0.jpg").write_bytes(b"no picture")
    (folder / "images" / "1.jpg").unlink()
    found = gallery(study([folder]))
    gone = {"images/0.jpg", "images/1.jpg"} & {case.sample.image for case in found.shown}
    assert found.album.missing == len(gone) > 0
    assert packed_picture(folder / "images" / "0.jpg") is None
    packed = packed_picture(folder / "images" / "2.jpg")
    assert packed is not None
    assert packed[1] == (640, 480)
    assert SIDE < 640


def test_nothing_failed(tmp_path: Path) -> None:
    def right(result: Result) -> Result:
        return replace(result, right=True)

    found = gallery(study([make_run(tmp_path / "run", count=10, change=right, systems=SYSTEMS[:3])]))
    assert found.as_json()["found"] == 0
