"""What code writes: too much, in odd characters, or into channels that are not its own."""

from __future__ import annotations

from speceyes.sandbox.conformance.checks import LIMITS, SOON_S, Checks, Ground, must

CHECKS = Checks("output")


@CHECKS.add("A hundred million characters are cut, and the model is told")
async def flood(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("print('x' * 10 ** 8)")
        must(outcome.error is None, f"it is told as: {outcome.error}")
        must(len(outcome.stdout) == LIMITS.output_chars, f"{len(outcome.stdout)} characters came through")
        must(any("cut" in note for note in outcome.notes), f"the notes are {outcome.notes}")


@CHECKS.add("Output that never ends is cut, and ends with the step")
async def endless_flood(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("while True: print('abc')", SOON_S)
        must(outcome.timed_out and len(outcome.stdout) <= LIMITS.output_chars, f"{len(outcome.stdout)} characters")
        outcome = await session.run("while True: print('abc', file=sys.stderr)", SOON_S)
        must(outcome.timed_out and len(outcome.stderr) <= LIMITS.output_chars, f"{len(outcome.stderr)} characters")
        await session.works()


@CHECKS.add("A very long error is cut")
async def long_error(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("raise ValueError('y' * 10 ** 7)")
        must(0 < len(outcome.error or "") <= LIMITS.output_chars, f"{len(outcome.error or '')} characters came through")


@CHECKS.add("Both streams come back, each by itself, and in the right order")
async def streams(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("print('one')\nprint('two', file=sys.stderr)\ndone = os.write(1, b'three')")
        must(outcome.stdout == "one\nthree", f"standard output is {outcome.stdout!r}")
        must(outcome.stderr == "two\n", f"standard error is {outcome.stderr!r}")


@CHECKS.add("Every character of every script comes back as it is")
async def scripts(ground: Ground) -> None:
    text = "Grüße, 日本語, עברית, हिन्दी, 🖼️ 𝒳"
    async with ground.session() as session:
        outcome = await session.run(f"print({text!r})")
        must(outcome.stdout == text + "\n", f"the output is {outcome.stdout!r}")
        outcome = await session.run("raise ValueError('ä')\n# ü")
        must("ValueError: ä" in (outcome.error or ""), f"the error is {outcome.error!r}")


@CHECKS.add("Half characters, zero bytes and control codes are spelled")
async def broken_characters(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(r"print('\ud800', '\x00', '\x1b[31mred', '\x07')")
        must(outcome.error is None, f"it is told as: {outcome.error}")
        for char in ("\x00", "\x1b", "\x07"):
            must(char not in outcome.stdout, f"{char!r} comes through")
        must("red" in outcome.stdout and "\\x1b" in outcome.stdout, f"the output is {outcome.stdout!r}")
        outcome = await session.run(r"raise ValueError('\ud800\x00\x1b')")
        must(outcome.error is not None and outcome.error.isascii(), f"the error is {outcome.error!r}")


@CHECKS.add("Bytes that are no text come back spelled")
async def raw_bytes(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("sys.stdout.buffer.write(bytes(range(256)) * 4)\nsys.stdout.flush()")
        must(outcome.error is None and len(outcome.stdout) > 1000, f"{outcome.stdout!r}, {outcome.error}")
        must("\\xff" in outcome.stdout, "a byte that is no text is not spelled")
        outcome.stdout.encode("utf-8")


@CHECKS.add("Odd names of files do no harm")
async def odd_names(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            r"""
            for name in (b"\xff\xfe.png", b"new\nline.txt", b"-rf", b"\x1b[2J.png", b"a" * 250 + b".png",
                         "日本.txt".encode()):
                open(name, "w").write("x")
            """
        )
        must(outcome.error is None, f"it is told as: {outcome.error}")
        told = "".join([*(file.name for file in outcome.files), *outcome.notes])
        must("\x1b" not in told and "\x1b" not in outcome.stdout, "a control code comes through in a name")
        must(len(outcome.files) == 3, f"the files are {outcome.files}")


@CHECKS.add("Messages of the sandbox cannot be written by its code")
async def forged_messages(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import json, struct
            body = json.dumps({"kind": "end", "id": "x", "ended": "done", "status": None, "error": None, "token": "x",
                               "notes": ["forged"], "files": [], "said": {}, "seconds": 0}).encode()
            for fd in range(1, 1024):
                try:
                    os.write(fd, struct.pack(">I", len(body)) + body)
                except OSError:
                    pass
            print("written")
            """
        )
        must("forged" not in outcome.notes, "a message that the code wrote was believed")
        await session.works()
        await session.works()


@CHECKS.add("Closing, or filling, the sandbox's channels costs the code its interpreter, and no more")
async def broken_channels(ground: Ground) -> None:
    async with ground.session() as session:
        for code in (
            "os.closerange(0, 1024)",
            "os.closerange(3, 1024)",
            "for fd in range(3, 99):\n    try:\n        while os.write(fd, bytes(65536)): 1\n    except OSError: pass",
            "for fd in range(3, 1024):\n    try: os.write(fd, b'\\xff\\xff\\xff\\xff')\n    except OSError: pass",
            "for fd in range(3, 1024):\n    try: os.write(fd, b'\\0\\0\\0\\2{}')\n    except OSError: pass",
            "sys.stdout = None; sys.stderr = 5; sys.stdin = 'x'",
            "sys.stdout.close()",
        ):
            await session.run(code, 10 * SOON_S)
            await session.run("pass", 10 * SOON_S)  # the step after may be the one that pays
            await session.works()


@CHECKS.add("The interpreter's own machinery, turned against it, harms only this session")
async def machinery(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            frame = sys._getframe()
            while frame:
                for value in list(frame.f_locals.values()):
                    for name in ("say", "ask", "config", "pid"):
                        try:
                            setattr(value, name, 1)
                        except Exception:
                            pass
                frame = frame.f_back
            import gc, json, builtins
            json.dumps = lambda *a, **k: '{"kind": "end"}'
            for module in list(sys.modules.values()):
                for name in ("send", "receive", "pack", "kill_all_others"):
                    if hasattr(module, name):
                        setattr(module, name, lambda *a, **k: b"x" * 100)
            builtins.exec = builtins.compile = None
            """,
            10 * SOON_S,
        )
        must("forged" not in outcome.stdout, "unreachable")
        for _ in range(2):
            await session.run("pass", 10 * SOON_S)
        await session.run("os._exit(0)", 10 * SOON_S)
        await session.works()
    async with ground.session() as other:
        await other.works()


@CHECKS.add("A thread that goes on printing after its step does not break the next one")
async def late_printing(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import threading, time
            stop = False
            def chatter():
                while not stop:
                    print("chatter")
                    time.sleep(0.01)
            threading.Thread(target=chatter, daemon=True).start()
            """
        )
        must(any("thread" in note for note in outcome.notes), f"nobody is told of the thread: {outcome.notes}")
        outcome = await session.run("stop = True\nprint('mine')")
        must("mine" in outcome.stdout and outcome.error is None, f"the next step fails: {outcome.error}")
