"""In the place of a sandbox, for checks of a dialect: it looks at code, and runs none of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from speceyes.agents.dialects import DIALECTS, Dialect, make_dialect
from speceyes.agents.dialects.forms import PYTHON
from speceyes.imaging.geometry import Coordinates
from speceyes.tools.addressing import function_schema
from speceyes.tools.base import ToolContext, ToolResult
from speceyes.tools.zoom import ZoomTool

_CROP = re.compile(r"image_1\.crop\(\(([^()]*)\)\)")
_RAISED = re.compile(r"^raise (\w+)\(\"([^\"]*)\"\)", re.MULTILINE)
_PRINTED = re.compile(r"^print\(\"([^\"]*)\"\)", re.MULTILINE)


class StandInPython:
    """Knows `image_1.crop((..))`, `print("..")` and `raise Error("..")` when it sees them. Runs nothing."""

    name = PYTHON
    schema: Mapping[str, Any] = function_schema(PYTHON, "Run code.", {"code": {"type": "string"}}, "code")

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        code = str(arguments["code"])
        if raised := _RAISED.search(code):
            return ToolResult(error=": ".join(raised.groups()))
        printed = "\n".join(_PRINTED.findall(code))
        if box := _CROP.search(code):
            zoom = ZoomTool(coordinates=Coordinates.ORIGINAL)
            shown = await zoom.run({"bbox_2d": box.group(1).split(",")}, context)
            return ToolResult(printed, shown.views, shown.error)
        return ToolResult(printed)


def dialect_to_check(name: str, **options: Any) -> Dialect:
    """The dialect, with a stand-in where its models' code would be run.

    Raises:
        ConfigError: As `make_dialect`.
    """
    if getattr(DIALECTS.get(name), "needs_sandbox", False):
        options = {"toolbox": [StandInPython()], **options}
    return make_dialect(name, **options)
