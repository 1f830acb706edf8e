"""The reading tool: drawn words come back with boxes that a zoom finds. The reader itself needs the extra `ocr`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont
from tool_samples import context, shown

from speceyes.errors import ConfigError
from speceyes.imaging.decode import DecodedImage
from speceyes.imaging.geometry import Box, Coordinates
from speceyes.tools import Address, OcrTool, RotateTool, ToolContext, ZoomTool, run_tool
from speceyes.tools.ocr import Line, ocr_is_installed

WORDS = {"SPEED LIMIT 45": (160, 150), "Exit 12 B": (900, 850)}


def page(words: dict[str, tuple[int, int]] = WORDS, size: tuple[int, int] = (1600, 1200)) -> DecodedImage:
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for text, at in words.items():
        draw.text(at, text, fill="black", font=ImageFont.load_default(64))
    return DecodedImage.of_pixels(image)


def written(text: str) -> Box:
    """Where `page` has drawn a text."""
    draw = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    return Box(*draw.textbbox(WORDS[text], text, font=ImageFont.load_default(64)))


def dark_box(picture: Image.Image) -> list[Line]:
    """A reader without a model: it finds the box around all that is dark."""
    found = picture.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    return [] if found is None else [Line("words", Box(*map(float, found)), 0.9)]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


ONE = page({"Exit 12 B": WORDS["Exit 12 B"]})


class TestBoxes:
    """What is arithmetic, with a reader that needs no model."""

    @pytest.mark.parametrize(
        ("coordinates", "scale"),
        [
            (Coordinates.ORIGINAL, (1.0, 1.0)),
            (Coordinates.UNIT, (1 / 1600, 1 / 1200)),
            (Coordinates.PER_MILLE, (1000 / 1600, 1000 / 1200)),
        ],
    )
    async def test_they_are_in_the_model_s_coordinates(
        self, coordinates: Coordinates, scale: tuple[float, float]
    ) -> None:
        result = await OcrTool(coordinates=coordinates, read_lines=dark_box).run({}, context(ONE))
        (line,) = lines(result.text)
        box = written("Exit 12 B")
        expected = [box.left * scale[0], box.top * scale[1], box.right * scale[0], box.bottom * scale[1]]
        assert line["bbox_2d"] == pytest.approx(expected, abs=8 * scale[0])

    async def test_the_box_of_a_line_can_be_zoomed_into(self) -> None:
        ctx = context(ONE)
        (line,) = lines((await OcrTool(read_lines=dark_box).run({}, ctx)).text)
        view = shown(await ZoomTool().run({"bbox_2d": line["bbox_2d"]}, ctx))
        assert view.region.iou(written("Exit 12 B")) > 0.8

    async def test_a_part_is_read_alone_and_its_lines_are_told_on_the_whole(self) -> None:
        ctx = context(page())
        tool = OcrTool(coordinates=Coordinates.ORIGINAL, read_lines=dark_box)
        (line,) = lines((await tool.run({"bbox_2d": [800, 700, 1600, 1100]}, ctx)).text)
        assert Box(*line["bbox_2d"]).iou(written("Exit 12 B")) > 0.8
        assert (await tool.run({"bbox_2d": [0, 500, 300, 600]}, ctx)).text == "There is no text that can be read."

    async def test_a_turned_picture_is_read_as_it_is_seen(self) -> None:
        ctx = context(ONE)
        ctx.views.append(shown(await RotateTool().run({"angle": 90}, ctx)))
        latest = OcrTool(coordinates=Coordinates.PER_MILLE, address=Address.LATEST, read_lines=dark_box)
        (line,) = lines((await latest.run({}, ctx)).text)
        zoom = ZoomTool(coordinates=Coordinates.PER_MILLE, address=Address.LATEST)
        view = shown(await zoom.run({"bbox_2d": line["bbox_2d"]}, ctx))
        assert view.region.iou(written("Exit 12 B")) > 0.8

    async def test_a_sliver_is_widened(self) -> None:
        sizes: list[tuple[int, int]] = []

        def note(picture: Image.Image) -> list[Line]:
            sizes.append(picture.size)
            return []

        tool = OcrTool(coordinates=Coordinates.ORIGINAL, read_lines=note)
        await tool.run({"bbox_2d": [10, 10, 700, 12]}, context(page()))
        assert sizes == [(690, 48)]

    async def test_a_huge_picture_is_made_smaller(self) -> None:
        sizes: list[tuple[int, int]] = []

        def note(picture: Image.Image) -> list[Line]:
            sizes.append(picture.size)
            return [Line("all", Box(0, 0, *map(float, picture.size)), 1.0)]

        tool = OcrTool(coordinates=Coordinates.ORIGINAL, read_lines=note)
        (line,) = lines((await tool.run({}, context(page({}, (8000, 4000))))).text)
        assert sizes[0][0] * sizes[0][1] == pytest.approx(4_000_000, rel=0.01)
        assert line["bbox_2d"] == pytest.approx([0, 0, 8000, 4000], abs=2)

    async def test_lines_that_are_uncertain_are_left_out(self) -> None:
        def unsure(picture: Image.Image) -> list[Line]:
            return [Line("perhaps", Box(0, 0, 9, 9), 0.3)]

        assert "no text" in (await OcrTool(read_lines=unsure).run({}, context(ONE))).text

    async def test_a_reader_that_fails_is_told(self) -> None:
        def fail(picture: Image.Image) -> list[Line]:
            raise RuntimeError("no session")

        result = await run_tool(OcrTool(read_lines=fail), {}, context(ONE))
        assert result.error == "read_text failed: RuntimeError: no session"

    async def test_without_a_picture_it_says_so(self) -> None:
        result = await OcrTool(read_lines=dark_box).run({}, ToolContext((), [], context(ONE).limits))
        assert result.error is not None


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speceyes.tools.ocr.ocr_is_installed", lambda: False)
    with pytest.raises(ConfigError, match=r"pip install 'speceyes\[ocr\]'"):
        OcrTool()


@pytest.mark.skipif(not ocr_is_installed(), reason="needs the extra `ocr`: pip install 'speceyes[ocr]'")
class TestTheRealReader:
    async def test_drawn_words_are_read_where_they_are(self) -> None:
        result = await OcrTool(coordinates=Coordinates.ORIGINAL).run({}, context(page()))
        read = {line["text"]: Box(*line["bbox_2d"]) for line in lines(result.text)}
        assert read.keys() == WORDS.keys()
        assert all(box.iou(written(text)) > 0.5 for text, box in read.items())

    async def test_a_part_is_read(self) -> None:
        tool = OcrTool(coordinates=Coordinates.ORIGINAL)
        result = await tool.run({"bbox_2d": [850, 800, 1300, 960]}, context(page()))
        assert [line["text"] for line in lines(result.text)] == ["Exit 12 B"]

    async def test_an_empty_picture_holds_no_text(self) -> None:
        assert (await OcrTool().run({}, context(page({})))).text == "There is no text that can be read."

    async def test_text_on_its_side_is_read_once_it_is_turned(self) -> None:
        image = page({"Exit 12 B": (100, 100)}, (500, 300)).pixels.transpose(Image.Transpose.ROTATE_90)
        ctx = context(DecodedImage.of_pixels(image))
        ctx.views.append(shown(await RotateTool().run({"angle": 90}, ctx)))
        result = await OcrTool().run({"img_idx": 1}, ctx)
        assert [line["text"] for line in lines(result.text)] == ["Exit 12 B"]
