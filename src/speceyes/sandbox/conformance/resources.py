"""Memory, files and the stack: more than there is."""

from __future__ import annotations

from speceyes.sandbox.conformance.checks import LIMITS, Checks, Ground, must

CHECKS = Checks("resources")

_MIB = 1024**2


@CHECKS.add("An array that is too large is a MemoryError, and the variables stay")
async def large_array(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("kept = 1")
        outcome = await session.run("import numpy as np\nnp.zeros((50000, 50000, 3))")
        must("MemoryError" in (outcome.error or ""), f"it is told as: {outcome.error}")
        outcome = await session.run("print(kept)")
        must(outcome.stdout == "1\n", f"the variables are gone: {outcome.error}")


@CHECKS.add("Memory that is filled bit by bit ends in a MemoryError, and the session goes on")
async def growing_list(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("hoard = []\nwhile True:\n    hoard.append(bytearray(1 << 24))")
        must("MemoryError" in (outcome.error or ""), f"it is told as: {outcome.error}")
        outcome = await session.run("hoard = None\nprint(6 * 7)")
        must(outcome.stdout == "42\n", f"afterwards the session does not work: {outcome.error}")


@CHECKS.add("Many processes that each stay below the limit are ended when they pass it together")
async def memory_of_many(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import time
            for _ in range(6):
                if os.fork() == 0:
                    hoard = bytearray(400 << 20)
                    for place in range(0, len(hoard), 4096):
                        hoard[place] = 1
                    time.sleep(600)
            time.sleep(600)
            """,
            60,
        )
        must(outcome.error is not None and outcome.state_lost, "2400 MiB could be filled")
        must(not outcome.timed_out, "nobody noticed before the step's time was over")
        await session.works()


@CHECKS.add("A file that is too large is an error, and the host's disk does not fill")
async def large_file(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            try:
                with open("big", "wb") as file:
                    for _ in range(64):
                        file.write(bytes(1 << 20))
            except OSError as refusal:
                print("refused", refusal.errno)
            print("SIZE", os.path.getsize("big"))
            attempt("sparse file", lambda: os.truncate("big", 1 << 40))
            """
        )
        must("refused" in outcome.stdout and "ESCAPED" not in outcome.stdout, f"it could be written: {outcome.stdout}")
        await session.works()


@CHECKS.add("Many files that are too large together are an error")
async def many_bytes(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            written = 0
            try:
                for number in range(40):
                    with open("file%d" % number, "wb") as file:
                        for _ in range(8):
                            written += file.write(bytes(1 << 20))
            except OSError as refusal:
                print("refused", refusal.errno)
            print("WRITTEN", written >> 20)
            """
        )
        must("refused" in outcome.stdout, f"{outcome.stdout.strip()} MiB could be written: {outcome.error}")
        written = int(outcome.stdout.split()[-1]) if outcome.stdout.split() else 0
        must(written * _MIB <= LIMITS.files_bytes, f"{written} MiB could be written")
        await session.works()


@CHECKS.add("Too many files end the step, and the next one finds an empty folder")
async def many_files(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import time
            for number in range(200_000):
                open("file%d" % number, "w").close()
                if number % 1000 == 999:
                    time.sleep(0.05)
            """
        )
        must(outcome.state_lost and "files" in (outcome.error or ""), f"it is told as: {outcome.error}")
        outcome = await session.run("print(len([name for name in os.listdir('.') if name.startswith('file')]))")
        must(outcome.stdout == "0\n", f"files are left: {outcome.stdout or outcome.error}")


@CHECKS.add("Folders nested without an end do no harm")
async def nested_folders(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            for _ in range(300):
                os.mkdir("inner")
                os.chdir("inner")
            open("deep.png", "w").close()
            os.chdir("/tmp")
            """
        )
        must(outcome.error is None, f"it is told as: {outcome.error}")
        await session.works()


@CHECKS.add("Recursion without an end is an error")
async def recursion(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("kept = 1")
        outcome = await session.run("def again(n): return again(n + 1)\nagain(0)")
        must("RecursionError" in (outcome.error or ""), f"it is told as: {outcome.error}")
        outcome = await session.run("print(kept)")
        must(outcome.stdout == "1\n", f"the variables are gone: {outcome.error}")


@CHECKS.add("Recursion that overflows the stack of C is a crash that is told, and the session goes on")
async def recursion_in_c(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            sys.setrecursionlimit(10 ** 9)
            class Again:
                def __getattr__(self, name):
                    return getattr(Again(), name + "x"[:0])
                def __repr__(self):
                    return repr([Again()])
            print(repr(Again()))
            """
        )
        must(outcome.error is not None, "it came to an end")
        await session.works()


@CHECKS.add("Too many open files are an error, and the session goes on")
async def open_files(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            kept = []
            try:
                for _ in range(100_000):
                    kept.append(open("/dev/null"))
            except OSError as refusal:
                print("refused after", len(kept))
            kept = None
            """
        )
        must("refused after" in outcome.stdout, f"it is told as: {outcome.error}")
        await session.works()


@CHECKS.add("Code that is too long is not run")
async def long_code(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run("#" * (LIMITS.code_chars + 1))
        must("characters" in (outcome.error or ""), f"it is told as: {outcome.error}")
        outcome = await session.run("x = 1\n" * 12_000 + "print(x)")
        must(outcome.stdout == "1\n", f"code of a fair length does not run: {outcome.error}")
