"""The command line. One module a command, each with `register(app)`; nothing heavy is imported before it runs."""

from speceyes.cli.main import app, main

__all__ = ["app", "main"]
