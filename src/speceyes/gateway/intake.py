"""The images of a request: data URLs decoded, web addresses fetched, within limits and off the event loop.

Base64 is decoded once, straight to bytes, by msgspec, which is about four times as fast as Python's `binascii`. Only
what it refuses (line breaks, missing padding, the alphabet for URLs) takes the slow way.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Protocol
from urllib.parse import unquote

import msgspec

from speceyes.errors import ImageError
from speceyes.gateway.wire.content import ImagePart
from speceyes.gateway.wire.errors import ApiError, bad_request, too_large
from speceyes.imaging.decode import DecodedImage, DecodeLimits, decode

_HEAD = re.compile(r"data:([^,;]*)((?:;[^,;]*)*),", re.IGNORECASE)
_HEAD_LENGTH = 256
"""Far more than what stands before the comma of any data URL that clients write."""


class Fetcher(Protocol):
    """Whoever fetches web addresses."""

    async def fetch_all(self, urls: Mapping[str, str]) -> dict[str, bytes]:
        """The bytes under the same names as the URLs. Raises ImageError in words fit for the client."""


async def take_in(
    parts: Sequence[ImagePart], limits: DecodeLimits, *, max_images: int, fetcher: Fetcher | None = None
) -> tuple[DecodedImage, ...]:
    """Decode a request's images, in their order; as many come out as go in.

    Args:
        parts: The images as the request names them.
        limits: What we are ready to unpack.
        max_images: Most images of a request.
        fetcher: Fetches web addresses. None: they are refused.

    Raises:
        ApiError: 400 or 413 that names the image.
    """
    if len(parts) > max_images:
        raise too_large(f"messages: {len(parts)} images are more than the limit of {max_images}.", "messages")
    names = [f"image {number}" for number in range(1, len(parts) + 1)]
    fetched = await _fetched(parts, names, fetcher)
    jobs = [
        asyncio.to_thread(_decoded, part, name, fetched.get(name), limits)
        for part, name in zip(parts, names, strict=True)
    ]
    return tuple(await asyncio.gather(*jobs))


async def _fetched(parts: Sequence[ImagePart], names: Sequence[str], fetcher: Fetcher | None) -> dict[str, bytes]:
    urls = {name: part.url for name, part in zip(names, parts, strict=True) if _is_web_address(part.url)}
    if not urls:
        return {}
    places = {name: part.place for name, part in zip(names, parts, strict=True)}
    if fetcher is None:
        first = next(iter(urls))
        raise _invalid(
            f"{first}: web addresses are not fetched here. Send the image itself as a data URL "
            "(data:image/jpeg;base64,...), or let the server fetch: `speceyes serve --fetch-images`.",
            places[first],
        )
    try:
        return await fetcher.fetch_all(urls)
    except ImageError as error:
        named = next((name for name in urls if re.search(rf"\b{name}\b", str(error))), next(iter(urls)))
        raise _invalid(str(error), places[named]) from error


def _decoded(part: ImagePart, name: str, data: bytes | None, limits: DecodeLimits) -> DecodedImage:
    try:
        return decode(_from_data_url(part, name, limits) if data is None else data, limits, name)
    except ImageError as error:
        raise _invalid(str(error), part.place) from error


def _from_data_url(part: ImagePart, name: str, limits: DecodeLimits) -> bytes:
    head = _HEAD.match(part.url, 0, _HEAD_LENGTH)
    if head is None:
        raise _invalid(
            f"{name}: neither a data URL nor a web address (it begins with {part.url[:24]!r}). Send it as "
            "data:image/jpeg;base64,...",
            part.place,
        )
    if "base64" not in head.group(2).lower():
        raise _invalid(f"{name}: its data URL is not in base64 (data:image/jpeg;base64,...).", part.place)
    payload = part.url[head.end() :]
    if len(payload) // 4 * 3 > limits.max_bytes + 3:
        raise too_large(f"{name}: the file is larger than the limit of {limits.max_bytes:,} bytes.", part.place)
    return _bytes(payload, name, part.place)


def _bytes(payload: str, name: str, place: str) -> bytes:
    try:
        return msgspec.convert(payload, bytes)
    except msgspec.ValidationError:
        pass
    text = "".join(unquote(payload).split()).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise _invalid(f"{name}: its base64 is broken ({error}).", place) from None


def _is_web_address(url: str) -> bool:
    return url[:8].lower().startswith(("http://", "https://"))


def _invalid(message: str, place: str) -> ApiError:
    return bad_request(message, place, "invalid_image")
