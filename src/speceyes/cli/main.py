"""The `speceyes` command: its sub-commands put together, and what becomes of errors.

Exit codes: 0 done, 1 a model server failed, 2 wrong input or configuration, 3 a calibration proved no threshold, 130
interrupted.
"""

from __future__ import annotations

import importlib
import io
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from speceyes.cli.output import visible
from speceyes.errors import ConfigError, InputError, SpecEyesError

COMMANDS = (
    "ask",
    "serve",
    "demo",
    "score",
    "probe",
    "models",
    "data",
    "record",
    "sweep",
    "plan",
    "calibrate",
    "eval",
    "report",
    "audit",
    "keys",
    "requests",
    "sandbox",
    "dialects",
)
"""In the order of the help. Each is a module of this package."""

ENGINE_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130


class _Commands(TyperGroup):
    """Errors that SpecEyes raises on purpose end a command with one clear line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SpecEyesError as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            typer.echo(f"error: {visible(str(error))}", err=True)
            raise typer.Exit(exit_code(error)) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def exit_code(error: SpecEyesError) -> int:
    """2 where the caller must change something, 1 where an engine failed."""
    return BAD_INPUT if isinstance(error, ConfigError | InputError) else ENGINE_FAILED


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from speceyes import __version__

        typer.echo(f"speceyes {__version__}")
        raise typer.Exit


@app.callback()
def speceyes(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Answer questions about images: at once where a small model is sure, with an agent's tool loop where not."""


for _name in COMMANDS:
    importlib.import_module(f"speceyes.cli.{_name}").register(app)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        # What a model writes must not end the program on a terminal that cannot show it.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()
