"""The model names that clients may ask for."""

from __future__ import annotations

from collections.abc import Mapping

from speceyes.errors import ConfigError
from speceyes.gateway.wire.errors import unknown_model
from speceyes.types import Route

FUNNEL = "speceyes"
BUILT_IN: Mapping[str, Route | None] = {
    FUNNEL: None,
    f"{FUNNEL}/agent": Route.AGENT,
    f"{FUNNEL}/draft": Route.DRAFT,
}
"""The funnel decides, or one of the two answers whatever the funnel would say."""


class Names:
    """The built-in names and their aliases.

    Args:
        aliases: Further names, and which built-in name each stands for.

        dialect: The text dialect of the agent, for clients that run its loop themselves and send no tools: they ask
            for `speceyes/transparent-` and its name. None: there is none.

    Raises:
        ConfigError: An alias stands for no built-in name, or is one.
    """

    def __init__(self, aliases: Mapping[str, str] | None = None, dialect: str | None = None) -> None:
        self.dialect = dialect
        text = f"{FUNNEL}/transparent-{dialect}"
        built_in = {**BUILT_IN, text: None} if dialect else dict(BUILT_IN)
        self._routes, self._texts = dict(built_in), {text}
        for alias, name in (aliases or {}).items():
            if name not in built_in or alias in built_in or not alias:
                raise ConfigError(
                    f"serve.aliases: {alias!r} = {name!r}: an alias is a new name for one of {', '.join(built_in)}"
                )
            self._routes[alias] = built_in[name]
            self._texts |= {alias} if name == text else set()

    @property
    def all(self) -> tuple[str, ...]:
        """In the order in which they are listed."""
        return tuple(self._routes)

    def dialect_of(self, name: str) -> str | None:
        """The text dialect that clients read who ask for this name; None where the name does not say."""
        return self.dialect if name in self._texts else None

    def route(self, name: str) -> Route | None:
        """The route that a name forces; None where the funnel decides.

        Raises:
            ApiError: 404, there is no such name.
        """
        if name not in self._routes:
            raise unknown_model(name, self._routes)
        return self._routes[name]
