"""How many frames a file holds, counted without decoding any."""

from __future__ import annotations

from PIL import Image


def count_frames(image: Image.Image, data: bytes, at_most: int) -> int:
    """The number of frames, or `at_most` if it is that or more.

    Args:
        image: The opened file.
        data: Its bytes.
        at_most: Where to stop counting.
    """
    if image.format == "GIF":
        return _count_gif(data, at_most)
    return min(int(getattr(image, "n_frames", 1)), at_most)


def _count_gif(data: bytes, at_most: int) -> int:
    """Walk a GIF's blocks (GIF89a, sections 17-27). Pillow would unpack each frame to find the next."""
    position = 13 + _table_size(data[10])
    frames = 0
    while frames < at_most and position < len(data):
        match data[position]:
            case 0x21:  # extension: label, then sub-blocks
                position = _skip_blocks(data, position + 2)
            case 0x2C:  # frame: descriptor of 10 bytes, its own colour table, code size, then sub-blocks
                if position + 10 > len(data):
                    break
                frames += 1
                position = _skip_blocks(data, position + 10 + _table_size(data[position + 9]) + 1)
            case _:
                break
    return frames


def _table_size(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _skip_blocks(data: bytes, position: int) -> int:
    while position < len(data) and data[position]:
        position += data[position] + 1
    return position + 1
