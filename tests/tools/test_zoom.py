"""The zoom tool: a crop holds what its box names, and what is wrong is told to the model."""

import json

import numpy as np
import pytest
from PIL import Image

from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box, Coordinates, from_original
from speceyes.imaging.resize import PixelLimits, render
from speceyes.imaging.view import View
from speceyes.tools import Address, Tool, ToolContext, ToolResult, ZoomTool

FACTORS = (28, 32)
RED, BLUE = (255, 0, 0), (0, 0, 255)


def painted(size: tuple[int, int], *targets: tuple[tuple[int, int, int, int], tuple[int, int, int]]) -> DecodedImage:
    image = Image.new("RGB", size, "white")
    for box, colour in targets:
        image.paste(colour, box)
    return DecodedImage.of_pixels(image)


def limits(factor: int, side: int = 2000) -> PixelLimits:
    return PixelLimits(factor, 4 * factor**2, side**2)


def context(*images: DecodedImage, factor: int = 32, side: int = 2000) -> ToolContext:
    views = [render(image, None, limits(factor, side), image_index=i) for i, image in enumerate(images)]
    return ToolContext(images, views, limits(factor, side))


def share(view: View, colour: tuple[int, int, int]) -> float:
    """The share of a view's pixels that have the colour."""
    difference = np.abs(np.asarray(view.pixels, dtype=int) - np.array(colour)).max(axis=2)
    return float((difference < 40).mean())


def shown(result: ToolResult) -> View:
    assert result.error is None
    (view,) = result.views
    return view


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("coordinates", Coordinates)
async def test_a_painted_target_fills_its_crop(factor: int, coordinates: Coordinates) -> None:
    target = (3000, 2400, 3200, 2560)
    image = painted((4000, 3000), (target, RED))
    ctx = context(image, factor=factor, side=1000)
    whole = ctx.views[0]
    assert whole.size[0] < 1300
    box = from_original(Box(*target), coordinates, region=whole.region, view_size=whole.size, image_size=image.size)
    view = shown(await ZoomTool(coordinates=coordinates).run({"bbox_2d": list(box.as_tuple())}, ctx))
    assert share(view, RED) > 0.97
    assert view.region.iou(Box(*target)) > 0.97
    assert view.size[0] % factor == view.size[1] % factor == 0


async def test_a_box_in_pixels_of_the_small_picture_is_cut_from_the_large_one() -> None:
    image = painted((4000, 4000), ((3000, 3000, 3200, 3200), RED))
    ctx = context(image, factor=32, side=2000)
    assert ctx.views[0].size == (1984, 1984)
    box = [edge * 1984 / 4000 for edge in (3000, 3000, 3200, 3200)]
    view = shown(await ZoomTool().run({"bbox_2d": box}, ctx))
    assert share(view, RED) > 0.97
    assert view.region.as_tuple() == pytest.approx((3000, 3000, 3200, 3200))


@pytest.mark.parametrize("factor", FACTORS)
async def test_a_zoom_into_a_zoom_loses_nothing(factor: int) -> None:
    image = painted((4000, 3000), ((2000, 1500, 3000, 2250), BLUE), ((2400, 1800, 2440, 1840), RED))
    ctx = context(image, factor=factor, side=600)
    tool = ZoomTool(coordinates=Coordinates.PER_MILLE)
    first = shown(await tool.run({"bbox_2d": [500, 500, 750, 750]}, ctx))
    ctx.views.append(first)
    inner = {"bbox_2d": [400, 400, 440, 453.333], "img_idx": 1}
    second = shown(await tool.run(inner, ctx))
    assert second.region.as_tuple() == pytest.approx((2400, 1800, 2440, 1840), abs=0.5)
    assert share(second, RED) > 0.9
    latest = ZoomTool(coordinates=Coordinates.PER_MILLE, address=Address.LATEST)
    assert shown(await latest.run({"bbox_2d": inner["bbox_2d"]}, ctx)) == second


async def test_by_default_a_box_refers_to_the_first_whole_image() -> None:
    image = painted((640, 640), ((320, 320, 640, 640), RED))
    ctx = context(image, factor=32)
    ctx.views.append(render(image, Box(0, 0, 64, 64), ctx.limits))
    assert share(shown(await ZoomTool().run({"bbox_2d": [330, 330, 630, 630]}, ctx)), RED) == 1.0


async def test_another_image_can_be_named() -> None:
    ctx = context(painted((320, 320)), painted((640, 320), ((0, 0, 640, 320), RED)), factor=32)
    for index in (1, 1.0, "1"):
        view = shown(await ZoomTool().run({"bbox_2d": [400, 0, 640, 320], "img_idx": index}, ctx))
        assert (view.image_index, share(view, RED)) == (1, 1.0)


@pytest.mark.parametrize("index", [7, -1, "first", True, 0.5, [0], float("nan"), 1e400])
async def test_an_index_of_no_picture_is_told(index: object) -> None:
    result = await ZoomTool().run({"bbox_2d": [0, 0, 64, 64], "img_idx": index}, context(painted((320, 320))))
    assert result.error is not None
    assert "only picture 0" in result.error
    assert result.views == ()


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("box", [[100, 100, 105, 105], [100, 100, 101, 400], [100, 100, 128, 128], [1915, 0, 1920, 5]])
async def test_a_thin_box_grows_to_what_the_model_takes(factor: int, box: list[int]) -> None:
    image = painted((1920, 1080))
    ctx = context(image, factor=factor, side=4000)
    tool = ZoomTool(coordinates=Coordinates.ORIGINAL)
    result = await tool.run({"bbox_2d": box}, ctx)
    region = shown(result).region
    assert min(region.width, region.height) >= factor - 1e-6
    assert region.left <= box[0] + 1e-6
    assert region.right >= box[2] - 1e-6
    assert region.right <= 1920
    assert min(shown(result).size) >= factor
    grown = region.width > box[2] - box[0] + 1 or region.height > box[3] - box[1] + 1
    assert ("too thin" in result.text) == grown
    assert grown == (min(box[2] - box[0], box[3] - box[1]) < factor)


async def test_context_widens_the_box_and_is_no_matter_for_words() -> None:
    ctx = context(painted((640, 640)), factor=32)
    result = await ZoomTool(context=1.0).run({"bbox_2d": [200, 200, 300, 260]}, ctx)
    assert shown(result).region.as_tuple() == pytest.approx((100, 140, 400, 320))
    assert result.text == ""


@pytest.mark.parametrize(
    ("box", "region"),
    [
        ([60, 10, 20, 50], (20, 10, 60, 50)),
        ([-20, -20, 60, 60], (0, 0, 60, 60)),
        (["10", "10", "50", "50"], (10, 10, 50, 50)),
    ],
)
async def test_boxes_that_can_be_read_are(box: list, region: tuple[int, ...]) -> None:
    ctx = context(painted((96, 96)), factor=32)
    result = await ZoomTool(coordinates=Coordinates.ORIGINAL).run({"bbox_2d": box, "label": 7}, ctx)
    assert shown(result).region.as_tuple() == pytest.approx(region)
    assert ("was cut" in result.text) == (box[0] == -20)


async def test_a_box_over_the_edge_is_cut_without_black_borders_and_said() -> None:
    ctx = context(painted((96, 96), ((0, 0, 96, 96), RED)), factor=32)
    result = await ZoomTool().run({"bbox_2d": [50, 50, 150, 150]}, ctx)
    assert share(shown(result), RED) == 1.0
    assert "was cut" in result.text
    assert (await ZoomTool(notes=False).run({"bbox_2d": [50, 50, 150, 150]}, ctx)).text == ""


@pytest.mark.parametrize(
    "box",
    [
        [10, 10, 10, 50],
        [150, 150, 200, 200],
        [1500, 1500, 2000, 2000],
        [10, 10],
        [float("nan"), 0, 5, 5],
        [0, 0, 1e308, 1e308],
        [0, 0, 1, 1, 1],
        "the cat",
        None,
        {"x": 1},
        [True, False, 5, 5],
    ],
)
async def test_a_box_of_nothing_is_an_error_that_a_model_can_read(box: object) -> None:
    result = await ZoomTool().run({"bbox_2d": box}, context(painted((96, 96)), factor=32))
    assert result.error
    assert result.views == ()
    assert "\n" not in result.error
    assert len(result.error) < 300


async def test_errors_speak_in_the_models_own_numbers() -> None:
    ctx = context(painted((4000, 4000)), factor=32, side=1000)
    result = await ZoomTool().run({"bbox_2d": [10, 10, 10, 50]}, ctx)
    assert result.error == (
        "The box [10, 10, 10, 50] has no area in the picture. "
        "Give x1 < x2, within 0 to 992, and y1 < y2, within 0 to 992."
    )


async def test_a_missing_box_names_the_form() -> None:
    result = await ZoomTool(coordinates=Coordinates.UNIT).run({}, context(painted((96, 96)), factor=32))
    assert result.error == "image_zoom_in_tool needs bbox_2d: [x1, y1, x2, y2] from 0 to 1."


def test_the_schema_says_what_the_numbers_mean_and_offers_an_index_if_wanted() -> None:
    for coordinates, words in ((Coordinates.RESIZED, "in pixels"), (Coordinates.PER_MILLE, "from 0 to 1000")):
        tool: Tool = ZoomTool("look", coordinates)
        parameters = tool.schema["function"]["parameters"]
        assert tool.schema["function"]["name"] == tool.name == "look"
        assert parameters["properties"]["bbox_2d"]["description"] == f"x1, y1, x2, y2 {words}"
        assert "img_idx" not in parameters["properties"]
    assert "img_idx" in json.dumps(ZoomTool(indexed=True).schema)


async def test_without_a_picture_there_is_nothing_to_show() -> None:
    for arguments in ({"bbox_2d": [1, 2, 30, 40]}, {"bbox_2d": [1, 2, 30, 40], "img_idx": 0}):
        result = await ZoomTool().run(arguments, context())
        assert "no picture" in (result.error or "")


async def test_a_large_part_is_sent_as_a_whole_picture_would_be() -> None:
    ctx = context(painted((2400, 1600)))
    small = shown(await ZoomTool(coordinates=Coordinates.UNIT).run({"bbox_2d": [0, 0, 0.2, 0.2]}, ctx))
    large = shown(await ZoomTool(coordinates=Coordinates.UNIT).run({"bbox_2d": [0, 0, 0.8, 0.8]}, ctx))
    assert (small.mime, large.mime) == ("image/png", "image/jpeg")
