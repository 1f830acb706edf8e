"""The page for people: it says what is promised and what is not, and stands alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from made_tables import drawn_table

from speceyes.evals.calibrating import GateSetting, Method, calibrate, write_page
from speceyes.evals.calibrating.chart import draw_chart
from speceyes.evals.calibrating.words import NOT_PROMISED, percent, share_words
from speceyes.gating.certify import Limit, Risk

GATE = GateSetting(k=4)
EXCESS = [Limit(Risk.EXCESS, 0.05)]
VOID = {"meta", "link", "br", "img", "line", "circle", "rect"}


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not open; collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(page: str) -> str:
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert not re.search(r"<script|https?://|src=|@import|url\(", page), "it fetches something"
    return re.sub(r"\s+", " ", " ".join(parser.text))


def test_a_promise_in_plain_words() -> None:
    result = calibrate(drawn_table(3000), GATE, EXCESS, 0.05)
    text = read(write_page(result))
    assert "at most 5 in 100 are answered wrongly by the draft where the agent would have been right" in text
    assert "wrong at most 5 in 100 times" in text
    assert "p-value" not in text
    for head, explanation in NOT_PROMISED:
        assert head in text
        assert explanation in text
    for value in (result.calibration.digest, result.calibration.data, result.calibration.draft_model, "large"):
        assert str(value) in text


def test_a_refusal_says_what_would_help() -> None:
    result = calibrate(drawn_table(100), GATE, [Limit(Risk.EXCESS, 0.01)], 0.05)
    text = read(write_page(result))
    assert "No threshold could be proven" in text
    assert f"{result.more_records:,} more records" in text
    assert "at most 1 in 100" in text


@pytest.mark.parametrize("method", Method)
def test_several_risks(method: Method) -> None:
    limits = [*EXCESS, Limit(Risk.ERROR, 0.2), Limit(Risk.DISAGREEMENT, 0.2)]
    page = write_page(calibrate(drawn_table(3000), GATE, limits, 0.05, method=method))
    assert page.count('<svg class="chart"') == 3
    assert "at most 20 in 100 get another answer from the draft than the agent would have given" in read(page)


def test_a_mark_for_each_threshold() -> None:
    certificate = calibrate(drawn_table(3000), GATE, EXCESS, 0.05).certificate
    picture = draw_chart(certificate, 0)
    assert picture.count("<circle") == sum(step.accepted > 0 for step in certificate.steps)
    assert picture.count('class="chosen"') == 1
    heights = [float(y) for y in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', picture)]
    rates = [step.losses[0] / step.accepted for step in certificate.steps if step.accepted]
    # larger shares stand higher, on one scale
    slope = np.polyfit(rates, heights, 1)
    assert slope[0] < 0
    assert np.polyval(slope, rates) == pytest.approx(heights, abs=0.1)


def test_nothing_to_draw() -> None:
    table = drawn_table(100, help_probability=np.full(100, 0.9))
    result = calibrate(table, GATE, EXCESS, 0.05)
    assert draw_chart(result.certificate, 0) == ""
    assert "Not one certifying question" in read(write_page(result))


def test_names_of_kinds_are_text_and_not_markup() -> None:
    kinds = np.array(["<b>&", "plain"] * 1500)
    page = write_page(calibrate(drawn_table(3000, categories=kinds), GATE, EXCESS, 0.05))
    assert "<b>&" in read(page)
    assert "<td><b>&" not in page


@pytest.mark.parametrize(
    ("share", "words"), [(0.02, "2 in 100"), (0.5, "50 in 100"), (0.025, "25 in 1,000"), (1 / 3, "33.3 in 100")]
)
def test_shares_in_words(share: float, words: str) -> None:
    assert share_words(share) == words


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "0 %"), (0.00849, "0.85 %"), (0.02, "2 %"), (0.1, "10 %"), (0.3142, "31.4 %")]
)
def test_percentages(share: float, words: str) -> None:
    assert percent(share) == words
    assert percent(None) == "none"
