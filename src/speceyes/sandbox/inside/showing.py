"""`show` of Matplotlib, Pillow and OpenCV: there is no window, so it saves a picture where the keeper finds it."""

from __future__ import annotations

import importlib.abc
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .folder import SHOWN

_PLAIN_MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "I", "I;16")
"""Of Pillow's pictures: those that a PNG can hold."""
_counter = itertools.count(1)


class Showing(importlib.abc.MetaPathFinder):
    """Changes the libraries when the code imports them, and costs nothing where it does not."""

    def __init__(self) -> None:
        self._changes: dict[str, Callable[[Any], None]] = {
            "matplotlib.pyplot": _matplotlib,
            "PIL.Image": _pillow,
            "cv2": _opencv,
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self._changes.get(name)
        if change is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Changed(spec.loader, change)
                return spec
        return None


class _Changed(importlib.abc.Loader):
    """A loader whose module is changed when it has been loaded."""

    def __init__(self, loader: Any, change: Callable[[Any], None]) -> None:
        self._loader, self._change = loader, change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


def _next() -> str:
    os.makedirs(SHOWN, exist_ok=True)
    return f"{SHOWN}/{next(_counter):06}-{os.getpid()}.png"


def _matplotlib(pyplot: Any) -> None:
    def show(*args: Any, **kwargs: Any) -> None:
        for number in pyplot.get_fignums():
            pyplot.figure(number).savefig(_next(), format="png")
            pyplot.close(number)

    pyplot.show = show


def _pillow(module: Any) -> None:
    def show(self: Any, *args: Any, **kwargs: Any) -> None:
        (self if self.mode in _PLAIN_MODES else self.convert("RGB")).save(_next(), format="PNG")

    module.Image.show = show


def _opencv(cv2: Any) -> None:
    def imshow(window: Any, picture: Any) -> None:
        cv2.imwrite(_next(), picture)

    def no_key(*args: Any, **kwargs: Any) -> int:
        return -1

    cv2.imshow = imshow
    cv2.setNumThreads(2)
    for name in ("waitKey", "namedWindow", "destroyWindow", "destroyAllWindows", "startWindowThread"):
        setattr(cv2, name, no_key)
