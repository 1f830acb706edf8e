"""Whoever opened a sandbox may die without a word. The sandbox dies with it."""

from __future__ import annotations

import asyncio
import signal
import sys

from speceyes.sandbox import Bubblewrap
from speceyes.sandbox.processes import descendants, members, namespace_of

OPENER = """
import asyncio
from dataclasses import replace
from speceyes.sandbox import Bubblewrap, Limits

async def main():
    async with Bubblewrap().open(limits=replace(Limits(), wall_s=600)) as session:
        await session.run("import os\\nif os.fork() == 0: os.setsid()\\nprint('x')")
        print("open", flush=True)
        await session.run("import os\\nos.fork()\\nwhile True: pass")

asyncio.run(main())
"""


async def test_a_sandbox_dies_with_a_process_that_is_killed(bubblewrap: Bubblewrap) -> None:
    pipe = asyncio.subprocess.PIPE
    opener = await asyncio.create_subprocess_exec(sys.executable, "-c", OPENER, stdout=pipe)
    assert opener.stdout is not None
    assert await opener.stdout.readline() == b"open\n"
    own = namespace_of(opener.pid)
    namespaces = {namespace_of(pid) for pid in descendants(opener.pid)} - {own, None}
    (namespace,) = namespaces
    assert namespace is not None
    assert len(members(namespace)) >= 2
    opener.send_signal(signal.SIGKILL)
    await opener.wait()
    async with asyncio.timeout(60):
        while members(namespace):  # noqa: ASYNC110 - other processes set no event
            await asyncio.sleep(0.05)
