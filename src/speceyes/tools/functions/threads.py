"""A function in a thread that nobody has to wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


async def in_own_thread(function: Callable[[], Any], name: str) -> Any:
    """What a function gives back, or its error. Cancelling this leaves the thread to itself.

    Unlike `asyncio.to_thread` it takes no place of a pool that the image work needs, and a function that never ends
    does not keep the program from ending.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():  # given up meanwhile
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except Exception as raised:
            # A future takes no StopIteration.
            error = RuntimeError(f"StopIteration: {raised}") if isinstance(raised, StopIteration) else raised
        except BaseException as raised:  # SystemExit and the like would otherwise leave the caller waiting
            error = RuntimeError(f"it wanted to end the program ({raised!r})")
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"tool {name}", daemon=True).start()
    return await outcome
