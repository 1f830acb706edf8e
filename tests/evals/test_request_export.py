"""Request records as a recorded run: what a gate computes from it is what the gateway's gate computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from speceyes.errors import InputError
from speceyes.evals.records import load_run, read_rows
from speceyes.evals.records.requests import NOT_KEPT, export_requests
from speceyes.gating import confidence
from speceyes.store import AuditOutcome, ImageFacts, RequestRecord, Selection, Store
from speceyes.types import Token, Usage

SETUP = {"draft_model": "small", "agent_model": "large", "draft_prompt": "sha256:1"}
K = 8


def tokens(seed: int) -> tuple[Token, ...]:
    rng = np.random.default_rng(seed)
    rows = -np.sort(np.abs(rng.standard_normal((2, K)) * 3 + 8) + 0.01, axis=1)
    return tuple(Token(f"w{n}", float(row[0]), tuple(map(float, row)), ("x",) * K) for n, row in enumerate(rows))


def observed(number: int, **fields: object) -> RequestRecord:
    known = {
        "id": f"r{number}",
        "created": 1000.0 + number,
        "model": "speceyes",
        "status": 200,
        "trust": "observe",
        "route": "agent",
        "reason": "forced_agent",
        "p_yes": 0.2,
        "p_no": 0.6,
        "draft_tokens": tokens(number),
        "draft_text": f"w0w1 {number}",
        "agent_text": f"w0w1 {number if number % 3 else 'else'}",
        "agent_depth": 1,
        "agent_finish": "answered",
        "agrees": bool(number % 3),
        "question": "What?",
        "phase_seconds": {"screen": 0.25, "speculate": 0.5, "fall_back": 4.0},
        "phase_usage": {"screen": Usage(9, 1, None, 1), "speculate": Usage(8, 2, None, 1), "fall_back": Usage(70, 30)},
        "images": (ImageFacts("ab" * 32, "PNG", 100, 64, 32),),
        "setup": SETUP,
    }
    return RequestRecord(**(known | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("content", [False, True])
async def test_a_run_of_observed_requests(tmp_path: Path, content: bool) -> None:
    async with await Store.open(f"sqlite:///{tmp_path / 'r.db'}", content=content) as store:
        await store.add(*(observed(i) for i in range(1, 251)))
        await store.add(
            observed(900, trust="enforce"),
            observed(901, setup=SETUP | {"draft_model": "older"}),
            observed(902, agent_finish=None, agent_text=None, status=504),
            observed(903, draft_tokens=(), draft_text=None, agrees=None, phase_usage={"screen": Usage(9, 1)}),
            observed(904, draft_fault="truncated_answer"),
        )
        told: list[int] = []
        done = await export_requests(store, tmp_path / "run", done=told.append)
    assert (done.rows, sum(done.left_out.values())) == (252, 2)
    assert told == [100, 200, 252]
    table = load_run(tmp_path / "run")
    assert list(table.ids) == [f"r{i}" for i in (*range(1, 251), 903, 904)]
    assert dict(table.bound_to) == SETUP
    scores = table.answers.score("separability", K, "min").values
    for i in range(1, 251):
        gate = confidence(tokens(i), k=K).score
        assert scores[i - 1] == pytest.approx(gate, rel=1e-5)
    assert table.agrees[:250].tolist() == [bool(i % 3) for i in range(1, 251)]
    assert not table.labelled.any()
    assert table.draft_usable.tolist() == [True] * 250 + [False, False]
    assert np.allclose(table.help_probability, 0.25)
    assert np.allclose(table.agent_seconds, 4.0)
    assert np.allclose(table.draft_seconds[:250], 0.5)
    first = next(read_rows(tmp_path / "run"))
    assert first["question"] == ("What?" if content else NOT_KEPT)
    assert first["tokens"] == (["w0", "w1"] if content else ["[1]", "[2]"])
    assert (first["agent_depth"], first["agent_turns"], first["gold"]) == (1, None, None)


async def test_audited_requests_are_a_sample_of_their_own(tmp_path: Path) -> None:
    accepted = {"trust": "enforce", "route": "draft", "reason": "accepted", "agent_finish": None, "agent_text": None}
    async with await Store.open(f"sqlite:///{tmp_path / 'r.db'}") as store:
        await store.add(*(observed(i, agrees=None, **accepted) for i in range(10)), observed(77))
        await store.add(*(AuditOutcome(f"r{i}", i != 4, 2.5, "x", 2, "answered") for i in (2, 4)))
        done = await export_requests(store, tmp_path / "run", "audited")
    assert done.rows == 2
    table = load_run(tmp_path / "run")
    assert table.agrees.tolist() == [True, False]
    assert np.allclose(table.agent_seconds, 2.5)


async def test_answers_are_compared_on_export_where_nobody_did_before(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path / 'r.db'}", content=True) as store:
        await store.add(
            observed(1, agrees=None, draft_text="B", agent_text="The answer is b."),
            observed(2, agrees=None, draft_text="A", agent_text="B"),
        )
        await export_requests(store, tmp_path / "run")
    assert load_run(tmp_path / "run").agrees.tolist() == [True, False]


async def test_nothing_to_export_is_said_with_what_to_do(tmp_path: Path) -> None:
    async with await Store.open(f"sqlite:///{tmp_path / 'r.db'}") as store:
        with pytest.raises(InputError, match="no observed request to export; let the gateway observe"):
            await export_requests(store, tmp_path / "run")
        await store.add(observed(1, agrees=None))
        with pytest.raises(InputError, match=r"none .* can be exported \(1: nobody compared"):
            await export_requests(store, tmp_path / "run")
        with pytest.raises(InputError, match="no observed request"):
            await export_requests(store, tmp_path / "run", selection=Selection(until=5.0))
    assert not (tmp_path / "run").exists()
