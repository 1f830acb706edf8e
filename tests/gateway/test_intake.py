"""Images of a request: every way to write base64, limits before work, and errors that name the image."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence

import pytest
from gateway_server import data_url, picture
from hypothesis import given
from hypothesis import strategies as st

from speceyes.errors import ImageError
from speceyes.gateway.intake import _bytes, take_in
from speceyes.gateway.wire.content import ImagePart
from speceyes.gateway.wire.errors import ApiError
from speceyes.imaging.decode import DecodedImage, DecodeLimits

RED, BLUE = picture("red", (40, 30)), picture("blue", (20, 50), "JPEG")


class Fetched:
    """A fetcher that has the pictures already."""

    def __init__(self, pictures: Mapping[str, bytes]) -> None:
        self.pictures, self.asked = pictures, list[dict[str, str]]()

    async def fetch_all(self, urls: Mapping[str, str]) -> dict[str, bytes]:
        self.asked.append(dict(urls))
        for name, url in urls.items():
            if url not in self.pictures:
                raise ImageError(f"could not fetch {name}: it is not there")
        return {name: self.pictures[url] for name, url in urls.items()}


async def take(*urls: str, limits: DecodeLimits | None = None, **more: object) -> tuple[DecodedImage, ...]:
    parts = [ImagePart(url, f"messages[0].content[{index}].image_url.url") for index, url in enumerate(urls)]
    options = {"max_images": 16} | more
    return await take_in(parts, limits or DecodeLimits(), **options)  # type: ignore[arg-type]


async def refused(*urls: str, status: int = 400, limits: DecodeLimits | None = None, **more: object) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await take(*urls, limits=limits, **more)
    assert caught.value.status == status
    return caught.value


async def test_images_come_out_in_their_order() -> None:
    found = await take(data_url(RED), data_url(BLUE, "image/jpeg"), data_url(RED))
    assert [image.size for image in found] == [(40, 30), (20, 50), (40, 30)]
    assert [image.sha256 for image in found] == [hashlib.sha256(data).hexdigest() for data in (RED, BLUE, RED)]


WRITTEN = {
    "plain": lambda data: base64.b64encode(data).decode(),
    "without padding": lambda data: base64.b64encode(data).decode().rstrip("="),
    "in lines": lambda data: base64.encodebytes(data).decode(),
    "for URLs": lambda data: base64.urlsafe_b64encode(data).decode(),
    "percent": lambda data: base64.b64encode(data).decode().replace("+", "%2B").replace("=", "%3D"),
}


@pytest.mark.parametrize("form", WRITTEN)
@given(data=st.binary(min_size=1, max_size=200))
def test_every_way_to_write_base64_is_read(form: str, data: bytes) -> None:
    assert _bytes(WRITTEN[form](data), "image 1", "x") == data


@pytest.mark.parametrize("head", ["data:image/png;base64,", "data:;base64,", "DATA:image/PNG;name=a.png;BASE64,"])
async def test_what_stands_before_the_data_may_vary(head: str) -> None:
    (found,) = await take(head + base64.b64encode(RED).decode())
    assert found.format == "PNG", "the file says what it is, whatever the URL says"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("data:image/png;base64,????", "its base64 is broken"),
        ("data:image/png,abc", "not in base64"),
        ("data:image/png;base64,", "the file is empty"),
        ("data:image/png;base64," + base64.b64encode(b"hello").decode(), "not an image of a known format"),
        (data_url(RED[: len(RED) // 2]), "damaged"),
        ("iVBORw0KGgo", "neither a data URL nor a web address"),
        ("file:///etc/hostname", "neither a data URL nor a web address"),
        ("", "neither a data URL nor a web address"),
        ("https://example.com/a.png", "--fetch-images"),
    ],
)
async def test_an_error_names_the_image_and_its_place(url: str, said: str) -> None:
    error = await refused(data_url(RED), url)
    assert error.message.startswith("image 2: ")
    assert said in error.message
    assert (error.param, error.code) == ("messages[0].content[1].image_url.url", "invalid_image")


async def test_an_error_does_not_repeat_the_picture() -> None:
    error = await refused("iVBORw0KGgo" * 10_000)
    assert len(error.message) < 300


async def test_a_web_address_is_fetched_where_that_is_wanted() -> None:
    fetcher = Fetched({"https://a/1.png": RED, "http://b/2.png": BLUE})
    found = await take("https://a/1.png", data_url(BLUE), "http://b/2.png", fetcher=fetcher)
    assert [image.size for image in found] == [(40, 30), (20, 50), (20, 50)]
    assert fetcher.asked == [{"image 1": "https://a/1.png", "image 3": "http://b/2.png"}]


async def test_a_fetch_that_fails_names_the_image() -> None:
    error = await refused(
        data_url(RED), "https://a/1.png", "https://a/2.png", fetcher=Fetched({"https://a/1.png": RED})
    )
    assert (error.message, error.param) == (
        "could not fetch image 3: it is not there",
        "messages[0].content[2].image_url.url",
    )


async def test_limits_on_number_bytes_and_pixels() -> None:
    many: Sequence[str] = [data_url(RED)] * 3
    assert "3 images are more than the limit of 2" in (await refused(*many, max_images=2, status=413)).message
    large = await refused(data_url(RED + b"x" * 999), limits=DecodeLimits(max_bytes=500), status=413)
    assert "the limit of 500 bytes" in large.message
    wide = await refused(data_url(RED), limits=DecodeLimits(max_pixels=1000))
    assert "40 x 30 pixels are more than the limit of 1,000" in wide.message
