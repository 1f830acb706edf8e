"""`speceyes models`: the models that come with SpecEyes, the dialects that it knows, or a server's models."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from speceyes.cli import options, output
from speceyes.cli.probe import ApiKeyVariable
from speceyes.errors import SpecEyesError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("models")(models)


def models(
    url: Annotated[str | None, typer.Option("--url", metavar="URL", help="List this server's models instead.")] = None,
    api_key_env: ApiKeyVariable = None,
    json_target: output.JsonTarget = None,
) -> None:
    """List the nano pair and whether its files are intact, and the known dialects; or a server's models."""
    output.check_target(json_target)
    record = local_models() if url is None else asyncio.run(_served(url, options.key_from(api_key_env)))
    if json_target != output.STDOUT:
        output.console().print(_report(record))
    output.write_json(json_target, record)


def local_models() -> dict[str, Any]:
    """What is here, as the command's JSON.

    Returns:
        `nano`: `intact`, `problem` (None, or what is wrong), `folder`, `calibration` (its digest, or None), and
        `models`: `name`, `fingerprint`, `files` with `file`, `bytes` and `sha256`. `dialects`: their names.
    """
    from speceyes.agents import DIALECTS

    return {"nano": _nano(), "dialects": sorted(DIALECTS)}


def _nano() -> dict[str, Any]:
    from speceyes.engines.nano import nano_files
    from speceyes.gating import Calibration
    from speceyes.wiring import nano_calibration_file

    nano: dict[str, Any] = {"intact": False, "problem": None, "folder": None, "calibration": None, "models": []}
    try:
        files = nano_files()
        nano["folder"] = str(files.draft.parent)
        nano["models"] = [
            _model("draft", files.draft, files.draft_mmproj),
            _model("agent", files.agent, files.agent_mmproj),
        ]
        if (calibration := nano_calibration_file()).is_file():
            nano["calibration"] = Calibration.load(calibration).digest
        nano["intact"] = True
    except SpecEyesError as error:
        nano["problem"] = str(error)
    return nano


def _model(role: Literal["draft", "agent"], *files: Path) -> dict[str, Any]:
    from speceyes.wiring import nano_fingerprint

    rows = [{"file": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file)} for file in files]
    return {"name": f"nano-{role}", "fingerprint": nano_fingerprint(role), "files": rows}


def _sha256(file: Path) -> str:
    import hashlib

    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


async def _served(url: str, key: str | None) -> dict[str, Any]:
    from speceyes.engines.client import ChatClient

    async with ChatClient(url, "", api_key=key, name="the model server") as client:
        return {"models": await client.models()}


def _report(record: dict[str, Any]) -> Any:
    from rich.console import Group, RenderableType
    from rich.table import Table
    from rich.text import Text

    if "nano" not in record:
        return Text("\n".join(output.visible(name) for name in record["models"]) or "The server lists no model.")
    nano = record["nano"]
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for title in ("model", "file", "size", "sha256"):
        table.add_column(title, overflow="fold", justify="right" if title == "size" else "left")
    for model in nano["models"]:
        for row in model["files"]:
            table.add_row(model["name"], row["file"], f"{row['bytes'] / 1e6:.1f} MB", row["sha256"][:12])
    fingerprints = [Text(f"{model['name']} is {model['fingerprint']}") for model in nano["models"]]
    state = Text("The nano pair is intact.", "green")
    if not nano["intact"]:
        state = Text(f"The nano pair cannot be used: {output.visible(nano['problem'])}", "red")
    elif nano["calibration"] is None:
        state = Text("The nano pair is intact, but its calibration.json is missing.", "yellow")
    parts: list[RenderableType] = [table, *fingerprints] if nano["models"] else []
    return Group(*parts, state, Text(f"Dialects: {', '.join(record['dialects'])}"))
