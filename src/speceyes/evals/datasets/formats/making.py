"""What every writer is given, and how it draws its pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image

from speceyes.errors import ConfigError
from speceyes.evals.datasets.formats.folder import Advance, NewFolder
from speceyes.evals.datasets.scenes import SIDE, Scene, draw_scene
from speceyes.imaging.view import JPEG, encode

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_IN_GROUP: Final = 100


@dataclass(frozen=True, slots=True)
class Making:
    """A set that is being made.

    Attributes:
        folder: Where its files go.
        count: Scenes.
        seeds: Of scenes, to draw from.
        side: Width and height of its pictures in pixels.
        advance: Is called after each scene.
    """

    folder: NewFolder
    count: int
    seeds: Iterator[int]
    side: int
    advance: Advance

    def picture(self, scene: Scene) -> bytes:
        """The scene as a JPEG file."""
        drawn = draw_scene(scene)
        if self.side != SIDE:
            drawn = drawn.resize((self.side, self.side), Image.Resampling.LANCZOS)
        return encode(drawn, JPEG)

    @property
    def scale(self) -> float:
        """Pixels of the pictures for one of the scenes."""
        return self.side / SIDE


def image_struct(data: bytes, path: str) -> dict[str, Any]:
    """A picture as the public Parquet files hold it: its bytes, and what its file was called."""
    return {"bytes": data, "path": path}


def write_parquet(making: Making, name: str, types: Mapping[str, str], rows: Iterator[dict[str, Any]]) -> None:
    """Write rows as a Parquet file, a hundred at a time.

    Args:
        making: The set.
        name: The file.
        types: `text`, `number` or `image` by column.
        rows: Its rows.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        message = f"Parquet files need pyarrow, which is not installed ({error}): pip install 'speceyes[evals]'"
        raise ConfigError(message) from error
    arrow = {
        "text": pa.string(),
        "number": pa.int64(),
        "image": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    }
    schema = pa.schema([(column, arrow[kind]) for column, kind in types.items()])

    def fill(path: Path) -> None:
        with pq.ParquetWriter(path, schema, compression="snappy") as writer:
            for group in _in_groups(rows):
                writer.write_table(_table(pa, group, schema))

    making.folder.fill(name, fill)


def _in_groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    group = []
    for row in rows:
        group.append(row)
        if len(group) == _ROWS_IN_GROUP:
            yield group
            group = []
    if group:
        yield group


def _table(pa: Any, group: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist(group, schema=schema)


Writer = Callable[[Making], list[int]]
"""Writes a set's files, and says from which scene seeds."""
