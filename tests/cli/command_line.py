"""Names for the fixtures of the command line's tests."""

from __future__ import annotations

from collections.abc import Callable

from typer.testing import Result

from speceyes.engines.scripted import ScriptedServer

Run = Callable[..., Result]
"""`run("ask", "a.png", "What?")`"""
Serve = Callable[..., ScriptedServer]
"""`serve(script, models=["small"])`"""
WaitUntil = Callable[[ScriptedServer, Callable[[], bool]], None]
