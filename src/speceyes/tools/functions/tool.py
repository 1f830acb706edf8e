"""`FunctionTool` and the decorator `tool`: any Python function as a tool of an agent."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, overload

from speceyes.errors import BoxError, ConfigError
from speceyes.imaging.geometry import Coordinates, parse_box
from speceyes.tools.addressing import (
    INDEX_FIELD,
    UNITS,
    Address,
    BoxTool,
    Frame,
    box_schema,
    function_schema,
    index_schema,
)
from speceyes.tools.base import ToolContext, ToolResult
from speceyes.tools.budget import ToolBudget
from speceyes.tools.functions.docstrings import read_docstring
from speceyes.tools.functions.forms import ArgumentFault
from speceyes.tools.functions.parameters import Given, Parameter, parameters_of
from speceyes.tools.functions.results import as_result
from speceyes.tools.functions.threads import in_own_thread

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_PICTURE = "There is no picture. Answer from the text."


class FunctionTool(BoxTool):
    """A Python function that the agent may call. It stays callable as the function that it was.

    The schema comes from the type hints (`functions.forms`), its words from the docstring. Three types are special:

    - `Box`: the model names a box of a picture; the function gets it in pixels of that picture at full size.
    - `PIL.Image.Image`: the function gets that picture, at full size and its own copy; the model is not asked.
    - `ToolContext`: the function gets all images and views.

    A function that is not async runs in a thread of its own. It may give back a text, anything that JSON can say, a
    picture (Pillow, NumPy, bytes of a file), or a list of these. What it raises is told to the model.

    Args:
        function: The function.
        name: The name that the model calls it by. None: the function's.
        description: What it does, for the model. None: the docstring up to its first section.
        budget: What a call may take and give back. None: the agent's.
        coordinates: What the four numbers of a box mean. None: whatever the agent's dialect speaks.
        address: Which view is meant when the call names none.

    Raises:
        ConfigError: The function cannot be described to a model.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        description: str | None = None,
        *,
        budget: ToolBudget | None = None,
        coordinates: Coordinates | None = None,
        address: Address = Address.FIRST,
    ) -> None:
        super().__init__(coordinates, address)
        if not callable(function):
            raise ConfigError(f"a tool is made from a function, not from a {type(function).__name__}")
        self.function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.budget = budget
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is no name for a tool: give one of letters, digits and _ (name=)")
        self.parameters = parameters_of(function, self.name)
        words = read_docstring(inspect.getdoc(function) or "").summary
        self.description = description or words or self.name.replace("_", " ")
        self._looks = {parameter.given for parameter in self.parameters} & {Given.BOX, Given.PICTURE}

    @classmethod
    def of(cls, function: Callable[..., Any], **options: Any) -> FunctionTool:
        """The function as a tool; a tool stays what it is. The options are those of the class."""
        return function if isinstance(function, FunctionTool) else cls(function, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    @property
    def schema(self) -> Mapping[str, Any]:
        properties = {
            parameter.name: self._described(parameter)
            for parameter in self.parameters
            if parameter.form is not None or parameter.given is Given.BOX
        }
        required = [parameter.name for parameter in self.parameters if parameter.required]
        if self._looks:
            properties.setdefault(INDEX_FIELD, index_schema())
        return function_schema(
            self.name, self.description, properties, *(name for name in required if name in properties)
        )

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Read the arguments, call the function, and make text and pictures of what it gives back."""
        try:
            given = await self._given(arguments, context)
        except (ArgumentFault, BoxError) as fault:
            return ToolResult(error=str(fault))
        return await as_result(await self._call(given), context.limits)

    async def _call(self, given: Mapping[str, Any]) -> Any:
        call = partial(self.function, **given)
        if inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(type(self.function).__call__):
            return await call()
        value = await in_own_thread(call, self.name)
        return await value if inspect.isawaitable(value) else value

    async def _given(self, arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        frame = self.frame(arguments, context) if self._looks and context.views else None
        given: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.given is Given.CONTEXT:
                given[parameter.name] = context
            elif parameter.given is Given.PICTURE:
                if frame is None:
                    raise BoxError(_NO_PICTURE)
                given[parameter.name] = await asyncio.to_thread(frame.pixels, frame.at(frame.angle).window)
            elif arguments.get(parameter.name) is not None:
                given[parameter.name] = self._read(parameter, arguments[parameter.name], frame)
            elif parameter.required:
                given[parameter.name] = self._read_null(parameter, arguments)
        return given

    def _read(self, parameter: Parameter, value: Any, frame: Frame | None) -> Any:
        if parameter.form is None:
            if frame is None:
                raise BoxError(_NO_PICTURE)
            return frame.read(parse_box(value), self.coordinates)
        try:
            return parameter.form.read(value)
        except ArgumentFault as fault:
            raise ArgumentFault(f"{parameter.name} must be {fault}, not {_brief(value)}.") from fault

    def _read_null(self, parameter: Parameter, arguments: Mapping[str, Any]) -> Any:
        if parameter.form is not None and parameter.name in arguments:
            return self._read(parameter, None, None)
        said = f"a box: [x1, y1, x2, y2] {UNITS[self.coordinates]}" if parameter.form is None else parameter.form.said
        raise ArgumentFault(f"{self.name} needs {parameter.name}: {said}.")

    def _described(self, parameter: Parameter) -> dict[str, Any]:
        if parameter.form is None:
            schema = box_schema(self.coordinates)
            described = f"{parameter.description.rstrip('.')}: {schema['description']}" if parameter.description else ""
            return {**schema, "description": described} if described else schema
        return (
            {**parameter.form.schema, "description": parameter.description}
            if parameter.description
            else dict(parameter.form.schema)
        )


@overload
def tool(function: Callable[..., Any], /) -> FunctionTool: ...


@overload
def tool(**options: Any) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(name="...", budget=ToolBudget(seconds=5))`.

    The options are those of `FunctionTool`.

    Raises:
        ConfigError: The function cannot be described to a model.
    """
    if function is None:
        return partial(FunctionTool.of, **options)
    return FunctionTool.of(function, **options)


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python will print
        return "that"
    return text if len(text) <= 60 else text[:57] + "..."
