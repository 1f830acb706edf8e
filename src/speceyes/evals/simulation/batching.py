"""How much slower a call becomes when others run beside it on the same server.

A server that decodes in batches reads its weights once for all calls of a step, so a second call costs little; a
processor that is full with one call gives each of b calls a b-th. Both are one function, slowdown(b): how many times as
long a call takes beside b - 1 others as alone. All calls of a server share alike (processor sharing), so together they
get b / slowdown(b) seconds of lone work done a second.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from speceyes.errors import ConfigError

KNEE = 48
"""Of the preset `gpu`."""
_FORMS = "cpu, cpu:CORES, gpu, gpu:KNEE, alone, or a JSON file with points"


@dataclass(frozen=True, slots=True)
class BatchingCurve:
    """Slowdown by the number of calls under way, given at some numbers and straight between them.

    Beyond the last point nothing more is gained: the calls' common rate stays what it is there.

    Attributes:
        name: What people call it.
        points: (calls under way, slowdown), beginning with (1, 1.0); neither may fall.
        slots: Calls that a server of this kind runs at a time where nobody says otherwise; more wait their turn.

    Raises:
        ConfigError: The points are no such curve.
    """

    name: str
    points: tuple[tuple[int, float], ...]
    slots: int

    def __post_init__(self) -> None:
        calls, slow = [at for at, _ in self.points], [value for _, value in self.points]
        if not self.points or calls[0] != 1 or slow[0] != 1.0:
            raise ConfigError(f"batching {self.name}: the first point must be one call with a slowdown of 1: [1, 1.0]")
        if calls != sorted(set(calls)) or slow != sorted(slow) or not all(map(math.isfinite, slow)):
            raise ConfigError(f"batching {self.name}: calls must rise from point to point, and slowdowns must not fall")
        if self.slots < 1:
            raise ConfigError(f"batching {self.name}: a server needs at least one slot, not {self.slots}")

    @classmethod
    def cpu(cls, cores: int = 1) -> BatchingCurve:
        """Work-conserving on cores of which each call uses one: nothing is gained by batching, nothing is lost.

        With one "core", one call alone keeps the whole server busy, as llama.cpp on a processor does.
        """
        if cores < 1:
            raise ConfigError(f"batching cpu:{cores}: a server needs at least one core")
        points = ((1, 1.0),) if cores == 1 else ((1, 1.0), (cores, 1.0))
        return cls(f"cpu:{cores}", points, max(16, cores))

    @classmethod
    def gpu(cls, knee: int = KNEE) -> BatchingCurve:
        """A server that decodes in batches on a graphics processor: slowdown(b) = 1 + (b - 1) / knee.

        A decode step takes t_weights + b t_call: the weights are read from memory once however many calls there are
        (the flat part of the roofline, Williams et al., 2009), and each call adds its own keys and values, arithmetic
        and share of prefill. Then knee = (t_weights + t_call) / t_call is also how many lone calls' work such a server
        can do at most. 48 is a cautious figure for a 7B model with some hundred tokens of prefill a turn, and no
        measurement: give the points of your own server where you have them.
        """
        if knee < 1:
            raise ConfigError(f"batching gpu:{knee}: the knee must be at least 1")
        return cls(f"gpu:{knee}", ((1, 1.0), (1 + 15 * knee, 16.0)), 256)

    @classmethod
    def alone(cls) -> BatchingCurve:
        """One call at a time; the others wait."""
        return cls("alone", ((1, 1.0),), 1)

    def slowdown(self, calls: int) -> float:
        """How many times as long each of so many calls takes as one alone. ValueError for less than one call."""
        if calls < 1:
            raise ValueError(f"{calls} calls have no slowdown")
        low, low_slow = self.points[0]
        for high, high_slow in self.points[1:]:
            if calls <= high:
                return low_slow + (high_slow - low_slow) * (calls - low) / (high - low)
            low, low_slow = high, high_slow
        return low_slow * calls / low

    def rate(self, calls: int) -> float:
        """Seconds of lone work that so many calls together get done a second."""
        return calls / self.slowdown(calls) if calls else 0.0

    def capacity(self, slots: int | None = None) -> float:
        """The most that `rate` reaches with so many slots."""
        return max(self.rate(calls) for calls in range(1, (slots or self.slots) + 1))


def read_batching(text: str, slots: int | None = None) -> tuple[BatchingCurve, BatchingCurve]:
    """The curves of draft and agent servers, from a preset's name or a file.

    A file holds `{"points": [[1, 1.0], [8, 1.4]], "slots": 32}`, or two such objects under `draft` and `agent`.

    Args:
        text: `cpu`, `cpu:4`, `gpu`, `gpu:64`, `alone`, or a path.
        slots: Calls that each server runs at a time. None: what the curve says.

    Raises:
        ConfigError: There is no such preset or file, or it holds no curve.
    """
    kind, _, number = text.partition(":")
    if kind in ("cpu", "gpu", "alone") and not (kind == "alone" and number):
        try:
            preset = _preset(kind, int(number) if number else None)
        except ValueError:
            raise ConfigError(f"--batching {text}: {number!r} is no whole number. Give {_FORMS}") from None
        return (_with(preset, slots),) * 2
    try:
        found = json.loads(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        said = error.strerror or error
        raise ConfigError(f"--batching {text}: no preset of this name, and no file ({said}). Give {_FORMS}") from error
    except ValueError as error:
        raise ConfigError(f"--batching {text}: the file is no JSON ({error})") from error
    halves = [found.get(part, found) if isinstance(found, dict) else found for part in ("draft", "agent")]
    draft, agent = (_with(_read(half, text), slots) for half in halves)
    return draft, agent


def _preset(kind: str, number: int | None) -> BatchingCurve:
    if kind == "alone":
        return BatchingCurve.alone()
    if kind == "cpu":
        return BatchingCurve.cpu(1 if number is None else number)
    return BatchingCurve.gpu(KNEE if number is None else number)


def _read(found: object, name: str) -> BatchingCurve:
    points = found.get("points") if isinstance(found, dict) else None
    slots = found.get("slots", 16) if isinstance(found, dict) else None
    if not isinstance(points, list) or not all(map(_is_pair, points)) or not isinstance(slots, int):
        raise ConfigError(
            f'--batching {name}: a curve is written {{"points": [[1, 1.0], [8, 1.4]], "slots": 32}}: pairs of calls '
            "under way and slowdown, and how many calls a server runs at a time"
        )
    return BatchingCurve(name, tuple((int(calls), float(slow)) for calls, slow in points), slots)


def _is_pair(point: object) -> bool:
    return (
        isinstance(point, Sequence)
        and len(point) == 2
        and isinstance(point[0], int)
        and isinstance(point[1], int | float)
    )


def _with(curve: BatchingCurve, slots: int | None) -> BatchingCurve:
    return curve if slots is None else BatchingCurve(curve.name, curve.points, slots)
