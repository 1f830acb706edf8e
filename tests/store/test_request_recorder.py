"""Records on their way: batches, a database that is down or slow, overflow, kept images, kill -9."""

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from request_records import Database, full, record
from sqlalchemy.exc import OperationalError

from speceyes.errors import ConfigError
from speceyes.store import AuditOutcome, Image, Pictures, Recorder, Retention, Store
from speceyes.store.pictures import GRACE_S
from speceyes.store.recorder import BATCH

Open = Callable[[], Awaitable[Store]]


def opening(tmp_path: Path, **options: Any) -> Open:
    return partial(Store.open, f"sqlite:///{tmp_path / 'requests.db'}", **options)


async def test_what_is_offered_is_stored_in_order(database: Database) -> None:
    recorder = Recorder(database.open)
    recorder.start()
    for i in range(3 * BATCH):
        recorder.offer(full(i))
    recorder.offer(AuditOutcome("r00007", True, 1.5))
    await recorder.close(60)
    assert (recorder.written, recorder.waiting, sum(recorder.dropped.values())) == (3 * BATCH + 1, 0, 0)
    async with await database.open() as store:
        assert [found.id async for found in store.iterate()] == [f"r{i:05}" for i in range(3 * BATCH)]
        found = await store.get("r00007")
        assert found is not None
        assert (found.audited, found.agrees) == (True, True)


async def test_offering_never_waits_and_overflow_is_counted_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = asyncio.Event()

    async def later() -> Store:
        await gate.wait()
        return await opening(tmp_path)()

    recorder = Recorder(later, capacity=10)
    recorder.start()
    with caplog.at_level(logging.WARNING, "speceyes.store"):
        for i in range(25):
            recorder.offer(record(i))
    assert (recorder.waiting, recorder.dropped["full"]) == (10, 15)
    assert len([r for r in caplog.records if "dropped" in r.message]) == 1
    gate.set()
    await recorder.close(60)
    assert recorder.written == 10


async def test_a_database_that_is_down_loses_nothing_that_was_taken(tmp_path: Path) -> None:
    failures = iter([ConfigError("no server"), ConfigError("no server"), None])

    async def flaky() -> Store:
        if (error := next(failures)) is not None:
            raise error
        store = await opening(tmp_path)()
        add, broken = store.add, iter([True, True])

        async def sometimes(*items: Any) -> None:
            if next(broken, False):
                raise OperationalError("INSERT", {}, Exception("server closed the connection"))
            await add(*items)

        store.add = sometimes  # type: ignore[method-assign]
        return store

    recorder = Recorder(flaky, backoff_s=0.001)
    recorder.start()
    for i in range(5):
        recorder.offer(record(i))
    await recorder.close(60)
    assert (recorder.written, sum(recorder.dropped.values())) == (5, 0)


async def test_a_real_lock_is_waited_out(tmp_path: Path) -> None:
    async with await opening(tmp_path)():
        pass
    holder = sqlite3.connect(tmp_path / "requests.db", isolation_level=None, check_same_thread=False)
    holder.execute("BEGIN IMMEDIATE")
    recorder = Recorder(opening(tmp_path), backoff_s=0.01)
    recorder.start()
    recorder.offer(record(1))
    await asyncio.sleep(0.4)
    assert recorder.written == 0
    holder.execute("COMMIT")
    holder.close()
    await recorder.close(60)
    assert recorder.written == 1


async def test_one_record_that_is_refused_does_not_take_the_others_with_it(database: Database) -> None:
    recorder = Recorder(database.open)
    recorder.start()
    for i in range(5):
        recorder.offer(record(i, status="no number", model={}) if i == 2 else record(i))
    await recorder.close(60)
    assert (recorder.written, recorder.dropped["refused"]) == (4, 1)
    async with await database.open() as store:
        assert [found.id async for found in store.iterate()] == ["r00000", "r00001", "r00003", "r00004"]


async def test_closing_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def never() -> Store:
        raise ConfigError("no server")

    recorder = Recorder(never)
    recorder.start()
    for i in range(3):
        recorder.offer(record(i))
    await recorder.close(0.01)
    assert recorder.dropped["closing"] == 3


async def test_old_records_go_while_it_runs(tmp_path: Path) -> None:
    async with await opening(tmp_path)() as store:
        await store.add(*(record(i) for i in range(50)))
    recorder = Recorder(opening(tmp_path), retention=Retention(max_records=7))
    recorder.start()
    recorder.offer(record(50))
    await recorder.drained()
    while not recorder.pruned:  # noqa: ASYNC110, nobody tells
        await asyncio.sleep(0.01)
    await recorder.close(60)
    assert recorder.pruned == 44
    async with await opening(tmp_path)() as store:
        assert [found.id async for found in store.iterate()] == [f"r{i:05}" for i in range(44, 51)]


# Images


async def test_images_are_kept_once_by_their_hash_and_only_if_wanted(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path / "images")
    recorder = Recorder(opening(tmp_path), pictures=pictures)
    recorder.start()
    image = Image("ab" * 32, "JPEG", b"the file")
    recorder.offer(record(1), (image,))
    recorder.offer(record(2), (image, Image("cd" * 32, "PNG", b"another")))
    await recorder.close(60)
    files = {path.name: path.read_bytes() for path in (tmp_path / "images").rglob("*") if path.is_file()}
    assert files == {f"{'ab' * 32}.jpeg": b"the file", f"{'cd' * 32}.png": b"another"}
    recorder = Recorder(opening(tmp_path))
    recorder.offer(record(3), (image,))
    assert (recorder.waiting, recorder.dropped["picture_full"]) == (1, 1)


async def test_too_many_waiting_images_are_dropped_and_the_record_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speceyes.store.recorder.PICTURE_BYTES", 10)
    recorder = Recorder(opening(tmp_path), pictures=Pictures(tmp_path / "images"))
    for i in range(3):
        recorder.offer(record(i), (Image(f"{i:064}", "JPEG", b"12345"),))
    assert (recorder.waiting, recorder.dropped["picture_full"]) == (3, 1)
    recorder.start()
    await recorder.close(60)
    assert (recorder.written, len(list((tmp_path / "images").rglob("*.jpeg")))) == (3, 2)


def test_images_that_no_record_mentions_go(tmp_path: Path) -> None:
    pictures = Pictures(tmp_path)
    for name in ("aa", "bb"):
        pictures.keep(name * 32, "PNG", b"x")
    os.utime(pictures.path("aa" * 32, "PNG"), (5000.0, 5000.0))
    assert pictures.prune(oldest=5000.0 + GRACE_S - 1) == 0
    assert pictures.prune(oldest=5000.0 + GRACE_S + 1) == 1
    assert [path.name for path in tmp_path.rglob("*.png")] == [f"{'bb' * 32}.png"]


# Sudden death

WRITER = """
import asyncio, sys
from request_records import full
from speceyes.store import Recorder, Store
async def main():
    recorder = Recorder(lambda: Store.open(sys.argv[1], content=True), capacity=100)
    recorder.start()
    number = 0
    while True:
        for _ in range(20):
            recorder.offer(full(number)); number += 1
        await recorder.drained()
        print(number, flush=True)
asyncio.run(main())
"""


def test_killed_while_it_writes_the_store_is_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'requests.db'}"
    env = os.environ | {"PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{Path(__file__).parents[2] / 'src'}"}
    writer = subprocess.Popen([sys.executable, "-c", WRITER, url], stdout=subprocess.PIPE, env=env, text=True)
    assert writer.stdout is not None
    told = 0
    for _ in range(3):
        told = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    writer.wait(30)
    told = max([told, *map(int, writer.stdout.read().split())])

    async def look() -> tuple[int, list[str]]:
        async with await Store.open(url) as store:
            return await store.count(), [found.id async for found in store.iterate()]

    count, ids = asyncio.run(look())
    assert count >= told
    assert ids == [f"r{i:05}" for i in range(count)]
    with sqlite3.connect(tmp_path / "requests.db") as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
