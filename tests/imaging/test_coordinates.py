"""The four coordinate systems: into original pixels and back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speceyes.errors import BoxError
from speceyes.imaging import Box, Coordinates, from_original, to_original

shares = st.floats(0, 1, allow_subnormal=False)
systems = st.sampled_from(list(Coordinates))


@dataclass(frozen=True)
class Setting:
    image_size: tuple[int, int]
    region: Box
    view_size: tuple[int, int]

    def range_of(self, coordinates: Coordinates) -> tuple[float, float]:
        return {
            Coordinates.RESIZED: self.view_size,
            Coordinates.ORIGINAL: self.image_size,
            Coordinates.UNIT: (1.0, 1.0),
            Coordinates.PER_MILLE: (1000.0, 1000.0),
        }[coordinates]

    def to_original(self, box: Box, coordinates: Coordinates) -> Box:
        return to_original(box, coordinates, region=self.region, view_size=self.view_size, image_size=self.image_size)

    def from_original(self, box: Box, coordinates: Coordinates) -> Box:
        return from_original(box, coordinates, region=self.region, view_size=self.view_size, image_size=self.image_size)


@st.composite
def settings_of_views(draw: st.DrawFn) -> Setting:
    """An image, a part of it at least a pixel wide, and the size at which the model saw that part."""
    image = draw(st.tuples(st.integers(2, 20_000), st.integers(2, 20_000)))
    left, top = (draw(st.floats(0, side - 1)) for side in image)
    right, bottom = draw(st.floats(left + 1, image[0])), draw(st.floats(top + 1, image[1]))
    view = draw(st.tuples(st.integers(1, 150), st.integers(1, 150)))
    return Setting(image, Box(left, top, right, bottom), (view[0] * 28, view[1] * 28))


@st.composite
def shares_of_a_box(draw: st.DrawFn) -> Box:
    x, y = sorted((draw(shares), draw(shares))), sorted((draw(shares), draw(shares)))
    return Box(x[0], y[0], x[1], y[1])


def scaled(box: Box, width: float, height: float) -> Box:
    return Box(box.left * width, box.top * height, box.right * width, box.bottom * height)


def close(a: Box, b: Box, scale: float) -> bool:
    return all(abs(x - y) <= 1e-9 * scale for x, y in zip(a.as_tuple(), b.as_tuple(), strict=True))


@given(settings_of_views(), systems, shares_of_a_box())
@settings(max_examples=200)
def test_there_and_back_is_the_same_box(setting: Setting, coordinates: Coordinates, box: Box) -> None:
    size = setting.range_of(coordinates)
    named = scaled(box, *size)
    back = setting.from_original(setting.to_original(named, coordinates), coordinates)
    # Where a small region lies far from the corner, subtraction costs digits.
    assert close(back, named, max(size) * max(setting.image_size))


@given(settings_of_views(), systems, shares_of_a_box())
@settings(max_examples=200)
def test_back_and_there_is_the_same_box(setting: Setting, coordinates: Coordinates, box: Box) -> None:
    region = setting.region
    inner = scaled(box, region.width, region.height)
    original = Box(
        region.left + inner.left, region.top + inner.top, region.left + inner.right, region.top + inner.bottom
    ).clamp(*setting.image_size)
    there = setting.to_original(setting.from_original(original, coordinates), coordinates)
    assert close(there, original, max(setting.image_size))


@given(settings_of_views(), systems, shares_of_a_box())
def test_what_is_in_range_maps_into_the_region(setting: Setting, coordinates: Coordinates, box: Box) -> None:
    original = setting.to_original(scaled(box, *setting.range_of(coordinates)), coordinates)
    whole = Box(0, 0, *setting.image_size)
    assert (whole if coordinates is Coordinates.ORIGINAL else setting.region).contains(original)


@given(settings_of_views(), shares_of_a_box())
def test_the_three_systems_of_a_view_agree(setting: Setting, box: Box) -> None:
    found = [
        setting.to_original(scaled(box, *setting.range_of(system)), system)
        for system in (Coordinates.UNIT, Coordinates.PER_MILLE, Coordinates.RESIZED)
    ]
    assert close(found[0], found[1], max(setting.image_size))
    assert close(found[0], found[2], max(setting.image_size))


@given(settings_of_views(), systems)
def test_the_full_range_is_the_full_region(setting: Setting, coordinates: Coordinates) -> None:
    full = setting.to_original(Box(0, 0, *setting.range_of(coordinates)), coordinates)
    whole = Box(0, 0, *setting.image_size)
    expected = whole if coordinates is Coordinates.ORIGINAL else setting.region
    assert close(full, expected, max(setting.image_size))


WHOLE = Setting((3000, 2000), Box(0, 0, 3000, 2000), (1500, 1000))


@pytest.mark.parametrize(
    ("coordinates", "named", "original"),
    [
        (Coordinates.PER_MILLE, (500, 500, 600, 600), (1500, 1000, 1800, 1200)),
        (Coordinates.RESIZED, (500, 500, 600, 600), (1000, 1000, 1200, 1200)),
        (Coordinates.ORIGINAL, (500, 500, 600, 600), (500, 500, 600, 600)),
        (Coordinates.UNIT, (0.5, 0.5, 0.6, 0.6), (1500, 1000, 1800, 1200)),
        (Coordinates.UNIT, (0, 0, 1, 1), (0, 0, 3000, 2000)),
        (Coordinates.RESIZED, (0, 0, 1, 1), (0, 0, 2, 2)),
        (Coordinates.ORIGINAL, (0, 0, 1, 1), (0, 0, 1, 1)),
        (Coordinates.PER_MILLE, (999, 999, 1000, 1000), (2997, 1998, 3000, 2000)),
    ],
)
def test_the_same_numbers_mean_what_the_model_entry_says(
    coordinates: Coordinates, named: tuple[float, ...], original: tuple[float, ...]
) -> None:
    assert WHOLE.to_original(Box(*named), coordinates).as_tuple() == pytest.approx(original)


def test_per_mille_of_a_picture_of_1000_pixels_is_its_pixels() -> None:
    setting = Setting((1000, 1000), Box(0, 0, 1000, 1000), (896, 896))
    assert setting.to_original(Box(0, 0, 1000, 1000), Coordinates.PER_MILLE) == Box(0, 0, 1000, 1000)


def test_a_box_of_the_resized_picture_is_scaled_to_the_original() -> None:
    setting = Setting((4000, 4000), Box(0, 0, 4000, 4000), (2000, 2000))
    assert setting.to_original(Box(1500, 1500, 1600, 1600), Coordinates.RESIZED) == Box(3000, 3000, 3200, 3200)


@pytest.mark.parametrize(
    ("coordinates", "wrong", "sentence"),
    [
        (Coordinates.UNIT, (500, 500, 600, 600), "x runs from 0 to 1, y from 0 to 1"),
        (Coordinates.UNIT, (0.2, 0.2, 1.2, 0.5), "from 0 to 1"),
        (Coordinates.PER_MILLE, (1500, 1000, 1800, 1200), "x runs from 0 to 1000"),
        (Coordinates.RESIZED, (1600, 100, 1700, 200), "1500 x 1000 pixels: x runs from 0 to 1500"),
        (Coordinates.RESIZED, (100, 100, 3001, 200), "that you see is 1500 x 1000"),
        (Coordinates.ORIGINAL, (3100, 100, 3200, 200), "original picture is 3000 x 2000"),
        (Coordinates.RESIZED, (1500, 0, 1600, 10), "outside"),
        (Coordinates.RESIZED, (1600, 0, 1600, 10), "outside"),
        (Coordinates.RESIZED, (0, 0, 1e308, 1e308), "outside"),
        (Coordinates.PER_MILLE, (-1e308, 0, 5, 5), "outside"),
    ],
)
def test_out_of_range_tells_the_model_the_range(
    coordinates: Coordinates, wrong: tuple[float, float, float, float], sentence: str
) -> None:
    with pytest.raises(BoxError, match=sentence):
        WHOLE.to_original(Box(*wrong), coordinates)


@pytest.mark.parametrize(
    ("coordinates", "over", "original"),
    [
        (Coordinates.UNIT, (-0.01, 0, 1.02, 1), (0, 0, 3000, 2000)),
        (Coordinates.PER_MILLE, (0, 0, 1024, 1000), (0, 0, 3000, 2000)),
        (Coordinates.RESIZED, (1400, 900, 1600, 1100), (2800, 1800, 3000, 2000)),
        (Coordinates.ORIGINAL, (-20, -20, 30, 30), (0, 0, 30, 30)),
    ],
)
def test_a_small_overshoot_is_clamped(
    coordinates: Coordinates, over: tuple[float, float, float, float], original: tuple[float, ...]
) -> None:
    assert WHOLE.to_original(Box(*over), coordinates).as_tuple() == pytest.approx(original)


def test_a_region_without_area_has_no_way_back() -> None:
    setting = Setting((100, 100), Box(10, 10, 10, 20), (28, 28))
    with pytest.raises(BoxError, match="no area"):
        setting.from_original(Box(10, 10, 10, 20), Coordinates.UNIT)
