"""The keeper: process 1 of the sandbox. It starts the interpreter, measures each step and ends what goes too far."""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import sys
import time
from typing import Any

from .channel import HEAD, pack, read_some, receive, send
from .folder import FOLDER, Folder
from .interpreter import Interpreter, kill_all_others
from .memory import resident_bytes

MOST_OF_A_REPLY = 1 << 20
MOST_NOTES = 10
TICK_S = 0.05
LOOK_S = 0.2
TIME_TO_DIE_S = 2.0
ENVIRONMENT = {
    "HOME": FOLDER,
    "TMPDIR": FOLDER,
    "LANG": "C.UTF-8",
    "USER": "nobody",
    "MPLBACKEND": "Agg",
    "PYTHONDONTWRITEBYTECODE": "1",
    # a pool with a thread for each core of a large host would use up the limit of processes
    "OMP_NUM_THREADS": "2",
    "OPENBLAS_NUM_THREADS": "2",
    "MKL_NUM_THREADS": "2",
    "NUMEXPR_NUM_THREADS": "2",
}
_DEATH_SIGNAL, _DUMPABLE, _SECCOMP, _NO_NEW_PRIVILEGES = 1, 4, 22, 38
"""What prctl(2) sets, from linux/prctl.h."""
_FILTER = 2
"""SECCOMP_MODE_FILTER, from linux/seccomp.h."""


class Worker:
    """The interpreter's process, as the keeper sees it."""

    def __init__(self, config: dict[str, Any], steps: int) -> None:
        ask, self.ask = os.pipe()
        self.reply, say = os.pipe()
        self.out, out = os.pipe()
        self.err, err = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _interpret(config, steps, ask, say, out, err)
        for fd in (ask, say, out, err):
            os.close(fd)
        for fd in (self.ask, self.reply, self.out, self.err):
            os.set_blocking(fd, False)
        self.open = {self.reply, self.out, self.err}

    def close(self) -> None:
        for fd in (self.ask, self.reply, self.out, self.err):
            os.close(fd)


def _interpret(config: dict[str, Any], steps: int, ask: int, say: int, out: int, err: int) -> None:
    """The life of the interpreter's process, which has no descriptor but its own. Never returns."""
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.closerange(3, min(ask, say))
        os.closerange(min(ask, say) + 1, max(ask, say))
        os.closerange(max(ask, say) + 1, 1024)
        Interpreter(config, ask, say, steps).serve()
    finally:
        os._exit(70)


class Step:
    """One step under way: what is still to be written to the interpreter, and what it has said."""

    def __init__(self, request: dict[str, Any], config: dict[str, Any]) -> None:
        self.id = request["id"]
        self.token = os.urandom(16).hex()
        self.unwritten = pack({"token": self.token, "code": request["code"]})
        self.began = time.monotonic()
        self.until = self.began + request["timeout_s"]
        # a character takes four bytes at most
        self.room = {"stdout": 4 * config["output_chars"], "stderr": 4 * config["output_chars"]}
        self.said = {"stdout": 0, "stderr": 0}
        self.error: str | None = None
        self.notes: list[str] = []
        self.ended: str | None = None
        self.closed: float | None = None
        """When the interpreter closed its channel, which it does by dying."""
        self._reply = b""

    def take_reply(self, piece: bytes) -> None:
        """Bytes from the interpreter's own channel. The model's code may have written them, so anything odd ends it."""
        self._reply += piece
        if not piece:
            self.closed = time.monotonic()
        if len(self._reply) < HEAD.size:
            return
        length = HEAD.unpack(self._reply[: HEAD.size])[0]
        if length > MOST_OF_A_REPLY:
            self.ended = "damaged"
        elif len(self._reply) >= HEAD.size + length:
            self.ended = "done" if self._read(self._reply[HEAD.size :]) else "damaged"

    def _read(self, body: bytes) -> bool:
        try:
            reply = json.loads(body)
            error, notes = reply["error"], [str(note)[:300] for note in reply["notes"]]
            if reply["token"] != self.token or not isinstance(error, (str, type(None))):
                return False
        except (ValueError, TypeError, KeyError, RecursionError):
            return False
        self.error, self.notes = error, notes[:MOST_NOTES]
        return True


class Keeper:
    """Runs steps one after another until the host closes the channel, which ends process 1 and with it all others."""

    def __init__(self, incoming: int, outgoing: int, config: dict[str, Any]) -> None:
        self.incoming, self.outgoing, self.config = incoming, outgoing, config
        self.folder = Folder(config)
        self.steps = 0
        self._next_look = 0.0
        self._died: int | None = None
        """Status of an interpreter that has died after its last step, by what the code had left running."""
        self.worker = Worker(config, self.steps)

    def serve(self) -> None:
        usable = True
        while usable:
            readable = select.select([self.incoming], [], [], 1.0)[0]
            self._died = self._reap() if self._died is None else self._died
            if readable:
                request = receive(self.incoming)
                usable = request is not None and self._step(Step(request, self.config))

    def _step(self, step: Step) -> bool:
        """Run a step and tell the host of it. False where the sandbox cannot be used any more."""
        status, self._died = self._died, None
        if status is not None:
            step.ended, step.notes = "died", ["That was before this code, which was not run."]
        while step.ended is None:
            self._listen(step)
            status = self._reap()
            if step.ended is None:
                step.ended = self._reason_to_end(step, status)
        self._drain(step, "stdout", self.worker.out)
        self._drain(step, "stderr", self.worker.err)
        self.steps += 1
        usable = step.ended != "files"
        if usable and step.ended != "done":
            self._begin_anew()
        pictures, files, notes = self.folder.collect() if usable else ([], [], [])
        for name, data in pictures:
            content = base64.b64encode(data).decode("ascii")
            send(self.outgoing, {"kind": "picture", "id": step.id, "name": name, "data": content})
        end = {
            "kind": "end",
            "id": step.id,
            "ended": step.ended,
            "status": None if status is None else os.waitstatus_to_exitcode(status),
            "error": step.error,
            "notes": step.notes + notes,
            "files": files,
            "said": step.said,
            "seconds": time.monotonic() - step.began,
        }
        send(self.outgoing, end)
        return usable

    def _listen(self, step: Step) -> None:
        """Pass on what is there to be read, and wait a moment where there is nothing."""
        worker = self.worker
        writing = [worker.ask] if step.unwritten else []
        wait = max(0.0, min(TICK_S, step.until - time.monotonic()))
        readable, writable, _ = select.select([self.incoming, *worker.open], writing, [], wait)
        if self.incoming in readable:
            os._exit(0)  # nothing is said during a step, so this is the end: the host is gone
        if writable:
            try:
                step.unwritten = step.unwritten[os.write(worker.ask, step.unwritten) :]
            except OSError:
                step.unwritten = b""
        for fd in readable:
            piece = read_some(fd)
            if piece == b"":
                worker.open.discard(fd)
            if piece is None:
                continue
            if fd == worker.reply:
                step.take_reply(piece)
            else:
                self._pass_on(step, "stdout" if fd == worker.out else "stderr", piece)

    def _pass_on(self, step: Step, name: str, piece: bytes) -> None:
        step.said[name] += len(piece)
        kept = piece[: step.room[name]]
        step.room[name] -= len(kept)
        if kept:
            send(self.outgoing, {"kind": name, "id": step.id, "data": base64.b64encode(kept).decode("ascii")})

    def _drain(self, step: Step, name: str, fd: int) -> None:
        """What the pipe still holds, and no more: a thread of the code may go on printing for ever."""
        for _ in range(16):
            piece = read_some(fd)
            if not piece:
                return
            self._pass_on(step, name, piece)

    def _reason_to_end(self, step: Step, status: int | None) -> str | None:
        if status is not None:
            return "died"
        if time.monotonic() >= step.until:
            return "timeout"
        if step.closed is not None and time.monotonic() > step.closed + TIME_TO_DIE_S:
            return "damaged"
        if self._too_much_memory():
            return "memory"
        return "files" if self.folder.crowded() else None

    def _too_much_memory(self) -> bool:
        most, now = self.config["total_memory_bytes"], time.monotonic()
        if most is None or now < self._next_look:
            return False
        self._next_look = now + LOOK_S
        return resident_bytes() > int(most)

    def _reap(self) -> int | None:
        """Bury the dead of the namespace; returns the interpreter's status if it is among them."""
        status = None
        while True:
            try:
                pid, found = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return status
            if pid == 0:
                return status
            if pid == self.worker.pid:
                status = found

    def _begin_anew(self) -> None:
        """Kill all that runs here but this process, at once, and start a new interpreter."""
        kill_all_others()
        try:
            while True:
                os.waitpid(-1, 0)
        except ChildProcessError:
            pass
        self.worker.close()
        self.worker = Worker(self.config, self.steps)


def lower_rights(uid: int | None, filter_bytes: bytes) -> None:
    """Become this user and filter system calls, for good, and tie this process to the one outside that started it."""
    import ctypes

    if uid is not None:
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    if 0 in (*os.getresuid(), *os.getresgid()):
        sys.exit("sandbox: still root; no code is run")

    class Program(ctypes.Structure):
        """`struct sock_fprog`."""

        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    program = Program(len(filter_bytes) // 8, filter_bytes)
    for what, first, second in (
        (_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGKILL), ctypes.c_ulong(0)),
        (_DUMPABLE, ctypes.c_ulong(0), ctypes.c_ulong(0)),
        (_NO_NEW_PRIVILEGES, ctypes.c_ulong(1), ctypes.c_ulong(0)),
        (_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(program)),
    ):
        if prctl(what, first, second, ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
            sys.exit(f"sandbox: prctl {what} failed ({os.strerror(ctypes.get_errno())}); no code is run")


def main() -> None:
    """Be the keeper of the channel on standard input and output."""
    # The keeper ends all processes but itself. Only in a namespace of its own is that what it should do.
    if os.getpid() != 1:
        sys.exit("sandbox: this is not process 1 of a PID namespace of its own; no code is run")
    # The kernel keeps from process 1 what it has no handler for; of Python's own there is one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open("/dev/null", os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    send(outgoing, {"kind": "hello"})
    config = receive(incoming)
    if config is None:
        return
    lower_rights(config["uid"], base64.b64decode(config["filter"]))
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PATH") if name in os.environ}
    os.environ.clear()
    os.environ.update({**kept, **ENVIRONMENT})
    os.umask(0o022)
    os.chdir(FOLDER)
    for path in config["images"]:
        os.symlink(path, os.path.basename(path))
    keeper = Keeper(incoming, outgoing, config)
    send(outgoing, {"kind": "ready", "python": sys.version.split()[0]})
    keeper.serve()
