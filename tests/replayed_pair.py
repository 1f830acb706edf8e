"""Recorded queries answered again: both models say what they said, after delays of the test's choosing.

`data/nano_records.jsonl.gz` holds 1,000 questions of the nano pair, one JSON object a line, with what decides about a
draft: P(yes) and P(no) of the screening, and of each token of the draft its log-prob and the K largest ones. What the
agent answered is there too. They are data: they stay true when the models that said this are trained anew. Made by

    speceyes record nano:1000:0@test -o out/replay
    python tests/replayed_pair.py out/replay

A query names its row by its seed, which reaches every request that is made for it. No picture is looked at.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from speceyes.engines.client import OnDelta
from speceyes.gating import Calibration
from speceyes.imaging.decode import DecodedImage
from speceyes.phases import gate, gate_screening
from speceyes.types import ChatRequest, Completion, Draft, Query, Sampling, Screening, Token, Verdict

RECORDS = Path(__file__).parent / "data" / "nano_records.jsonl.gz"
K = 64


class Role(StrEnum):
    """Whose turn a request is."""

    SCREEN = "screen"
    DRAFT = "draft"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the models said about one question."""

    question: str
    p_yes: float
    p_no: float
    draft: str
    tokens: tuple[Token, ...]
    agent: str

    def reply(self, role: Role) -> Completion:
        """What the server of that model would send."""
        if role is Role.DRAFT:
            return Completion(self.draft, "stop", self.tokens)
        if role is Role.AGENT:
            return Completion(f"<answer>{self.agent}</answer>", "stop")
        said = sorted((("yes", self.p_yes), ("no", self.p_no)), key=lambda word: -word[1])
        words, chances = zip(*said, strict=True)
        logs = tuple(math.log(p) if p else -math.inf for p in chances)
        return Completion(words[0], "length", (Token(words[0], logs[0], logs, words),))

    def decision(self, calibration: Calibration) -> tuple[Verdict | None, Verdict]:
        """What phase I and phase III say, each for itself, without any plan."""
        screened = gate_screening(Screening(self.p_yes, self.p_no), calibration)
        return screened, gate(Draft(self.draft, self.tokens), calibration)


def load_records(path: Path = RECORDS) -> list[Recorded]:
    """All rows, in the order of the data set."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Recorded(**row | {"tokens": tuple(_token(*token) for token in row["tokens"])}) for row in rows]


def _token(text: str, logprob: float, top: list[float]) -> Token:
    return Token(text, logprob, tuple(top), ("",) * len(top))


@dataclass(slots=True)
class Call:
    """A request, in seconds of the event loop. `ended` is None where it was cancelled."""

    row: int
    role: Role
    began: float
    due: float
    ended: float | None = None


@dataclass
class Replay:
    """Both models of a record.

    Args:
        rows: The record.
        seconds: How long a row's request takes.

    Attributes:
        calls: All requests, in the order of their arrival.
    """

    rows: Sequence[Recorded]
    seconds: Callable[[int, Role], float]
    calls: list[Call] = field(default_factory=list)

    def engine(self, *roles: Role) -> ReplayedEngine:
        """The server of one model, which has this part in a query."""
        return ReplayedEngine(self, roles)

    def query(self, row: int, image: DecodedImage) -> Query:
        """The question of a row, about any picture."""
        return Query(self.rows[row].question, (image,), id=str(row), sampling=Sampling(seed=row))

    async def answer(self, row: int, role: Role) -> Completion:
        """What was recorded, when its time has come."""
        now = asyncio.get_running_loop().time()
        call = Call(row, role, now, now + self.seconds(row, role))
        self.calls.append(call)
        await asyncio.sleep(call.due - now)
        call.ended = asyncio.get_running_loop().time()
        return self.rows[row].reply(role)


@dataclass(frozen=True)
class ReplayedEngine:
    """An engine whose replies are a record's. A screening is known by its single token."""

    replay: Replay
    roles: tuple[Role, ...]

    @property
    def model(self) -> str:
        return "replayed-" + self.roles[-1]

    async def complete(self, request: ChatRequest, *, on_delta: OnDelta | None = None) -> Completion:
        assert request.seed is not None, "a query of `Replay.query` has its row's number as seed"
        return await self.replay.answer(request.seed, self.roles[0] if request.max_tokens == 1 else self.roles[-1])


def main(run: str) -> None:
    """Write the file from a run of `speceyes record`."""
    from speceyes.evals.records import is_failed, read_rows

    RECORDS.parent.mkdir(exist_ok=True)
    with RECORDS.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as file:
        for row in read_rows(run):
            if is_failed(row) or row["draft_fault"] or not row["agent_text"]:
                raise SystemExit(f"{row['id']} is not whole: record it again")
            tokens = [
                [text, _short(logprob), [_short(value) for value in top[:K]]]
                for text, logprob, top in zip(row["tokens"], row["logprobs"], row["top_logprobs"], strict=True)
            ]
            kept = {"question": row["question"], "p_yes": row["p_yes"], "p_no": row["p_no"], "tokens": tokens}
            kept |= {"draft": row["draft_text"], "agent": row["agent_text"]}
            file.write(json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")


def _short(logprob: float) -> float:
    """Seven digits: a number of 32 bits has no more that count."""
    return float(f"{logprob:.7g}")


if __name__ == "__main__":
    main(sys.argv[1])
