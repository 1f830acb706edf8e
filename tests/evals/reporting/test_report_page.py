"""The page: it stands alone, whatever the models wrote is text, and every part is there."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from made_eval_runs import failed, make_run, unparsed
from speceyes.evals.reporting import gallery, study, write_page
from speceyes.evals.reporting.names import KINDS
from speceyes.evals.runs import Result, Sample
from speceyes.evals.runs.format import CropLine, TurnLine

VOID = {"meta", "link", "br", "img", "input"}
ATTACK = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>&lt;&amp;\x00\u202e"


class Page(HTMLParser):
    """Fails where a tag is closed that is not open; collects tags, attributes and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


def page_of(*folders: Path, most: int = 60) -> tuple[str, Page]:
    found = study(list(folders))
    text = write_page(found, gallery(found, most))
    return text, Page(text)


def test_it_fetches_nothing_and_runs_only_its_own_script(tmp_path: Path) -> None:
    text, page = page_of(make_run(tmp_path / "run", count=40))
    assert [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "embed", "base")] == []
    targets = [attrs.get(name) for _, attrs in page.tags for name in ("src", "href", "srcset", "poster", "action")]
    assert all(target is None or target.startswith(("#", "data:image/jpeg;base64,")) for target in targets)
    assert not re.search(r"@import|url\(", text)
    (policy,) = [a["content"] or "" for a in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")


def test_whatever_was_written_is_text(tmp_path: Path) -> None:
    def attack(result: Result) -> Result:
        crop = CropLine(0, (10, 10, 90, 80), ATTACK)
        turn = TurnLine(ATTACK, ATTACK, {"a": ATTACK}, ATTACK, (crop,))
        result = replace(result, text=ATTACK, parsed=ATTACK, how=ATTACK, turns=(turn,), right=False, reason=ATTACK)
        return failed(result, ATTACK) if result.system == "draft" else result

    sample = Sample(ATTACK, ATTACK, (ATTACK, "B"), (), "B", ATTACK, ATTACK, ATTACK, "images/x.jpg", (640, 480))
    other = replace(sample, id="2", category="plain", gold=ATTACK, options=())
    folder = make_run(tmp_path / "run", samples=[sample, other], change=attack, systems=("agent", "draft", "speceyes"))
    header = json.loads((folder / "run.json").read_text())
    header["dataset"]["name"] = header["models"]["agent"]["name"] = header["sessions"][0]["command"] = ATTACK
    (folder / "run.json").write_text(json.dumps(header))
    text, page = page_of(folder)
    assert page.all("script") == [{}]
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "<script>alert" not in text
    assert "\x00" not in text
    assert "\u202e" not in text
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>\"'>&lt;&amp;\\x00\\u202e" in page.words


def test_every_part_is_there(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        number = int(result.id.rpartition("/")[2])
        if number == 5 and result.system == "random":
            return failed(result)
        return unparsed(result) if number == 6 and result.system == "speceyes" else result

    text, page = page_of(
        make_run(tmp_path / "v", "vstar", 40, change=change), make_run(tmp_path / "p", "pope", 45), most=500
    )
    titles = [attrs.get("aria-label") for attrs in page.all("svg") if attrs.get("class") == "chart"]
    for title in (
        "Accuracy against speedup",
        "How long the agent takes, by depth",
        "Where the time goes",
        "Scores of right and wrong drafts",
        "Questions per second by how many run at a time",
        "Accuracy by category",
    ):
        assert titles.count(title) == 2, title
    for words in (
        "V*",
        "POPE",
        "honest law",
        "McNemar",
        "unparsed",
        "What was run",
        "A made-up processor",
        "sha256:dd",
    ):
        assert words in page.words
    assert "SpecEyes on DeepEyes" in page.words
    assert "measured by others" in page.words
    tags = {tag for attrs in page.all("article") for tag in (attrs.get("data-tags") or "").split()}
    assert {"random:error", "speceyes:unparsed"} <= tags
    assert {tag.partition(":")[2] for tag in tags} == {kind.name for kind in KINDS}
    options = [attrs.get("value") for attrs in page.all("option")]
    assert {"0", "1", "0/1", "1/2", "speceyes", "lost"} <= set(options)
    assert all(attrs.get("data-set") in ("0", "1") for attrs in page.all("article"))
    for attrs in page.all("article"):
        assert attrs.get("data-category") in options
    assert text.count("<caption>") == len(page.all("table")) - len(page.all("article"))


def test_tables_and_figures_have_names_for_those_who_cannot_see_them(tmp_path: Path) -> None:
    _, page = page_of(make_run(tmp_path / "run", count=30))
    assert all(attrs.get("scope") in ("col", "row", "colgroup", "rowgroup") for attrs in page.all("th"))
    for attrs in page.all("svg"):
        assert attrs.get("aria-label") or attrs.get("aria-hidden") == "true"
    assert ("html", {"lang": "en"}) in page.tags
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(set(ids)) == len(ids)


def test_crops_are_drawn_in_pixels_of_the_original(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        crop = CropLine(0, (100, 50, 228, 146), "the sign")
        turns = (TurnLine("look", "image_zoom_in_tool", {}, None, (crop, replace(crop, image=1))), TurnLine("B"))
        return replace(result, right=False, turns=turns if result.system == "agent" else ())

    text, page = page_of(make_run(tmp_path / "run", count=4, systems=("agent", "draft", "speceyes"), change=change))
    views = [attrs.get("viewbox") for attrs in page.all("svg")]
    assert views.count("0 0 640 480") == 4
    assert views.count("100.0 50.0 128.0 96.0") == 4
    edges = [attrs for attrs in page.all("rect") if attrs.get("class") == "edge"]
    assert [(a["x"], a["y"], a["width"], a["height"]) for a in edges] == [("100.0", "50.0", "128.0", "96.0")] * 4
    assert "Boxes: what Agent alone looked at more closely." in page.words
    uses = {attrs["href"] for attrs in page.all("use")}
    assert uses == {f"#{attrs['id']}" for attrs in page.all("image")}
    assert text.count("data:image/jpeg") == 2  # two questions a picture


def test_no_more_cases_than_asked_for_and_the_page_says_so(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", count=60)
    _, page = page_of(folder, most=7)
    assert len(page.all("article")) == 7
    assert "This page shows 7 of them" in page.words
    _, empty = page_of(folder, most=0)
    assert empty.all("article") == []


def test_without_pictures_there_are_no_boxes(tmp_path: Path) -> None:
    _, page = page_of(make_run(tmp_path / "run", count=20, pictures=False))
    assert page.all("image") == page.all("use") == []
    assert "no picture in this page" in page.words


@pytest.mark.parametrize("systems", [("agent",), ("draft",), ("speceyes",), ("specreason", "oracle")])
def test_any_choice_of_systems_makes_a_page(tmp_path: Path, systems: tuple[str, ...]) -> None:
    _, page = page_of(make_run(tmp_path / "run", "hrbench", 16, systems))
    assert "No verdict" in page.words


def test_a_run_that_has_hardly_begun(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", count=40)
    lines = (folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (0, 3, 95):
        (folder / "results.jsonl").write_bytes(b"".join(lines[:kept]))
        (folder / "laps.jsonl").write_bytes(b"")
        _, page = page_of(folder)
        assert "not complete" in page.words


def test_a_gate_that_is_not_ours_has_words_of_its_own(tmp_path: Path) -> None:
    def change(result: Result) -> Result:
        wrong = replace(result, right=False)
        return replace(wrong, route="draft", reason="accepted") if result.system == "random" else wrong

    _, page = page_of(make_run(tmp_path / "run", count=20, systems=("agent", "speceyes", "random"), change=change))
    assert "The lot fell on the draft" in page.words
    assert "No tool needed, and the draft is sure" in page.words
