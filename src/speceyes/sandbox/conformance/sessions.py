"""Sessions among themselves, and what travels out of them."""

from __future__ import annotations

import asyncio
import secrets

from speceyes.imaging.decode import DecodedImage
from speceyes.sandbox.conformance.checks import SOON_S, Checks, Ground, must
from speceyes.sandbox.conformance.samples import a_picture

CHECKS = Checks("sessions")


@CHECKS.add("Two sessions do not see each other's files, variables, processes or pictures")
async def strangers(ground: Ground) -> None:
    token = secrets.token_hex(12)
    colours = ((10, 20, 30), (40, 50, 60))
    images = [[DecodedImage.of_pixels(a_picture((20, 20), colour))] for colour in colours]
    async with ground.session(images=images[0]) as one, ground.session(images=images[1]) as other:
        outcome = await one.run(
            f"""
            secret = {token!r}
            open("/tmp/left.txt", "w").write(secret)
            os.environ["LEFT"] = secret
            print(os.getpid())
            """
        )
        must(outcome.error is None, f"the step failed: {outcome.error}")
        outcome = await other.run(
            """
            print("secret" in globals(), os.environ.get("LEFT"))
            for folder, _, names in os.walk("/tmp"):
                for name in names:
                    print(open(os.path.join(folder, name), "rb").read()[:99])
            import signal
            for pid in range(3, 400):
                try:
                    os.kill(pid, signal.SIGKILL if pid != os.getpid() else 0)
                except OSError:
                    pass
            from PIL import Image
            print("COLOUR", Image.open(image_path).getpixel((0, 0)))
            """
        )
        must(token not in outcome.stdout, "the other session's secret can be read")
        must(f"COLOUR {colours[1]}" in outcome.stdout, f"the wrong picture is there: {outcome.stdout} {outcome.error}")
        outcome = await one.run("print(secret)")
        must(outcome.stdout == f"{token}\n", f"the first session was hit: {outcome.error}")


@CHECKS.add("Many sessions at a time each answer for themselves, and one that hangs holds up no other")
async def side_by_side(ground: Ground) -> None:
    async def one(number: int) -> str:
        async with ground.session() as session:
            if number == 0:
                return str((await session.run("while True: pass", 4 * SOON_S)).timed_out)
            await session.run(f"number = {number}")
            return (await session.run("print(number * number)")).stdout

    said = await asyncio.gather(*map(one, range(5)))
    must(said == ["True", "1\n", "4\n", "9\n", "16\n"], f"the sessions said {said}")


@CHECKS.add("Steps that are asked for at once run one after another")
async def one_at_a_time(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("import time\nlog = []")
        step = "log.append('in')\ntime.sleep(0.05)\nlog.append('out')"
        await asyncio.gather(*(session.run(step) for _ in range(3)))
        outcome = await session.run("print(log == ['in', 'out'] * 3)")
        must(outcome.stdout == "True\n", f"the steps ran into each other: {outcome.error}")


@CHECKS.add("A session that is cancelled in the middle of a step leaves nothing behind")
async def cancelled(ground: Ground) -> None:
    started, sessions = asyncio.Event(), []

    async def hang() -> None:
        async with ground.provider.open() as session:
            sessions.append(session)
            started.set()
            await session.run(
                "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])\nwhile True: pass"
            )

    task = asyncio.create_task(hang())
    await started.wait()
    await asyncio.sleep(SOON_S)
    task.cancel()
    await asyncio.wait([task])
    must(task.cancelled(), "the cancellation was swallowed")
    left = await sessions[0].remains()
    must(not left, f"left behind: {', '.join(left)}")


@CHECKS.add("A step that is cancelled costs the sandbox, and the session goes on with a new one")
async def cancelled_step(ground: Ground) -> None:
    async with ground.session() as session:
        task = asyncio.create_task(session.run("while True: pass"))
        await asyncio.sleep(SOON_S)
        task.cancel()
        await asyncio.wait([task])
        await session.works()


@CHECKS.add("Pickles run their code inside and nowhere else")
async def pickles(ground: Ground) -> None:
    target = ground.host.folder / "pickled"
    async with ground.session() as session:
        outcome = await session.run(
            f"""
            import pickle
            class Bomb:
                def __reduce__(self):
                    return exec, ("import os; print('boom in', os.getpid()); open({str(target)!r}, 'w').write('x')",)
                __repr__ = __str__ = lambda self: pickle.dumps(self).hex()
            with open("bomb.pkl", "wb") as file:
                pickle.dump(Bomb(), file)
            open("bomb.png", "wb").write(pickle.dumps(Bomb()))
            sys.stdout.buffer.write(pickle.dumps(Bomb()))
            attempt("load", lambda: pickle.load(open("bomb.pkl", "rb")))
            raise ValueError(Bomb())
            """
        )
        must("boom in" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")
        must(not target.exists() and not outcome.pictures, "a pickle was opened outside")
        must("ValueError" in (outcome.error or ""), f"it is told as: {outcome.error}")


@CHECKS.add("Objects with strange methods are told as text, and do nothing outside")
async def strange_objects(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            class Strange(Exception):
                def __str__(self): raise KeyboardInterrupt
                __repr__ = __str__
                def __eq__(self, other): os._exit(9)
                __hash__ = None
            raise Strange
            """
        )
        must("Strange" in (outcome.error or ""), f"it is told as: {outcome.error}")
        await session.works()


@CHECKS.add("A module that the code puts in a library's place is used by its own session only")
async def poisoned_modules(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run(
            "for name in ('json', 'numpy', 'base64', 'select'): open(name + '.py', 'w').write('raise SystemError')"
        )
        await session.run("os._exit(0)")
        outcome = await session.run("import json, base64, select\nprint(json.dumps([1]))")
        must(outcome.stdout == "[1]\n", f"a file of the code stands in for a library: {outcome.error}")
    async with ground.session() as other:
        await other.works()


@CHECKS.add("Tracebacks show the code's own lines, and no path of the host")
async def tracebacks(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("def broken():\n    return 1 / 0  # here")
        outcome = await session.run("broken()")
        error = outcome.error or ""
        must("# here" in error and "ZeroDivisionError" in error, f"the traceback is {error}")
        must("inside/" not in error and "interpreter.py" not in error, f"the sandbox shows itself: {error}")
        outcome = await session.run("x = (")
        must("SyntaxError" in (outcome.error or ""), f"a syntax error is told as: {outcome.error}")


@CHECKS.add("The value of a last line is printed, as at a prompt")
async def last_value(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("a = 20\na + 22")
        must(outcome.stdout == "42\n", f"the output is {outcome.stdout!r}")
        outcome = await session.run("a = 1\nNone")
        must(outcome.stdout == "", f"the output is {outcome.stdout!r}")
