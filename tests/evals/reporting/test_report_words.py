"""Text that is safe wherever it goes, figures as words, and the verdict."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speceyes.evals.reporting.text import html_text, latex_text, markdown_text, shortened, visible
from speceyes.evals.reporting.verdict import Accuracy, Compared, Speed, judge
from speceyes.evals.reporting.words import NONE, Ranged, p_value, percent, points, seconds, times, times_range
from speceyes.evals.statistics.bootstrap import Estimate
from speceyes.evals.statistics.shares import Share

ANY = st.text(st.characters())


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags, self.text = 0, ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags += 1

    def handle_data(self, data: str) -> None:
        self.text += data


@given(ANY)
def test_any_text_stays_text_in_html(text: str) -> None:
    parser = _Texts()
    parser.feed(f"<p>{html_text(text)}</p>")
    parser.close()
    assert parser.tags == 1
    assert parser.text == visible(text).replace("\r", "")
    assert html_text(text).encode("utf-8").decode("utf-8") == html_text(text)
    assert not set(html_text(text)) & set("<>\"'")


@given(ANY)
def test_visible_text_has_nothing_that_acts(text: str) -> None:
    found = visible(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", found)
    assert visible(found) == found


@given(ANY)
def test_latex_text_is_plain_ascii_without_open_specials(text: str) -> None:
    found = latex_text(text)
    assert found.isascii()
    assert "\n" not in found
    bare = re.sub(r"\\(text\w+|times|pm|alpha|beta)(\{\})?|\\[{}$&#%_]|\$", "", found)
    assert not set(bare) & set("\\{}&#%_^")
    assert found.count("$") % 2 == found.count(r"\$") % 2


@given(ANY)
def test_markdown_text_keeps_within_its_cell(text: str) -> None:
    found = markdown_text(text)
    assert "\n" not in found
    assert not re.search(r"(?<!\\)(\\\\)*[|<>`*\[\]]", found)
    assert html.unescape(re.sub(r"\\(.)", r"\1", found)) == html.unescape(" ".join(visible(text).split()))


def test_long_text_says_how_much_is_missing() -> None:
    assert shortened("x" * 20, 10) == "x" * 10 + " ... (10 more characters)"
    assert shortened("x" * 10, 10) == "x" * 10


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (percent(0.8432), "84.3"),
        (percent(None), NONE),
        (percent(-0.0001), "0.0"),
        (points(0.012), "+1.2"),
        (points(-0.0331), "−3.3"),
        (points(0.0), "0.0"),
        (times(1.732), "1.73×"),
        (times(None), NONE),
        (seconds(0.0514), "0.051 s"),
        (seconds(12.3), "12.30 s"),
        (seconds(1234.5), "1,234 s"),
        (p_value(0.00004), "<\u00a00.001"),
        (p_value(0.0312), "0.031"),
        (p_value(1.0), "1.000"),
        (times_range(Ranged(1.7, 1.61, 1.86)), "1.61 to 1.86"),
        (times_range(Ranged(1.7)), ""),
    ],
)
def test_figures(said: str, wanted: str) -> None:
    assert said == wanted


def test_statistics_become_figures() -> None:
    assert Ranged.of(Estimate(float("nan"))) == Ranged(None)
    assert Ranged.of(Estimate(1.0, 0.5, float("inf"))) == Ranged(1.0, 0.5, None)
    assert Ranged.of(Share(0, 0)) == Ranged(None)
    assert Ranged.of(Share(5, 10)).value == 0.5
    assert Ranged.read({"value": 2, "low": None}) == Ranged(2.0)
    assert Ranged.read(None) == Ranged(None)


def compared(low: float, high: float, fast: tuple[float, float] = (1.5, 1.9), **more: object) -> Compared:
    middle = (low + high) / 2
    return Compared(
        Ranged(0.9), Ranged(0.9 + middle), Ranged(middle, low, high), Ranged(sum(fast) / 2, *fast), 100, **more
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("low", "high", "accuracy", "tone", "words"),
    [
        (-0.01, 0.03, Accuracy.KEPT, "good", "keeps the agent's accuracy"),
        (0.01, 0.03, Accuracy.BETTER, "good", "more accurate"),
        (-0.08, -0.03, Accuracy.LOST, "bad", "loses accuracy"),
        (-0.05, 0.04, Accuracy.OPEN, "open", "cannot tell"),
        # A loss that is certain, and certainly small, is within the margin that is stated.
        (-0.015, -0.005, Accuracy.KEPT, "good", "keeps the agent's accuracy"),
    ],
)
def test_the_verdict_on_accuracy(low: float, high: float, accuracy: Accuracy, tone: str, words: str) -> None:
    verdict = judge(compared(low, high))
    assert (verdict.accuracy, verdict.speed, verdict.tone) == (accuracy, Speed.FASTER, tone)
    assert words in verdict.sentence
    assert "1.70× (1.50 to 1.90) as fast" in verdict.sentence
    assert "2.0 points" in verdict.reading


@pytest.mark.parametrize(
    ("fast", "speed", "tone"),
    [((1.2, 1.4), Speed.FASTER, "good"), ((0.7, 0.9), Speed.SLOWER, "bad"), ((0.9, 1.2), Speed.OPEN, "open")],
)
def test_the_verdict_on_speed(fast: tuple[float, float], speed: Speed, tone: str) -> None:
    verdict = judge(compared(-0.01, 0.01, fast))
    assert (verdict.speed, verdict.tone) == (speed, tone)


def test_no_verdict_without_a_comparison_or_with_many_errors() -> None:
    assert judge(None).accuracy is Accuracy.NONE
    failing = judge(compared(-0.01, 0.03, errors=0.06))
    assert failing.accuracy is Accuracy.NONE
    assert failing.tone == "open"
    assert "6.0 %" in failing.sentence
    assert judge(compared(-0.01, 0.03, errors=0.05)).accuracy is Accuracy.KEPT
    assert "not complete" in judge(compared(-0.01, 0.03, complete=False)).reading
