"""Processes and threads: too many, left behind, or turned against the sandbox itself."""

from __future__ import annotations

import re

from speceyes.sandbox.conformance.checks import LIMITS, SOON_S, Checks, Ground, must

CHECKS = Checks("processes")

_HEARTBEAT = """
def daemon():
    # the classic way to outlive one's parent: a session of its own, and a second fork
    import time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            while True:
                with open("/tmp/heartbeat", "a") as file:
                    file.write("x")
                time.sleep(0.02)
        os._exit(0)
daemon()
import time
until = time.monotonic() + 60
while not os.path.exists("/tmp/heartbeat") and time.monotonic() < until:
    time.sleep(0.02)
print("beats", os.path.exists("/tmp/heartbeat"))
"""


@CHECKS.add("A loop of forks stops at the limit, and the session goes on")
async def fork_loop(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import time
            made = 0
            for _ in range(200):
                try:
                    pid = os.fork()
                except OSError as refusal:
                    print("refused", refusal)
                    break
                if pid == 0:
                    time.sleep(600)
                    os._exit(0)
                made += 1
            print("MADE", made)
            """
        )
        found = re.search(r"MADE (\d+)", outcome.stdout)
        must(found is not None, f"the attack was not tried to its end: {outcome.error}")
        made = int(found[1]) if found else 0
        must(made <= LIMITS.processes, f"{made} processes could be started; {LIMITS.processes} are allowed")
        must(made >= LIMITS.processes // 2, f"only {made} processes could be started")
        await session.works()


@CHECKS.add("A fork bomb is ended with its step, all of it at once")
async def fork_bomb(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            while True:
                try:
                    os.fork()
                except OSError:
                    pass
            """,
            SOON_S,
        )
        must(outcome.timed_out and outcome.state_lost, f"the bomb was not ended for its time: {outcome.error}")
        await session.works()


@CHECKS.add("A loop of threads stops at the limit, and the session goes on")
async def thread_loop(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import threading
            gate = threading.Event()
            made = 0
            try:
                for _ in range(400):
                    threading.Thread(target=gate.wait, daemon=True).start()
                    made += 1
            except RuntimeError as refusal:
                print("refused", refusal)
            print("MADE", made)
            gate.set()
            """
        )
        found = re.search(r"MADE (\d+)", outcome.stdout)
        must(found is not None, f"the attack was not tried to its end: {outcome.error}")
        made = int(found[1]) if found else 0
        must(made <= LIMITS.processes, f"{made} threads could be started; {LIMITS.processes} processes are allowed")
        await session.works()


@CHECKS.add("A daemon does not outlive its step")
async def daemon_after_the_step(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(_HEARTBEAT)
        must("beats True" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")
        outcome = await session.run(
            """
            import time
            before = os.path.getsize("/tmp/heartbeat")
            time.sleep(0.5)
            print("grew", os.path.getsize("/tmp/heartbeat") - before)
            """
        )
        must("grew 0\n" in outcome.stdout, f"the daemon still runs: {outcome.stdout.strip() or outcome.error}")


@CHECKS.add("A daemon does not outlive its session, even where it hides from the end of its step")
async def daemon_after_the_session(ground: Ground) -> None:
    # What the interpreter does at the end of a step is in the hands of its code; the end of the session is not.
    async with ground.session() as session:
        outcome = await session.run("os.kill = lambda *words: None\nimport signal\n" + _HEARTBEAT)
        must("beats True" in outcome.stdout, f"the attack was not tried to its end: {outcome.error}")


@CHECKS.add("A daemon does not outlive a step that is ended for its time")
async def daemon_after_a_timeout(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run(_HEARTBEAT + "\nwhile True: pass", 10 * SOON_S)
        outcome = await session.run(
            """
            import time
            before = os.path.getsize("/tmp/heartbeat") if os.path.exists("/tmp/heartbeat") else 0
            time.sleep(0.5)
            after = os.path.getsize("/tmp/heartbeat") if os.path.exists("/tmp/heartbeat") else 0
            print("grew", after - before)
            """
        )
        must("grew 0\n" in outcome.stdout, f"the daemon still runs: {outcome.stdout.strip() or outcome.error}")


@CHECKS.add("The process that guards the code cannot be ended, stopped or left")
async def the_keeper(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import signal
            for sign in range(1, 65):
                if sign not in (signal.SIGCHLD, signal.SIGCONT):
                    try:
                        os.kill(1, sign)
                        os.kill(os.getppid(), sign)
                    except OSError:
                        pass
            print("still here")
            """
        )
        must("still here" in outcome.stdout, f"a signal broke the sandbox: {outcome.error}")
        must(not outcome.state_lost, "a signal to the guard cost the session's variables")
        await session.works()


@CHECKS.add("Signals to everybody hit only the session itself")
async def signals_to_all(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("import signal\nos.kill(-1, signal.SIGKILL)\nos.killpg(0, signal.SIGKILL)")
        await session.works()


@CHECKS.add("An interpreter that ends itself is told, and a new one takes its place")
async def suicide(ground: Ground) -> None:
    async with ground.session() as session:
        for code, said in (
            ("import signal; os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
            ("os._exit(3)", "exit code 3"),
            ("import signal; os.kill(os.getpid(), signal.SIGTERM)", "signal 15"),
            ("os.abort()", "signal 6"),
        ):
            await session.run("here = 1")
            outcome = await session.run(code)
            must(said in (outcome.error or ""), f"{code!r} is not told as it was: {outcome.error}")
            must(outcome.state_lost, f"after {code!r} nobody is told that the variables are gone")
            outcome = await session.run("print('here' in globals())")
            must(outcome.stdout == "False\n", f"after {code!r} there is no new interpreter: {outcome.error}")


@CHECKS.add("sys.exit and quit end the step and nothing else")
async def leaving(ground: Ground) -> None:
    async with ground.session() as session:
        await session.run("kept = 5")
        for code in ("sys.exit()", "sys.exit('words')", "raise SystemExit(3)"):
            outcome = await session.run(code)
            must(outcome.error is None and not outcome.state_lost, f"{code} broke the session: {outcome.error}")
        outcome = await session.run("print(kept)")
        must(outcome.stdout == "5\n", f"the variables are gone: {outcome.error}")


@CHECKS.add("A fork that runs on to the end of the code does not answer for its parent")
async def forked_answer(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import time
            child = os.fork()
            if child:
                os.waitpid(child, 0)
                value = "parent"
            else:
                value = "child"
            print(value)
            """
        )
        must(outcome.error is None, f"the step failed: {outcome.error}")
        outcome = await session.run("print(value)")
        must(outcome.stdout == "parent\n", f"the next step runs in the child: {outcome.stdout or outcome.error}")


@CHECKS.add("Pools of processes and child programs work within the limits")
async def honest_processes(ground: Ground) -> None:
    async with ground.session() as session:
        outcome = await session.run(
            """
            import subprocess
            done = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True)
            print(done.stdout.strip(), done.stderr)
            """
        )
        must(outcome.stdout.startswith("42"), f"a child program does not run: {outcome.stdout}{outcome.error}")
