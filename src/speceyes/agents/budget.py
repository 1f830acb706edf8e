"""How much an agent run may spend before it is asked for its answer."""

from __future__ import annotations

from dataclasses import dataclass

from speceyes.errors import ConfigError
from speceyes.types import Finish

LEAST_TURN_TOKENS = 16
"""A turn with fewer tokens left than this is not begun: nothing useful fits."""

CLOSING_TOKENS = 256
"""What is kept back for the closing request unless a budget says otherwise."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one agent run. Whichever is reached first, one closing request asks for the answer.

    Attributes:
        max_turns: Turns in which the model may call tools; the closing request comes on top.
        max_tokens_per_turn: Generated tokens of one turn.
        max_tokens: Generated tokens of the whole run, the closing request included.
        max_seconds: Wall time after which no new turn begins. None: no limit. A turn under way is not cut.
        closing_tokens: Tokens of `max_tokens` that are kept back for the closing request.

    Raises:
        ConfigError: A limit is not positive, or nothing is left beside `closing_tokens`.
    """

    max_turns: int = 6
    max_tokens_per_turn: int = 1024
    max_tokens: int = 8192
    max_seconds: float | None = None
    closing_tokens: int = CLOSING_TOKENS

    def __post_init__(self) -> None:
        for field in ("max_turns", "max_tokens_per_turn", "max_tokens", "closing_tokens"):
            if getattr(self, field) < 1:
                raise ConfigError(f"Budget.{field} is {getattr(self, field)}; it must be at least 1.")
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise ConfigError(f"Budget.max_seconds is {self.max_seconds}; it must be above 0, or None.")
        if self.closing_tokens >= self.max_tokens:
            raise ConfigError(
                f"Budget.max_tokens ({self.max_tokens}) must be above closing_tokens ({self.closing_tokens})."
            )

    def turn_tokens(self, spent: int) -> int:
        """Tokens that the next turn may generate after `spent` were; 0 where the turn must not begin."""
        left = self.max_tokens - self.closing_tokens - spent
        tokens = min(self.max_tokens_per_turn, left)
        return tokens if tokens >= min(LEAST_TURN_TOKENS, self.max_tokens_per_turn) else 0

    def exhausted(self, *, turns: int, spent: int, seconds: float) -> Finish | None:
        """The limit that forbids another turn after so many turns, tokens and seconds; None if none does."""
        if turns >= self.max_turns:
            return Finish.TURN_LIMIT
        if self.turn_tokens(spent) == 0:
            return Finish.TOKEN_LIMIT
        if self.max_seconds is not None and seconds >= self.max_seconds:
            return Finish.TIME_LIMIT
        return None
