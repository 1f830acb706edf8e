"""Tools made from ordinary Python functions: schema from the type hints, words from the docstring."""

from speceyes.tools.functions.tool import FunctionTool, tool

__all__ = ["FunctionTool", "tool"]
