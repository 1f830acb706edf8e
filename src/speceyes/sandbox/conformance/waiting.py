"""Code that does not end by itself, and time-outs that leave nothing behind."""

from __future__ import annotations

from dataclasses import replace

from speceyes.sandbox.conformance.checks import LIMITS, SOON_S, CheckedSession, Checks, Ground, must

CHECKS = Checks("waiting")


def _endless(name: str, title: str, code: str) -> None:
    async def run(ground: Ground) -> None:
        async with ground.session() as session:
            outcome = await session.run(code, SOON_S)
            must(outcome.timed_out, f"it was not ended for its time: {outcome.error or outcome.stdout}")
            must("too long" in (outcome.error or ""), f"the time-out is told as: {outcome.error}")
            must(outcome.state_lost, "nobody is told that the variables are gone")
            await session.works()

    run.__name__ = name
    CHECKS.add(title)(run)


_endless("python_loop", "A loop in Python is ended", "while True: pass")
_endless("sleep", "A sleep is ended", "import time; time.sleep(999)")
_endless("c_loop", "A loop inside one call of C code is ended", "10 ** 10 ** 8")
_endless("c_iterator", "An endless iterator inside C code is ended", "import itertools; max(itertools.count())")
_endless("pattern", "A regular expression that explodes is ended", "import re; re.match('(a+)+$', 'a' * 60 + 'b')")
_endless(
    "catches_all",
    "Code that catches everything is ended",
    """
    import time
    while True:
        try:
            while True:
                time.sleep(0.01)
        except BaseException:
            pass
    """,
)
_endless(
    "ignores_signals",
    "Code that ignores all signals is ended",
    """
    import signal, time
    for sign in range(1, 65):
        try:
            signal.signal(sign, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        time.sleep(1)
    """,
)
_endless(
    "other_session",
    "Code that leaves its process group and session is ended",
    """
    import time
    if os.fork():
        os.waitpid(-1, 0)
    os.setsid()
    while True:
        time.sleep(1)
    """,
)
_endless(
    "lock",
    "A lock that is never opened is ended",
    "import threading; gate = threading.Lock(); gate.acquire(); gate.acquire()",
)
_endless(
    "own_exception",
    "An exception whose text is never done is ended",
    "class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E",
)
_endless("fifo", "A named pipe that nobody writes to is ended", "os.mkfifo('pipe'); open('pipe').read()")


@CHECKS.add("Waiting for a person ends at once: standard input is closed")
async def standard_input(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("input('name? ')")
        must("EOFError" in (outcome.error or ""), f"input() says: {outcome.error}")
        outcome = await session.run("print(repr(sys.stdin.read()), repr(os.read(0, 9)))")
        must(outcome.stdout == "'' b''\n", f"standard input says: {outcome.stdout or outcome.error}")


@CHECKS.add("Waiting for a window ends at once: there is none")
async def windows(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("import matplotlib.pyplot as plt" if await _has(session, "matplotlib") else "pass")
        outcome = await session.run(
            """
            from PIL import Image
            Image.new("RGB", (9, 9)).show()
            if "plt" in globals():
                plt.plot([1, 2])
                plt.show()
            print("done")
            """
        )
        must("done\n" in outcome.stdout, f"show() does not come back: {outcome.error}")
        must(len(outcome.pictures) >= 1, "what was shown does not come back as a picture")


async def _has(session: CheckedSession, package: str) -> bool:
    outcome = await session.run(f"import importlib.util; print(importlib.util.find_spec({package!r}) is not None)")
    return outcome.stdout == "True\n"


@CHECKS.add("What was printed before a time-out is told")
async def output_before_a_timeout(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            "print('half'); print('line', end='')\nsys.stdout.flush()\nwhile True: pass", SOON_S
        )
        must(outcome.stdout == "half\nline", f"the output is {outcome.stdout!r}")


@CHECKS.add("Variables live on between steps, and are gone after a time-out, which is told")
async def variables(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("import math\ndef double(x): return 2 * x\nnumber = 21")
        outcome = await session.run("print(double(number), math.floor(1.5))")
        must(outcome.stdout == "42 1\n", f"the variables of the first step are gone: {outcome.error}")
        outcome = await session.run("number = 99\nwhile True: pass", SOON_S)
        must(outcome.state_lost and any("gone" in note for note in outcome.notes), f"the notes are {outcome.notes}")
        outcome = await session.run("print('number' in globals(), 'math' in globals())")
        must(outcome.stdout == "False False\n", f"the time-out left variables: {outcome.stdout or outcome.error}")


@CHECKS.add("A time longer than the limits' is not granted")
async def longer_than_allowed(ground: Ground) -> None:
    async with ground.session(replace(LIMITS, wall_s=SOON_S)) as session:
        outcome = await session.run("while True: pass", 600)
        must(outcome.timed_out, f"the step was not ended: {outcome.error}")


@CHECKS.add("A process that uses too much of the processor is ended")
async def processor_time(ground: Ground) -> None:
    async with ground.session(replace(LIMITS, cpu_s=1)) as session:
        outcome = await session.run("while True: pass")
        must(outcome.state_lost and not outcome.timed_out, f"it was not ended: {outcome.error}")
        must("processor time" in (outcome.error or ""), f"it is told as: {outcome.error}")
        await session.works()
