"""The interpreter: the process in which the model's code runs, one step after another, in one namespace."""

from __future__ import annotations

import ast
import builtins
import gc
import linecache
import os
import resource
import signal
import sys
import threading
import time
import traceback
import types
from typing import Any

from .channel import printable, receive, send
from .showing import Showing

STACK_BYTES = 8 << 20
SPARE_PROCESSES = 2
"""The keeper and the interpreter, which do not count as the code's."""


class Interpreter:
    """Serves steps until the keeper closes the channel."""

    def __init__(self, config: dict[str, Any], ask: int, say: int, steps: int) -> None:
        self.config, self.ask, self.say, self.steps = config, ask, say, steps
        self.pid = os.getpid()
        os.setsid()
        os.nice(5)
        set_limits(config)
        sys.path += config["packages"]
        sys.argv = [""]
        self.spares = {"stdout": os.dup(1), "stderr": os.dup(2)}
        self.mend_streams()
        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        self.names = main.__dict__
        self.names["__builtins__"] = builtins
        self.names["image_paths"] = list(config["images"])
        self.names["image_path"] = config["images"][0] if config["images"] else None
        sys.meta_path.insert(0, Showing())

    def serve(self) -> None:
        while (request := receive(self.ask)) is not None:
            self.steps += 1
            self.mend_streams()
            error, notes = self.run(request["code"])
            _flush()
            if os.getpid() != self.pid:
                os._exit(0)  # a fork that came to the end of the code; the reply is its parent's to give
            kill_all_others()
            _reap()
            if threads := threading.active_count() - 1:
                notes.append(f"{threads} threads of the code are still running.")
            send(self.say, {"token": request["token"], "error": error, "notes": notes})
        os._exit(0)

    def mend_streams(self) -> None:
        """Each step begins with streams that work, whatever an earlier one has done to them."""
        for number, (name, spare) in enumerate(self.spares.items(), 1):
            try:
                os.fstat(number)
            except OSError:
                os.dup2(spare, number)
            stream = open(  # noqa: SIM115 - as long as the step, and the descriptor longer
                number, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
            )
            setattr(sys, name, stream)
        sys.stdin = open(0, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - the same

    def run(self, code: str) -> tuple[str | None, list[str]]:
        """Run one step. Returns the traceback, or None, and notes."""
        name = f"<step {self.steps}>"
        try:
            linecache.cache[name] = (len(code), None, code.splitlines(True), name)
            body = ast.parse(code, name).body
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            exec(compile(ast.Module(body, []), name, "exec", dont_inherit=True), self.names)
            if last is not None:  # its value is printed, as at a prompt
                exec(compile(ast.Interactive([last]), name, "single", dont_inherit=True), self.names)
        except SystemExit as stop:
            return None, [f"The code ended with sys.exit({printable(repr(stop.code))})."]
        except MemoryError as error:
            line = _line(error.__traceback__, name)
            # The frames hold what filled the memory; only without them is there room again.
            error.__traceback__ = None
            gc.collect()
            most = self.config["memory_bytes"] >> 20
            return f"MemoryError in line {line}: the code may use {most} MiB.", []
        except BaseException as error:  # whatever the code raises is told to the model
            return self._told(error, name), []
        return None, []

    def _told(self, error: BaseException, name: str) -> str:
        """The traceback from the model's code on; of a very long one the end."""
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        try:
            text = "".join(traceback.format_exception(type(error), error, trace))
        except BaseException as worse:  # the exception's own code raised, and may raise anything
            text = f"{type(error).__name__}, and its text cannot be made: {type(worse).__name__}"
        return text.strip().encode("utf-8", "backslashreplace").decode()[-self.config["output_chars"] :]


def set_limits(config: dict[str, Any]) -> None:
    """Hard limits: without privileges, nothing inside can raise them again."""
    limits = {
        resource.RLIMIT_AS: config["memory_bytes"],
        resource.RLIMIT_FSIZE: config["file_bytes"],
        resource.RLIMIT_NOFILE: config["open_files"],
        resource.RLIMIT_STACK: STACK_BYTES,
        resource.RLIMIT_SIGPENDING: 1024,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    if config["processes"] is not None:
        limits[resource.RLIMIT_NPROC] = config["processes"] + SPARE_PROCESSES
    for what, most in limits.items():
        allowed = resource.getrlimit(what)[1]
        most = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(what, (most, most))
    # First a signal that says why, then one that cannot be ignored.
    resource.setrlimit(resource.RLIMIT_CPU, (config["cpu_s"], config["cpu_s"] + 2))


def kill_all_others() -> None:
    """End every process of this PID namespace but its first and the caller, at once: the kernel lets no fork escape.

    Only ever called below a keeper, which refuses to be anything but process 1.
    """
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:  # the code may have closed it, or put anything in its place
            continue


def _reap() -> None:
    """Bury the children that have just been killed: the dead count as processes too."""
    for _ in range(5):
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


def _line(trace: types.TracebackType | None, name: str) -> int | None:
    """The last line of the step that a traceback goes through."""
    line = None
    while trace is not None:
        line = trace.tb_lineno if trace.tb_frame.f_code.co_filename == name else line
        trace = trace.tb_next
    return line
