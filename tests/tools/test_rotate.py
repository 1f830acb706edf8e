"""The rotate tool: what it shows, and that later boxes on it find their way back to the original pixels."""

from __future__ import annotations

import pytest
from tool_samples import context, painted, red_share, shown

from speceyes.imaging.geometry import Box, Coordinates, from_original
from speceyes.imaging.turning import turn_box
from speceyes.tools import Address, RotateTool, ToolContext, ZoomTool

TARGET = (1200, 300, 1400, 400)
SIZE = (1600, 1200)


@pytest.mark.parametrize("angle", [90, 180, 270, -90, 45, 12.5, 450])
@pytest.mark.parametrize("coordinates", Coordinates)
async def test_a_box_on_a_turned_picture_comes_from_the_original_pixels(angle: float, coordinates: Coordinates) -> None:
    ctx = context(painted(SIZE, TARGET))
    rotate = RotateTool(coordinates=coordinates)
    turned = shown(await rotate.run({"angle": angle}, ctx))
    assert turned.turned is not None
    ctx.views.append(turned)
    # The target as a model sees it: upright in the original's pixels, else in those of the turned picture.
    target = Box(*TARGET)
    if coordinates is not Coordinates.ORIGINAL:
        window, frame = turned.turned.window, turned.turned.frame
        there = turn_box(target, SIZE, angle)
        target = from_original(there, coordinates, region=window, view_size=turned.size, image_size=frame)
    zoom = ZoomTool(coordinates=coordinates, address=Address.LATEST)
    closer = shown(await zoom.run({"bbox_2d": list(target.as_tuple())}, ctx))
    expected = Box(*TARGET).area / turn_box(Box(*TARGET), SIZE, angle).area
    assert red_share(closer) == pytest.approx(expected, abs=0.06)
    assert closer.region.grow(1).contains(Box(*TARGET))
    assert closer.turned is not None
    assert closer.turned.angle == turned.turned.angle


async def test_a_part_is_turned_alone() -> None:
    ctx = context(painted(SIZE, TARGET))
    view = shown(await RotateTool(coordinates=Coordinates.ORIGINAL).run({"angle": 90, "bbox_2d": list(TARGET)}, ctx))
    assert red_share(view) > 0.97
    assert view.region.as_tuple() == pytest.approx(TARGET)
    assert view.size[1] > view.size[0]  # it was wider than high


async def test_four_quarter_turns_are_none() -> None:
    ctx = context(painted(SIZE, TARGET))
    tool = RotateTool(address=Address.LATEST)
    for _ in range(4):
        ctx.views.append(shown(await tool.run({"angle": "90°"}, ctx)))
    last = ctx.views[-1]
    assert last.turned is None
    assert last.region == ctx.views[0].region
    assert last.pixels.tobytes() == ctx.views[0].pixels.tobytes()


async def test_a_crop_is_turned_as_it_is_seen() -> None:
    ctx = context(painted(SIZE, TARGET))
    crop = shown(await ZoomTool(coordinates=Coordinates.ORIGINAL).run({"bbox_2d": list(TARGET)}, ctx))
    ctx.views.append(crop)
    view = shown(await RotateTool().run({"angle": 90, "img_idx": 1}, ctx))
    assert view.region.as_tuple() == pytest.approx(TARGET)
    assert red_share(view) > 0.97


async def test_the_model_is_told_what_was_done() -> None:
    result = await RotateTool().run({"angle": -30}, context(painted((320, 320))))
    assert result.text == "Turned by -30 degrees clockwise."


@pytest.mark.parametrize("angle", [None, "left", True, float("nan"), 1e999, [90], {}, ""])
async def test_an_angle_that_is_none_is_told(angle: object) -> None:
    result = await RotateTool().run({"angle": angle}, context(painted((320, 320))))
    assert result.error is not None
    assert "angle must be a number of degrees" in result.error


async def test_an_empty_corner_is_told() -> None:
    ctx = context(painted((640, 640)))
    ctx.views.append(shown(await RotateTool().run({"angle": 45}, ctx)))
    zoom = ZoomTool(coordinates=Coordinates.PER_MILLE, address=Address.LATEST)
    result = await zoom.run({"bbox_2d": [0, 0, 100, 100]}, ctx)
    assert result.error is not None
    assert "nothing of the picture" in result.error


async def test_without_a_picture_it_says_so() -> None:
    result = await RotateTool().run({"angle": 90}, ToolContext((), [], context(painted((64, 64))).limits))
    assert result.error == "There is no picture to show a part of. Answer from the text."


def test_it_speaks_the_dialect_s_coordinates_unless_it_was_given_its_own() -> None:
    open_tool = RotateTool()
    thousandths = open_tool.speaking(Coordinates.PER_MILLE)
    assert "from 0 to 1000" in str(thousandths.schema)
    assert "in pixels" in str(open_tool.schema)
    fixed = RotateTool(coordinates=Coordinates.UNIT)
    assert fixed.speaking(Coordinates.PER_MILLE) is fixed
