"""Lets torchvision be imported beside a torch without CUDA. `vllm_environment.py` installs it as a module of start-up.

The wheel that pip finds without an extra index is linked to CUDA. Beside a CPU torch its library of operators is not
loaded, and as it registers shapes for two of them all the same, `import torchvision` dies with "operator
torchvision::nms does not exist". Their names are enough for the import; what processors of pictures use is Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

OPERATORS = ("nms", "qnms")
_kept: list[Any] = []
"""An operator's name is gone with the library that defines it."""


class BeforeTorchvision(MetaPathFinder):
    """Names the operators when torchvision is asked for, so that no other program pays for torch."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            define_operators()
        return None


def define_operators() -> None:
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in OPERATORS:
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _kept.append(library)


if __name__ != "__main__":
    sys.meta_path.insert(0, BeforeTorchvision())
