"""Small files that would unpack to gigabytes are refused before anything is unpacked."""

from __future__ import annotations

import struct
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import pytest
from imaging_samples import encode, png_chunk, png_file
from PIL import BmpImagePlugin, GifImagePlugin, Image, JpegImagePlugin, PngImagePlugin, TiffImagePlugin

from speceyes.errors import ImageError
from speceyes.imaging import DecodeLimits, decode


def zeros(count: int) -> bytes:
    """That many zero bytes, compressed; never all in memory."""
    packer = zlib.compressobj(1)
    block = bytes(1 << 20)
    out = [packer.compress(block) for _ in range(count >> 20)]
    out += [packer.compress(bytes(count & (1 << 20) - 1)), packer.flush()]
    return b"".join(out)


def one_colour_png(width: int, height: int) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zeros(height * (1 + (width + 7) // 8))
    chunks = png_chunk(b"IHDR", header) + png_chunk(b"IDAT", pixels) + png_chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def with_size(data: bytes, at: int, fields: str, *values: int) -> bytes:
    """The file with other numbers at an offset."""
    new = struct.pack(fields, *values)
    return data[:at] + new + data[at + len(new) :]


def tiff_of(width: int, height: int, **tags: int) -> bytes:
    """A TIFF whose header promises a size that its data cannot hold."""
    entries = {256: width, 257: height, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: height, 279: 8}
    if tags:
        entries |= {322: tags["tile_width"], 323: tags["tile_height"], 324: 8, 325: 8}
        for strip_tag in (273, 278, 279):
            del entries[strip_tag]
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in sorted(entries.items()))
    return b"II*\0" + struct.pack("<I", 16) + bytes(8) + struct.pack("<H", len(entries)) + body + bytes(4)


def vp8x(width: int, height: int) -> bytes:
    canvas = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + canvas
    return b"RIFF" + struct.pack("<I", len(body)) + body


SMALL = Image.new("RGB", (16, 16), "red")
JPEG = encode(SMALL, "JPEG")
LOSSY, LOSSLESS = encode(SMALL, "WEBP"), encode(SMALL, "WEBP", lossless=True)
BOMBS = {
    "PNG": one_colour_png(30_000, 30_000),
    "JPEG": with_size(JPEG, JPEG.index(b"\xff\xc0") + 5, ">HH", 60_000, 60_000),
    "GIF": with_size(encode(SMALL, "GIF"), 6, "<HH", 65_000, 65_000),
    "BMP": with_size(encode(SMALL, "BMP"), 18, "<ii", 50_000, 50_000),
    "TIFF": tiff_of(60_000, 60_000),
    "TIFF tile": tiff_of(16, 16, tile_width=60_000, tile_height=60_000),
    "WebP": vp8x(16_000, 16_000),
    "WebP lossy": with_size(LOSSY, 26, "<HH", 16_000, 16_000),
    "WebP lossless": with_size(LOSSLESS, 21, "<I", 16_382 | 16_382 << 14),
    "PPM": b"P6 60000 60000 255\n" + bytes(100),
}


@pytest.fixture
def no_unpacking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a decoder is even started."""

    def load(self: Image.Image) -> None:
        raise AssertionError(f"{self.format} was unpacked")

    for plugin in (
        PngImagePlugin.PngImageFile,
        JpegImagePlugin.JpegImageFile,
        GifImagePlugin.GifImageFile,
        BmpImagePlugin.BmpImageFile,
        TiffImagePlugin.TiffImageFile,
    ):
        monkeypatch.setattr(plugin, "load", load)


@pytest.mark.usefixtures("no_unpacking")
@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
def test_the_header_alone_is_enough_to_refuse(data: bytes) -> None:
    assert len(data) < 1_000_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ImageError, match=r"image 1: \d+ x \d+ pixels are more than the limit of"):
            decode(data, name="image 1")


def test_a_large_picture_within_our_limit_gives_no_warning_of_pillows() -> None:
    data = one_colour_png(10_000, 9_500)  # over Pillow's own first limit of 89 million
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode(data).size == (10_000, 9_500)


def test_our_limit_holds_above_pillows_too() -> None:
    assert decode(one_colour_png(200_000, 1_000), DecodeLimits(max_pixels=200_000_000)).size[1] == 1000


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (b"zTXt", "before"),
        (b"zTXt", "after"),
        (b"iTXt", "before"),
        (b"iTXt", "after"),
        (b"iCCP", "before"),  # behind the pixels a profile is never read
    ],
)
def test_compressed_text_that_unpacks_to_100_mb_is_refused(kind: bytes, where: str) -> None:
    packed = zeros(100_000_000)
    content = b"Comment\0\1\0\0\0" if kind == b"iTXt" else b"Comment\0\0"
    chunk = png_chunk(kind, content + packed)
    rows = b"\0\1\2\3"
    data = png_file((1, 1), rows, chunk) if where == "before" else png_file((1, 1), rows, after=(chunk,))
    with pytest.raises(ImageError, match="image 1"):
        decode(data, name="image 1")


def test_a_tiff_that_promises_more_than_it_holds_is_refused() -> None:
    with pytest.raises(ImageError):
        decode(tiff_of(4000, 4000))


_MEASURE = """
import resource, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from speceyes.errors import ImageError
from speceyes.imaging import decode

files = [Path(name).read_bytes() for name in sys.argv[1:]]

def work(data):
    try:
        decode(data)
    except ImageError:
        return 1
    return 0

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ThreadPoolExecutor(20) as pool:
    refused = sum(pool.map(work, files * 20))
print(refused, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_twenty_at_once_leave_memory_flat(tmp_path: Path) -> None:
    text = png_file((1, 1), b"\0\1\2\3", png_chunk(b"zTXt", b"Comment\0\0" + zeros(100_000_000)))
    names = []
    for number, data in enumerate([*BOMBS.values(), text]):
        names.append(str(tmp_path / f"{number}.bin"))
        Path(names[-1]).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *names], capture_output=True, text=True, check=True, timeout=60
    )
    refused, grown_kib = map(int, done.stdout.split())
    assert refused == 20 * len(names)
    assert grown_kib < 60 * 1024
