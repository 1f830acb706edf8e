"""A function's parameters: those that the model fills in, and those that are filled in for it."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from PIL import Image

from speceyes.errors import ConfigError
from speceyes.imaging.geometry import Box
from speceyes.tools.base import ToolContext
from speceyes.tools.functions.docstrings import read_docstring
from speceyes.tools.functions.forms import Form, form_of


class Given(Enum):
    """Who fills a parameter in, and with what."""

    MODEL = "model"
    BOX = "box"
    """The model, with a box; the function gets it in pixels of the full-size picture."""
    PICTURE = "picture"
    """We, with the picture that the call is about, at full size."""
    CONTEXT = "context"
    """We, with the `ToolContext`."""


_KINDS = {Box: Given.BOX, Image.Image: Given.PICTURE, ToolContext: Given.CONTEXT}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `form` is that of what the model writes; for the others it is None."""

    name: str
    given: Given
    form: Form | None
    required: bool
    description: str = ""


def parameters_of(function: Callable[..., Any], name: str) -> tuple[Parameter, ...]:
    """The parameters in their order.

    Raises:
        ConfigError: One of them cannot be described to a model.
    """
    hints = _hints(function, name)
    said = read_docstring(inspect.getdoc(function)).arguments
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(
                f"tool {name}: the parameter {parameter} has no name that a model could give. Write it as NAME: TYPE"
            )
        try:
            found.append(_parameter(parameter, hints.get(parameter.name, Any), said))
        except ConfigError as error:
            raise ConfigError(f"tool {name}: parameter {parameter.name}: {error}") from error
    for kind in (Given.BOX, Given.PICTURE, Given.CONTEXT):
        if sum(parameter.given is kind for parameter in found) > 1:
            raise ConfigError(f"tool {name}: only one parameter can be the {kind.value}")
    return tuple(found)


def _parameter(parameter: inspect.Parameter, hint: Any, said: Mapping[str, str]) -> Parameter:
    required = parameter.default is parameter.empty
    description = said.get(parameter.name, "")
    bare = _without_none(hint)
    if given := _KINDS.get(bare):
        return Parameter(parameter.name, given, None, required, description)
    form = form_of(hint)
    return Parameter(parameter.name, Given.MODEL, form, required, description or form.schema.get("description", ""))


def _without_none(hint: Any) -> Any:
    """`Box` of `Box | None`, so that a box may be left out."""
    inner = [one for one in typing.get_args(hint) if one is not type(None)]
    plain = inner[0] if len(inner) == 1 and inner[0] in _KINDS else hint
    return plain if isinstance(plain, type) else None


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    described = getattr(function, "func", function)  # of functools.partial
    if not (inspect.isfunction(described) or inspect.ismethod(described) or inspect.isbuiltin(described)):
        described = type(described).__call__
    try:
        return typing.get_type_hints(described, include_extras=True)
    except (NameError, TypeError) as error:
        raise ConfigError(f"tool {name}: its type hints cannot be read ({error})") from error
