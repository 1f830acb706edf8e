"""From a file's bytes to pixels: upright, RGB, complete, and within limits, or an error that names the image.

Size limits are checked on the header, before anything of the picture is unpacked. Only the first frame is
ever decoded, and an ordinary JPEG only at the fraction of its size that it takes to know that it is whole: see
`jpeg_glance`. Its pixels at other sizes are unpacked when somebody looks at them, once.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass, field
from pathlib import Path

from PIL import Image, ImageFile

from speceyes.errors import ImageError
from speceyes.imaging.frames import count_frames
from speceyes.imaging.integrity import check_bytes, check_pixels
from speceyes.imaging.jpeg_glance import FACTORS, Glance, glance, glance_factor
from speceyes.imaging.modes import to_rgb
from speceyes.imaging.unpacked import Unpacked

_MIB = 1024**2

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM")
"""What we open. Pillow knows more, some through outside programs; nobody asks questions about those."""

# Loads all of Pillow's plugins once, here, so that threads do not meet in the middle of it.
Image.init()

_ORIENTATION_TAG = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""How to set a picture upright, by the value of its orientation tag (EXIF 2.3, table 4.6.4). 1 is upright."""


@dataclass(frozen=True, slots=True)
class DecodeLimits:
    """What we are ready to unpack.

    Attributes:
        max_bytes: Most bytes of a file.
        max_pixels: Most width x height, as the file's header gives them. A decoded pixel takes 3 bytes, and
            up to 8 for a moment.
        max_frames: Most frames of a file, or None for any number. Frames after the first are never decoded,
            so this is no limit on cost; it is for people who would rather refuse an animation than answer
            from its first frame.
    """

    max_bytes: int = 64 * _MIB
    max_pixels: int = 150_000_000
    max_frames: int | None = None


DEFAULT_LIMITS = DecodeLimits()


@dataclass(frozen=True)
class DecodedImage:
    """An image as everything after intake uses it.

    Attributes:
        source: The original bytes.
        format: Of the file, as Pillow names it: `JPEG`, `PNG`, `WEBP`, ...
        sha256: Hex digest of the original bytes.
        size: (width, height) in pixels, upright.
        plain: Whether every decoder makes the same of `source`: 8-bit colour or grey, upright by itself, opaque, one
            frame, a format of the web. Such bytes may be sent on as they are.
    """

    source: bytes = field(repr=False, compare=False)
    format: str
    sha256: str
    size: tuple[int, int]
    plain: bool = False
    _unpacked: Unpacked = field(default_factory=Unpacked, init=False, repr=False, compare=False)

    @classmethod
    def of_pixels(cls, pixels: Image.Image) -> DecodedImage:
        """An RGB picture that was made here and has no file."""
        image = cls(b"", "PNG", hashlib.sha256(pixels.tobytes()).hexdigest(), pixels.size)
        image._unpacked.keep(1, pixels)
        return image

    @property
    def pixels(self) -> Image.Image:
        """RGB, orientation applied, no metadata. Treat it as read-only: threads share it."""
        return self.at(1)

    @property
    def unpacked(self) -> tuple[int, ...]:
        """The factors at which it has been unpacked: see `at`."""
        return self._unpacked.factors

    def shrunk(self, least: tuple[int, int]) -> Image.Image:
        """The whole picture, RGB, at a size that is cheap to unpack and not below `least` (width, height)."""
        return self.at(self.factor(least))

    def factor(self, least: tuple[int, int]) -> int:
        """The largest factor for `at` that leaves at least so many pixels (width, height).

        It hangs on nothing but the picture, so a model is shown the same whatever others have been shown before.
        """
        if not (self.plain and self.format == "JPEG"):
            return 1
        fit = min(side // wanted for side, wanted in zip(self.size, least, strict=True))
        return next((factor for factor in FACTORS if factor <= fit), 1)

    def at(self, factor: int) -> Image.Image:
        """The whole picture, RGB, at 1, 1/2, 1/4 or 1/8 of its size, rounded up; unpacked once.

        Only a plain JPEG can be had smaller. What is smaller than what `decode` has read of it is made from that.
        """
        return self._unpacked.get(factor, lambda: self._at(factor))

    def _at(self, factor: int) -> Image.Image:
        first = None if factor == 1 else glance_factor(self.source, self.size)
        if first is not None and factor > first:
            return self.at(first).reduce(factor // first)
        image = _opened(self.source, self.format)
        if factor > 1:
            image.draft("RGB", (self.size[0] // factor, self.size[1] // factor))
        return _unpack(image)


def load(path: str | Path, limits: DecodeLimits = DEFAULT_LIMITS) -> DecodedImage:
    """Decode a file.

    Raises:
        ImageError: It cannot be read, or `decode` refuses it. The message names the path.
    """
    path = Path(path)
    try:
        if not path.is_file():
            raise ImageError(f"{path}: there is no such file.")
        with path.open("rb") as file:
            data = file.read(limits.max_bytes + 1)
    except (OSError, ValueError) as error:
        raise ImageError(f"{path}: cannot be read ({error}).") from error
    return decode(data, limits, str(path))


def decode(data: bytes, limits: DecodeLimits = DEFAULT_LIMITS, name: str = "image") -> DecodedImage:
    """Decode an image completely, or say why not.

    Args:
        data: The file.
        limits: What we are ready to unpack.
        name: What to call the image in an error, for example "image 2".

    Raises:
        ImageError: Too large, not an image of a known format, or damaged.
    """
    if not data:
        raise ImageError(f"{name}: the file is empty.")
    if len(data) > limits.max_bytes:
        raise ImageError(
            f"{name}: the file is larger than the limit of {limits.max_bytes:,} bytes. Send a smaller one."
        )
    try:
        image = _open(data, limits, name)
        file_format = image.format or ""
        check_bytes(data, file_format)
        digest = hashlib.sha256(data).hexdigest()
        first = glance(data) if file_format == "JPEG" and _is_plain(image) else None
        if first is not None and first.surely_whole:
            return _begun(DecodedImage(data, file_format, digest, image.size, plain=True), first)
        image.load()
        check_pixels(data, image)
        plain = _is_plain(image)
        pixels = _unpack(image)
    except ImageError:
        raise
    # Pillow's decoders meet hostile bytes with every kind of exception; the file is at fault in each.
    except Exception as error:
        raise ImageError(f"{name}: the image is damaged or of an unknown kind ({error}).") from error
    decoded = DecodedImage(data, "JPEG" if file_format == "MPO" else file_format, digest, pixels.size, plain)
    decoded._unpacked.keep(1, pixels)
    return decoded if first is None else _begun(decoded, first)


def _begun(image: DecodedImage, first: Glance) -> DecodedImage:
    image._unpacked.keep(first.factor, first.picture)
    return image


def _is_plain(image: ImageFile.ImageFile) -> bool:
    """As `DecodedImage.plain`. A JPEG's header tells; others must be loaded before."""
    return (
        image.format in ("JPEG", "PNG", "WEBP")
        and image.mode in ("RGB", "L")
        and "transparency" not in image.info
        and not getattr(image, "is_animated", False)
        and _orientation(image) == 1
    )


def _opened(data: bytes, image_format: str) -> ImageFile.ImageFile:
    """A file that `decode` has let pass, opened again."""
    factory, _ = Image.OPEN[image_format]
    image: ImageFile.ImageFile = factory(io.BytesIO(data), "")
    return image


def _unpack(image: ImageFile.ImageFile) -> Image.Image:
    return _upright(to_rgb(image), _orientation(image))


def _open(data: bytes, limits: DecodeLimits, name: str) -> ImageFile.ImageFile:
    """Read the header and hold it against the limits.

    Not `Image.open`: that checks sizes against a limit of the whole process, and only warns up to twice that.
    A warning can be made an error only for the whole process too, which no library should do, least of all
    from a thread.
    """
    _check_pixels(_webp_canvas(data), limits, name)
    for image_format in FORMATS:
        factory, accepts = Image.OPEN.get(image_format, (None, None))
        if factory is None or (accepts is not None and accepts(data[:16]) is not True):
            continue
        try:
            image = factory(io.BytesIO(data), "")
        except SyntaxError as error:
            raise ImageError(f"{name}: begins like a {image_format} file but is damaged ({error}).") from error
        if min(image.size) < 1:
            raise ImageError(f"{name}: the image has no pixels ({image.width} x {image.height}).")
        _check_pixels(image.size, limits, name)
        _check_pixels(_tile_size(image), limits, name)
        _check_frames(image, data, limits, name)
        return image
    raise ImageError(f"{name}: not an image of a known format ({', '.join(FORMATS)}).")


def _check_pixels(size: tuple[int, int], limits: DecodeLimits, name: str) -> None:
    width, height = size
    if width * height > limits.max_pixels:
        raise ImageError(
            f"{name}: {width} x {height} pixels are more than the limit of {limits.max_pixels:,}. Send a smaller image."
        )


def _check_frames(image: ImageFile.ImageFile, data: bytes, limits: DecodeLimits, name: str) -> None:
    if limits.max_frames is not None and count_frames(image, data, limits.max_frames + 1) > limits.max_frames:
        raise ImageError(f"{name}: holds more than {limits.max_frames} frames. Send a still image.")


def _webp_canvas(data: bytes) -> tuple[int, int]:
    """The canvas of a WebP file, or (0, 0). The decoder takes memory for all of it as soon as it is opened.

    Layout of the first chunk's header: RFC 9649, section 2.
    """
    head = data[:30]
    if len(head) < 30 or head[:4] != b"RIFF" or head[8:12] != b"WEBP":
        return 0, 0
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            sides = int.from_bytes(head[26:30], "little")
            return sides & 0x3FFF, sides >> 16 & 0x3FFF
    return 0, 0


def _tile_size(image: ImageFile.ImageFile) -> tuple[int, int]:
    """A TIFF's tiles may be declared far larger than the picture, and a whole one is unpacked at once."""
    tags = getattr(image, "tag_v2", {})
    width, height = tags.get(322, 0), tags.get(323, 0)
    return (width, height) if isinstance(width, int) and isinstance(height, int) else (0, 0)


def _orientation(image: Image.Image) -> int:
    """The orientation tag's value after decoding: 1 where there is none, or its block cannot be read.

    Pillow sets TIFF files upright while it decodes, and then reports 1.
    """
    try:
        value = image.getexif().get(_ORIENTATION_TAG, 1)
    except Exception:  # a broken EXIF block fails in every way that parsing can; the picture is still good
        return 1
    return value if isinstance(value, int) else 1


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    """The picture turned as its tag says, as a plain image that carries neither the tag nor the file."""
    turn = _TURNS.get(orientation)
    if turn is not None:
        image = image.transpose(turn)
    elif isinstance(image, ImageFile.ImageFile):
        image = image.copy()
    image.info.clear()
    return image
