"""What the groups of settings are made of: their base, and the kinds of value that they have."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: {error}") from error


FilePath = Annotated[Path, AfterValidator(_at_home)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]


def _listed(given: object) -> object:
    """A list may be one line with commas, as in the environment."""
    return [part.strip() for part in given.split(",") if part.strip()] if isinstance(given, str) else given


Names = Annotated[tuple[Text, ...], BeforeValidator(_listed)]
Ports = Annotated[tuple[Annotated[int, Field(ge=1, le=65535)], ...], BeforeValidator(_listed)]
Networks = Annotated[tuple[IPv4Network | IPv6Network, ...], BeforeValidator(_listed)]
Door = Literal["none", "chat", "admin"]


class Section(BaseModel):
    """A group of settings. Frozen; unknown names are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)
