"""Visual tools that an agent may call: arguments in, pictures and words for the model out."""

from speceyes.tools.addressing import Address
from speceyes.tools.base import Tool, ToolContext, ToolResult
from speceyes.tools.budget import TOOL_BUDGET, ToolBudget, run_tool
from speceyes.tools.functions import FunctionTool, tool
from speceyes.tools.ocr import OcrTool
from speceyes.tools.python import PythonTool
from speceyes.tools.rotate import RotateTool
from speceyes.tools.zoom import ZoomTool

__all__ = [
    "TOOL_BUDGET",
    "Address",
    "FunctionTool",
    "OcrTool",
    "PythonTool",
    "RotateTool",
    "Tool",
    "ToolBudget",
    "ToolContext",
    "ToolResult",
    "ZoomTool",
    "run_tool",
    "tool",
]
