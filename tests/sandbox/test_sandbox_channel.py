"""The host's side of the channel, against a sandbox that misbehaves: a program that says what it should not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from speceyes.errors import SandboxError
from speceyes.sandbox import Limits
from speceyes.sandbox import session as sessions
from speceyes.sandbox.session import Launch, PipeSession

SPEAKER = """
import base64, json, os, struct, sys, time
def say(message):
    body = json.dumps(message).encode()
    os.write(1, struct.pack(">I", len(body)) + body)
def hear():
    head = sys.stdin.buffer.read(4)
    return json.loads(sys.stdin.buffer.read(struct.unpack(">I", head)[0])) if len(head) == 4 else sys.exit()
def end(request, **more):
    say({"kind": "end", "id": request["id"], "ended": "done", "status": None, "error": None, "notes": [], "files": [],
         "said": {"stdout": 0, "stderr": 0}, "seconds": 0.5, **more})
"""
START = "say({'kind': 'hello'}); config = hear(); say({'kind': 'ready', 'python': '3'})\n"
LIMITS = replace(Limits(), output_chars=10, pictures=1)


class Scripted:
    """Launches a program in place of a sandbox."""

    def __init__(self, *scripts: str) -> None:
        self.scripts = list(scripts)
        self.launches = 0

    @contextmanager
    def prepare(self) -> Iterator[Launch]:
        script = self.scripts[min(self.launches, len(self.scripts) - 1)]
        self.launches += 1
        yield Launch((sys.executable, "-I", "-S", "-c", SPEAKER + script))

    def started(self) -> int | None:
        return None

    async def end(self) -> None:
        return

    async def remains(self) -> tuple[str, ...]:
        return ()


GOOD = START + "while True: end(hear())"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("os.write(1, b'\\xff\\xff\\xff\\xff')", "too long"),
        ("os.write(1, struct.pack('>I', 5) + b'{nope')", "unreadable"),
        ("os.write(1, struct.pack('>I', 2) + b'[]')", "unreadable"),
        ("os.write(1, b'\\0\\0')", "ended in the middle"),
        ("sys.exit()", "ended in the middle"),
        ("say({'kind': 'end', 'id': 'another', 'ended': 'done'})", "out of turn"),
        ("say({'kind': 'stdout', 'data': 'eA=='})", "out of turn"),
        ("say({'kind': 'stdout', 'id': request['id'], 'data': 'e'})", "unreadable"),
        ("say({'kind': 'stdout', 'id': request['id']})", "unreadable"),
        ("say({'kind': 'gossip', 'id': request['id'], 'data': ''})", "more than it may"),
        ("[say({'kind': 'stdout', 'id': request['id'], 'data': 'eHh4eHh4eHh4eHh4'}) for _ in range(9)]", "more than"),
        ("[say({'kind': 'picture', 'id': request['id'], 'name': '', 'data': ''}) for _ in range(9)]", "more than"),
        ("say({'kind': 'end', 'id': request['id'], 'ended': 'done'})", "unreadable"),
        ("end(request, seconds='x')", "unreadable"),
        ("end(request, files=7)", "unreadable"),
    ],
)
async def test_whatever_it_says_is_an_outcome_and_the_next_step_gets_a_new_sandbox(answer: str, said: str) -> None:
    launcher = Scripted(START + f"request = hear(); {answer}\n" + "time.sleep(0.2); sys.exit()", GOOD)
    async with PipeSession(launcher, LIMITS, 0) as session:
        outcome = await session.run("pass")
        assert said in (outcome.error or "")
        assert outcome.state_lost
        assert any("new one" in note for note in outcome.notes)
        assert (await session.run("pass")).error is None
    assert launcher.launches == 2


async def test_one_that_says_nothing_is_ended_a_while_after_the_steps_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_GRACE_S", 0.1)
    async with PipeSession(Scripted(START + "hear(); time.sleep(600)", GOOD), LIMITS, 0) as session:
        outcome = await session.run("pass", 0.1)
        assert outcome.timed_out
        assert outcome.state_lost
        assert (await session.run("pass")).error is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sys.exit('bwrap: no permission')", "bwrap: no permission"),
        ("say({'kind': 'other'})", "should say 'hello'"),
        ("say({'kind': 'hello'}); hear(); sys.exit('still root')", "still root"),
    ],
)
async def test_one_that_does_not_come_up_is_an_error_with_its_last_words(script: str, said: str) -> None:
    with pytest.raises(SandboxError, match=said):
        async with PipeSession(Scripted(script), LIMITS, 0):
            pass


async def test_one_that_hangs_at_its_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_START_S", 0.2)
    monkeypatch.setattr(sessions, "_GRACE_S", 0.1)
    with pytest.raises(SandboxError, match="did not come up"):
        async with PipeSession(Scripted("time.sleep(600)"), LIMITS, 0):
            pass


async def test_a_command_that_is_not_there_is_an_error() -> None:
    class Missing(Scripted):
        @contextmanager
        def prepare(self) -> Iterator[Launch]:
            yield Launch(("/nowhere/bwrap",))

    with pytest.raises(SandboxError, match="/nowhere/bwrap: No such file"):
        async with PipeSession(Missing(), LIMITS, 0):
            pass


async def test_the_limits_and_the_images_go_in() -> None:
    script = START + "while True: end(hear(), notes=[json.dumps(config)])"
    async with PipeSession(Scripted(script), LIMITS, 2) as session:
        outcome = await session.run("pass")
    config = json.loads(outcome.notes[0])
    assert config["images"] == ["/images/image_1.png", "/images/image_2.png"]
    assert config["output_chars"] == 10
    assert config["uid"] is None
    assert config["processes"] == LIMITS.processes


async def test_steps_wait_for_each_other() -> None:
    script = START + "while True:\n    request = hear(); time.sleep(0.05); end(request, notes=[request['code']])"
    async with PipeSession(Scripted(script), LIMITS, 0) as session:
        outcomes = await asyncio.gather(*(session.run(str(number)) for number in range(4)))
    assert [outcome.notes for outcome in outcomes] == [("0",), ("1",), ("2",), ("3",)]
