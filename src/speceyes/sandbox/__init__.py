"""Sandboxes for code that a model wrote. It never runs in this process, and not at all where nothing isolates it.

    provider.open(images) --> Session.run(code) --> Outcome: text, pictures, or what went wrong
                                    |
          host: session.py          |  length-prefixed JSON over two pipes
    --------------------------------+------------------------------------------------------------
          sandbox: inside/keeper.py (process 1) --> inside/interpreter.py, where the code runs

`bubblewrap.py` and `container.py` say how such a sandbox is launched and ended, and what they do not cover.
`conformance/` attacks them.
"""

from speceyes.sandbox.base import (
    Availability,
    FileNote,
    Limits,
    Outcome,
    Picture,
    Provider,
    Session,
    image_path,
)
from speceyes.sandbox.bubblewrap import Bubblewrap
from speceyes.sandbox.container import Container
from speceyes.sandbox.providers import choose_provider, known_providers, limits_of

__all__ = [
    "Availability",
    "Bubblewrap",
    "Container",
    "FileNote",
    "Limits",
    "Outcome",
    "Picture",
    "Provider",
    "Session",
    "choose_provider",
    "image_path",
    "known_providers",
    "limits_of",
]
