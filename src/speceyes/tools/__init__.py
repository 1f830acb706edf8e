"""Visual tools that an agent may call: arguments in, pictures and words for the model out."""

from speceyes.tools.base import Tool, ToolContext, ToolResult
from speceyes.tools.zoom import Address, ZoomTool

__all__ = ["Address", "Tool", "ToolContext", "ToolResult", "ZoomTool"]
