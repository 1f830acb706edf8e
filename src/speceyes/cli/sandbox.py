"""`speceyes sandbox`: attack the sandboxes of this machine, run a file in one, set up packages, make an image."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from speceyes.cli import options, output
from speceyes.errors import ConfigError, InputError, SandboxUnavailable

if TYPE_CHECKING:
    from speceyes.config import SandboxSettings
    from speceyes.sandbox import Outcome
    from speceyes.sandbox.conformance import Report

Wanted = Annotated[
    Literal["bubblewrap", "container"] | None,
    typer.Option("--provider", help="This one only. By default those that work here."),
]
FAILED = 1


def register(app: typer.Typer) -> None:
    """Add the command and its sub-commands."""
    sandbox = typer.Typer(no_args_is_help=True, help="Run code that a model wrote where it can do no harm.")
    sandbox.command("check")(check)
    sandbox.command("run")(run)
    sandbox.command("setup")(setup)
    sandbox.command("image")(image)
    app.add_typer(sandbox, name="sandbox")


def check(
    provider: Wanted = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME", help="Only these checks. Repeatable.")
    ] = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """Attack every sandbox that works here, and say what it withstood and what it does not cover.

    Exit code 1: an attack got through. 2: no sandbox works here, and nothing was checked.
    """
    from speceyes.cli.sandbox_report import report_lines
    from speceyes.sandbox.conformance import CHECKS

    output.check_target(json_target)
    settings = _settings(config, assignments)
    groups = sorted({one.group for one in CHECKS})
    if unknown := set(group or ()) - set(groups):
        raise InputError(f"--group {sorted(unknown)[0]}: the groups are {', '.join(groups)}")
    reports = asyncio.run(_check(settings, provider, group or groups))
    record = as_json(reports)
    if json_target != output.STDOUT:
        output.console().print(report_lines(reports))
    output.write_json(json_target, record)
    if not record["available"]:
        reasons = "; ".join(f"{report.provider}: {report.reason}" for report in reports)
        raise SandboxUnavailable(f"no sandbox works here, so nothing was checked ({reasons})")
    if record["failed"]:
        raise typer.Exit(FAILED)


def as_json(reports: list[Report]) -> dict[str, Any]:
    """What `check` prints.

    Returns:
        `available`: names of the providers that work here. `passed` and `failed`: checks of all of them. `providers`:
        for each that is known `provider`, `available`, `reason`, `passed`, `failed`, `not_covered` and `checks`, with
        `group`, `name`, `title`, `passed`, `detail` and `seconds` for each.
    """
    providers = [report.as_json() for report in reports]
    return {
        "available": [report.provider for report in reports if report.available],
        "passed": sum(one["passed"] for one in providers),
        "failed": sum(one["failed"] for one in providers),
        "providers": providers,
    }


async def _check(settings: SandboxSettings, wanted: str | None, groups: list[str]) -> list[Report]:
    from speceyes.sandbox import known_providers
    from speceyes.sandbox.conformance import CHECKS, check_provider

    chosen = [one for one in CHECKS if one.group in groups]
    with output.working("Looking for sandboxes") as say:
        return [
            await check_provider(one, chosen, say) for one in known_providers(settings) if wanted in (None, one.name)
        ]


def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.py", help="Python code.")],
    image: Annotated[
        list[Path] | None,
        typer.Option("--image", metavar="FILE", help="An image; the code finds its path in image_path. Repeatable."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="By default as the settings say.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FOLDER", help="Save the pictures that come back here.")
    ] = None,
    provider: Wanted = None,
    json_target: output.JsonTarget = None,
    config: options.ConfigFile = None,
    assignments: options.Assignments = None,
) -> None:
    """Run a file in a sandbox, and print what it prints. Exit code 1: it did not run to its end."""
    output.check_target(json_target)
    try:
        code = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from error
    settings = _settings(config, assignments)
    if timeout is not None:
        settings = settings.model_copy(update={"timeout_s": timeout})
    if provider is not None or settings.provider == "off":
        # Whoever gives this command wants it run; `off` is about what agents may do.
        settings = settings.model_copy(update={"provider": provider or "auto"})
    outcome, name = asyncio.run(_run(settings, code, image or []))
    saved = _save(outcome, out) if out is not None else []
    if json_target != output.STDOUT:
        _print(outcome, saved)
    output.write_json(json_target, {"provider": name, **outcome_json(outcome), "saved": saved})
    if outcome.error is not None:
        raise typer.Exit(FAILED)


async def _run(settings: SandboxSettings, code: str, images: list[Path]) -> tuple[Outcome, str]:
    from speceyes.imaging.decode import load
    from speceyes.sandbox import choose_provider, limits_of

    loaded = [load(path) for path in images]
    with output.working("Running the code") as say:
        say("Opening the sandbox")
        chosen = await choose_provider(settings)
        assert chosen is not None
        async with chosen.open(loaded, limits_of(settings)) as session:
            say(f"Running the code in {chosen.name}")
            return await session.run(code), chosen.name


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """A step as JSON: its fields, with names and sizes in place of pictures."""
    pictures = [{"name": one.name, "width": one.image.size[0], "height": one.image.size[1]} for one in outcome.pictures]
    files = [{"name": one.name, "bytes": one.bytes} for one in outcome.files]
    return {
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "error": outcome.error,
        "pictures": pictures,
        "files": files,
        "notes": list(outcome.notes),
        "timed_out": outcome.timed_out,
        "seconds": round(outcome.seconds, 3),
    }


def _save(outcome: Outcome, folder: Path) -> list[str]:
    """Write the pictures under names of our own making: the code inside has chosen theirs."""
    saved = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, picture in enumerate(outcome.pictures, 1):
            stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(picture.name).stem).strip("-")[:60] or "picture"
            path = folder / f"{number:02}-{stem}.{picture.image.format.lower()}"
            path.write_bytes(picture.image.source)
            saved.append(str(path))
    except OSError as error:
        raise ConfigError(f"cannot save pictures in {folder}: {error.strerror or error}") from error
    return saved


def _print(outcome: Outcome, saved: list[str]) -> None:
    typer.echo(output.visible(outcome.stdout), nl=not outcome.stdout.endswith("\n") and bool(outcome.stdout))
    notes = list(outcome.notes) + [f"Saved {path}" for path in saved]
    if outcome.pictures and not saved:
        notes.append(f"Pictures that came back: {len(outcome.pictures)}. -o FOLDER saves them.")
    for text in (outcome.stderr.rstrip("\n"), outcome.error or "", *notes):
        if text:
            typer.echo(output.visible(text), err=True)


def setup(
    folder: Annotated[
        Path | None, typer.Argument(metavar="FOLDER", help="By default ~/.local/share/speceyes/sandbox.")
    ] = None,
) -> None:
    """Make an environment for the sandbox with NumPy, Pillow, Matplotlib and OpenCV. Takes a minute and the network.

    Bubblewrap uses it from then on, in place of the packages that SpecEyes itself has.
    """
    from speceyes.sandbox.interpreter import default_folder, make_environment

    place = folder or default_folder()
    with output.working("Making the environment") as say:
        make_environment(place, say)
    output.console().print(f"The packages for the sandbox are in {place}.")
    if folder is not None:
        output.console().print(f"To use them: sandbox.packages = {str(place)!r} in the settings.")


def image(config: options.ConfigFile = None, assignments: options.Assignments = None) -> None:
    """Make the image for containers from the Python and the packages of this machine. Nothing is fetched.

    Takes some ten seconds. With `speceyes sandbox setup` before it, OpenCV is in it too. The engine and the image's
    name are those of the settings.
    """
    settings = _settings(config, assignments)
    found = asyncio.run(_image(settings))
    output.console().print(f"Made the image {settings.container_image}: {found}.")


async def _image(settings: SandboxSettings) -> str:
    """Make the image, and try it. Returns what was found inside."""
    from speceyes.sandbox.container import Container
    from speceyes.sandbox.engine import working_engine
    from speceyes.sandbox.image import make_image
    from speceyes.sandbox.interpreter import find_interpreter

    wanted = None if settings.container_engine == "auto" else settings.container_engine
    with output.working("Looking for an engine") as say:
        engine = await working_engine(wanted)
        await make_image(engine, settings.container_image, find_interpreter(settings.packages), say)
        say("Trying the image")
        found = await Container(engine.name, settings.container_image, settings.container_runtime).available()
    if not found.available:
        raise SandboxUnavailable(f"the image {settings.container_image} is there, and does not work: {found.reason}")
    return found.reason


def _settings(config: Path | None, assignments: list[str] | None) -> SandboxSettings:
    return options.read_settings(config, assignments).sandbox
