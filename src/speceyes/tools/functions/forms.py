"""Type hints as forms: what a schema says of an argument, and how what a model wrote is read."""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union

from speceyes.errors import ConfigError
from speceyes.tools.addressing import whole_number

Read = Callable[[Any], Any]


class ArgumentFault(Exception):
    """An argument is not what its form says. The message continues "NAME must be"."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an argument may be.

    Attributes:
        schema: JSON schema.
        read: From what the model wrote to what the function gets. It raises `ArgumentFault`.
        said: In words, for the model.
    """

    schema: dict[str, Any]
    read: Read
    said: str


def form_of(hint: Any) -> Form:
    """The form of a type hint: str, int, float, bool, list, dict, Literal, Optional, unions, Annotated, Any.

    Raises:
        ConfigError: There is no form for it.
    """
    if hint is Any or hint is object:
        return Form({}, lambda value: value, "any value")
    if simple := _SIMPLE.get(hint):
        return simple
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _annotated(inner)
    if origin is Literal:
        return _choice(inner)
    if origin in (Union, types.UnionType):
        return _union(inner)
    if hint in (list, typing.List) or origin in (list, Sequence):  # noqa: UP006
        return _list(form_of(inner[0]) if inner else None)
    if hint is dict or origin is dict:
        return Form({"type": "object"}, _read_object, "an object")
    raise ConfigError(
        f"the type {getattr(hint, '__name__', hint)!r} cannot be described to a model. Use str, int, float, bool, "
        "list, dict, Literal, Optional or Box"
    )


def _annotated(inner: tuple[Any, ...]) -> Form:
    form = form_of(inner[0])
    words = [extra for extra in inner[1:] if isinstance(extra, str)]
    return Form({**form.schema, "description": words[0]}, form.read, form.said) if words else form


def _choice(options: tuple[Any, ...]) -> Form:
    said = "one of " + ", ".join(json.dumps(option) for option in options)
    kinds = {type(option) for option in options}
    if not kinds <= {str, int, bool}:
        raise ConfigError(f"the choices {options} cannot be described to a model. Use texts and whole numbers")
    named = {str: "string", int: "integer", bool: "boolean"}
    schema: dict[str, Any] = {"type": named[kinds.pop()]} if len(kinds) == 1 else {}

    def read(value: Any) -> Any:
        for option in options:
            if type(value) is type(option) and value == option:
                return option
        for option in options:  # a model may write 2 as "2" and "Red" for "red"
            if isinstance(value, str | int | float) and str(value).strip().casefold() == str(option).casefold():
                return option
        raise ArgumentFault(said)

    return Form({**schema, "enum": list(options)}, read, said)


def _union(inner: tuple[Any, ...]) -> Form:
    forms = [form_of(one) for one in inner if one is not type(None)]
    nullable = type(None) in inner
    said = " or ".join([form.said for form in forms] + ["null"] * nullable)

    def read(value: Any) -> Any:
        if value is None and nullable:
            return None
        for exact in (True, False):  # "5" for int | str is a text
            for form in forms:
                try:
                    found = form.read(value)
                except ArgumentFault:
                    continue
                if not exact or (type(found) is type(value) and found == value):
                    return found
        raise ArgumentFault(said)

    options = [form.schema for form in forms] + [{"type": "null"}] * nullable
    return Form(options[0] if len(options) == 1 else {"anyOf": options}, read, said)


def _list(item: Form | None) -> Form:
    said = f"a list, each of it {item.said}" if item and item.schema else "a list"

    def read(value: Any) -> list[Any]:
        value = _unpacked(value)
        if not isinstance(value, list):
            raise ArgumentFault(said)
        try:
            return value if item is None else [item.read(one) for one in value]
        except ArgumentFault as fault:
            raise ArgumentFault(said) from fault

    schema = {"type": "array"} if item is None else {"type": "array", "items": item.schema}
    return Form(schema, read, said)


def _read_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return json.dumps(value)
    raise ArgumentFault("a text")


def _read_whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    number = whole_number(value)
    if number is None:
        raise ArgumentFault("a whole number")
    return number


def _read_number(value: Any) -> float:
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise ArgumentFault("a number")
    return number


def _read_truth(value: Any) -> bool:
    said = {"true": True, "false": False}.get(str(value).strip().lower())
    if said is None:
        raise ArgumentFault("true or false")
    return said


def _read_object(value: Any) -> dict[str, Any]:
    value = _unpacked(value)
    if not isinstance(value, dict):
        raise ArgumentFault("an object")
    return value


def _unpacked(value: Any) -> Any:
    """A list or object that was written as JSON within a text."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


_SIMPLE: dict[Any, Form] = {
    str: Form({"type": "string"}, _read_text, "a text"),
    int: Form({"type": "integer"}, _read_whole, "a whole number"),
    float: Form({"type": "number"}, _read_number, "a number"),
    bool: Form({"type": "boolean"}, _read_truth, "true or false"),
}
