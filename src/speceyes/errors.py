"""Every error that SpecEyes raises on purpose.

    SpecEyesError
    ├── ConfigError            a setting, a file or a flag is wrong; retrying cannot help
    │   ├── CalibrationMismatch    a calibration made for something else was put before the gate
    │   └── SandboxUnavailable     nothing on this machine isolates code that a model wrote
    ├── InputError             the caller's data is wrong; retrying cannot help
    │   ├── ImageError             an image cannot be decoded, or breaks a limit
    │   ├── BoxError               a box names no usable part of its image
    │   └── DatasetError           a benchmark file is missing, damaged or doubled
    ├── SandboxError           a sandbox did not come up, or broke       retry may help
    └── EngineError            a model server did not give what was asked of it
        ├── EngineUnreachable      no connection, or it broke               retry helps
        │   └── EngineDown             it failed so often that it was not asked; carries `retry_after`
        ├── EngineTimeout          connected, but too slow                  retry may help
        │   └── DeadlineExceeded       the query's own time was up, whoever took it
        ├── EngineOverloaded       429 or 503; carries `retry_after`        retry helps
        ├── EngineRefused          any other 4xx: our request is wrong      retry cannot help
        └── EngineProtocolError    a reply that is not what the API says    retry may help

A class says which boundary broke, `retryable` whether the same call may work later, and an engine error's
`misconfigured` whether every other query would meet it too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speceyes.types import Usage


class SpecEyesError(Exception):
    """Base of all errors that SpecEyes raises on purpose."""

    retryable: bool = False


class ConfigError(SpecEyesError):
    """A setting, a configuration file or a command-line flag is wrong."""


class CalibrationMismatch(ConfigError):
    """A calibration does not fit the models, prompts, K, score or aggregate in use."""


class SandboxUnavailable(ConfigError):
    """Nothing on this machine isolates code that a model wrote, so it is not run. The message says what is missing."""


class InputError(SpecEyesError):
    """The caller's data is wrong."""


class ImageError(InputError):
    """An image cannot be decoded or breaks a limit."""


class BoxError(InputError):
    """A box names no usable part of its image. The message is fit for a model to read."""


class DatasetError(InputError):
    """A benchmark file is missing, damaged, or holds a row twice."""


class SandboxError(SpecEyesError):
    """A sandbox did not come up, or broke. What the code inside does is never an error but its outcome."""

    retryable = True


class EngineError(SpecEyesError):
    """A model server did not give what was asked of it.

    Args:
        message: What was wrong, and where.
        status: HTTP status, when there was a response.
        retry_after: Seconds that the server asked us to wait, when it said so.

    Attributes:
        attempts: Requests that were sent before this became the outcome; 0 where none was.
        unsent: Nothing was sent, for no slot of the server came free.
        spent: What calls before it took whose outcome is lost with it.
        body: The server's reply as it came, without our key, of a request that was passed on; else b"".
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.attempts = 1
        self.unsent = False
        self.spent: Usage | None = None
        self.body = b""

    @property
    def misconfigured(self) -> bool:
        """Whether the fault is in the set-up (URL, key, model's name, a limit) and not in this one query."""
        return False


class EngineUnreachable(EngineError):
    """No connection to the server could be made, or it broke before the answer was complete."""

    retryable = True


class EngineDown(EngineUnreachable):
    """The server was not asked, for its last calls failed. `retry_after`: when it will be."""


class EngineTimeout(EngineError):
    """The server took longer than the time-out allows."""

    retryable = True


class DeadlineExceeded(EngineTimeout):
    """A query was not answered within its deadline, waiting for its turn included. The message says what was done."""


class EngineOverloaded(EngineError):
    """The server answered 429 or 503."""

    retryable = True


class EngineRefused(EngineError):
    """The server answered another 4xx, or redirects: the request itself is wrong."""

    @property
    def misconfigured(self) -> bool:
        return self.status is not None and (self.status in (401, 403, 404) or self.status < 400)


class EngineProtocolError(EngineError):
    """The server's reply is not what the chat-completions API describes, or a 5xx."""

    retryable = True
