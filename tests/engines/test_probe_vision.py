"""The probe's checks of images, against scripted servers that lack one thing each."""

from __future__ import annotations

from dataclasses import replace

import pytest
from capable_server import (
    ALL_WELL,
    IMAGE_TOKENS,
    NO_IMAGES,
    Answer,
    Capable,
    Request,
    outcomes,
    parts,
    probed,
    prompt_tokens,
)

from speceyes.engines.findings import Feature
from speceyes.engines.scripted import Reply, Status


@pytest.mark.parametrize("code", [400, 422, 500])
async def test_images_refused(code: int) -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        if parts(request, "image_url"):
            return Status(code, {"error": {"message": "this model takes no images"}})
        return capable(request, turn)

    result = await probed(script)
    assert outcomes(result) == ALL_WELL | NO_IMAGES
    assert "this model takes no images" in result.warnings(64)[0]


async def test_images_dropped_without_a_word() -> None:
    class Blind(Capable):
        def prompt(self, request: Request) -> int:
            return prompt_tokens(request) - IMAGE_TOKENS * len(parts(request, "image_url"))

        def cached(self, request: Request) -> int:
            return 0

    result = await probed(Blind())
    assert outcomes(result) == ALL_WELL | NO_IMAGES
    assert "dropped" in result[Feature.IMAGES].detail


async def test_one_image_only_and_none_for_tools() -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        if len(parts(request, "image_url")) > 1:
            return Status(400, {"error": {"message": "At most 1 image(s) may be provided in one prompt."}})
        if parts(request, "image_url", role="tool"):
            return Status(400, {"error": {"message": "tool messages are text"}})
        return capable(request, turn)

    result = await probed(script)
    assert outcomes(result) == ALL_WELL | {Feature.TWO_IMAGES: "no", Feature.TOOL_IMAGES: "no"}
    two, tool = result.warnings(64)
    assert "--limit-mm-per-prompt" in two
    assert "At most 1 image(s)" in two
    assert "user message" in tool


@pytest.mark.parametrize(
    ("cached", "outcome", "said"),
    [
        (0, "no", "0 of 113 tokens"),
        (9, "no", "the picture not among them"),
        (None, "unknown", "does not say"),
    ],
)
async def test_prefix_cache(cached: int | None, outcome: str, said: str) -> None:
    class Caching(Capable):
        def cached(self, request: Request) -> int | None:
            return cached

    result = await probed(Caching())
    assert outcomes(result) == ALL_WELL | {Feature.PREFIX_CACHE: outcome}
    assert said in result[Feature.PREFIX_CACHE].detail
    (warning,) = result.warnings(64)
    assert said in warning


async def test_server_that_counts_no_tokens() -> None:
    capable = Capable()

    def script(request: Request, turn: int) -> Answer:
        reply = capable(request, turn)
        assert isinstance(reply, Reply)
        return replace(reply, usage=None)

    result = await probed(script)
    assert outcomes(result) == ALL_WELL | dict.fromkeys([*NO_IMAGES, Feature.TOOLS_RENDERED], "unknown")
    assert "accepted" in result[Feature.IMAGES].detail
