"""The store against real databases."""

import asyncio
import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from request_records import PROMPTS, TOKENS, Database, full, record

from speceyes.errors import ConfigError
from speceyes.store import AuditOutcome, Recorder, Retention, Selection, Store
from speceyes.store.database import default_url, parse_url
from speceyes.types import Token, Usage

SECRET = "hunter2-secret"


async def test_everything_that_is_known_comes_back(database: Database) -> None:
    kept = full(draft_tokens=TOKENS[:2])
    async with await database.open(content=True) as store:
        await store.add(kept, record(1))
        assert await store.get(kept.id) == kept
        assert await store.get("r00001") == record(1)
        assert await store.get("nobody") is None


async def test_without_content_no_word_is_kept_but_every_number(database: Database) -> None:
    async with await database.open() as store:
        await store.add(full())
        found = await store.get("r00000")
    assert found is not None
    assert (found.question, found.draft_text, found.agent_text) == (None, None, None)
    assert found.draft_tokens == tuple(Token("", token.logprob, token.top_logprobs) for token in TOKENS)
    assert (found.score, found.agrees, found.usage, found.setup) == (3.25, False, full().usage, PROMPTS)


async def test_words_that_databases_refuse_are_mended(database: Database) -> None:
    async with await database.open(content=True) as store:
        await store.add(full(question="nul \x00, half \ud83d", metadata={"a\x00": "b\x00"}, score=float("nan")))
        found = await store.get("r00000")
    assert found is not None
    assert (found.question, found.metadata) == ("nul \ufffd, half ?", {"a\ufffd": "b\ufffd"})
    assert found.score is None


async def test_the_same_request_is_stored_once(database: Database) -> None:
    async with await database.open() as store:
        await store.add(record(1, status=200))
        await store.add(record(1, status=500), record(2))
        assert await store.count() == 2
        assert (await store.newest(9))[1].status == 200


async def test_selection_and_order(database: Database) -> None:
    async with await database.open() as store:
        routes = [{"route": "draft", "reason": "accepted"}, {"route": "agent", "reason": "tool_would_help"}]
        await store.add(*(record(i, key="a" if i < 450 else "b", **routes[i % 2]) for i in range(500)))
        every = [found.id async for found in store.iterate()]
        assert every == [f"r{i:05}" for i in range(500)]
        assert [found.id for found in await store.newest(2)] == ["r00499", "r00498"]
        chosen = Selection(since=1100.0, until=1200.0, route="agent", key="a")
        assert [found.created async for found in store.iterate(chosen)] == [1000.0 + i for i in range(101, 200, 2)]
        assert await store.count(Selection(reason="accepted", key="b")) == 25
        assert await store.oldest() == 1000.0


async def test_an_audit_completes_its_record(database: Database) -> None:
    async with await database.open(content=True) as store:
        await store.add(record(1, usage={"small": Usage(5, 1, None, 1)}), AuditOutcome("r00002", True, 1.0))
        outcome = AuditOutcome("r00001", False, 2.5, "a dog", 1, "answered", {"large": Usage(7, 2, None, 2)})
        await store.add(outcome)
        found = await store.get("r00001")
        assert found is not None
        assert (found.audited, found.agrees, found.audit_seconds, found.agent_text) == (True, False, 2.5, "a dog")
        assert found.usage == {"small": Usage(5, 1, None, 1), "large": Usage(7, 2, None, 2)}
        assert await store.count() == 1


async def test_pruning_by_age_and_by_count(database: Database) -> None:
    async with await database.open() as store:
        await store.add(*(record(i) for i in range(2500)))
        assert await store.prune(Retention(), now=9e9) == 0
        assert await store.prune(Retention(max_age_s=100.0), now=1100.0 + 200.0) == 200
        assert await store.oldest() == 1200.0
        assert await store.prune(Retention(max_records=30), now=0.0) == 2270
        assert [found.id async for found in store.iterate()] == [f"r{i:05}" for i in range(2470, 2500)]
        assert await store.prune(Retention(max_records=0), now=0.0) == 30
        await store.add(record(7))
        assert await store.count() == 1


async def test_two_gateways_may_start_and_write_at_once(database: Database) -> None:
    recorders = [Recorder(database.open, backoff_s=0.01) for _ in range(2)]
    for recorder in recorders:
        recorder.start()
    for i in range(200):
        recorders[i % 2].offer(full(i))
    await asyncio.gather(*(recorder.close(300) for recorder in recorders))
    assert [recorder.written for recorder in recorders] == [100, 100]
    async with await database.open() as store:
        assert await store.count() == 200


async def test_a_store_may_be_opened_again(database: Database) -> None:
    async with await database.open() as store:
        await store.add(record(1))
    async with await database.open() as store:
        assert await store.count() == 1


async def test_a_file_is_for_its_owner_only_and_gives_back_space(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "requests.db"
    async with await Store.open(f"sqlite:///{path}", content=True) as store:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        # what cannot be compressed: the blob is then as large as the words
        await store.add(*(full(i, question=os.urandom(2000).hex()) for i in range(500)))
        await _checkpoint(path)
        large = path.stat().st_size
        await store.prune(Retention(max_records=0), now=0.0)
        await _checkpoint(path)
        assert path.stat().st_size < large / 4
    with sqlite3.connect(path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def _checkpoint(path: Path) -> None:
    def work() -> None:
        with sqlite3.connect(path) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    await asyncio.to_thread(work)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense", "cannot be read"),
        (f"mysql://u:{SECRET}@h/d", "begins with mysql"),
        ("sqlite:////proc/nowhere/x.db", "cannot be made"),
        ("sqlite:////tmp", "is not a file"),
        (f"postgresql://u:{SECRET}@127.0.0.1:1/d", "cannot be opened"),
    ],
)
async def test_a_store_that_cannot_be_opened_says_why_and_no_password(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        await Store.open(url)
    assert SECRET not in str(caught.value)


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(b"not a database, but long enough to be taken for one" * 40)
    with pytest.raises(ConfigError, match="file is not a database"):
        await Store.open(f"sqlite:///{path}")


def test_the_default_place_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert default_url() == "sqlite:////somewhere/speceyes/requests.db"
    monkeypatch.setenv("XDG_STATE_HOME", "relative is not allowed")
    assert default_url() == f"sqlite:///{Path.home()}/.local/state/speceyes/requests.db"
    assert parse_url("postgres://u@h/d").drivername == "postgresql+psycopg"


def test_help_probability_is_unknown_without_both_words() -> None:
    assert full().help_probability == pytest.approx(1 / 3)
    assert replace(full(), p_yes=0.0, p_no=0.0).help_probability is None
    assert record().help_probability is None
