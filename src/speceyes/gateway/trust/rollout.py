"""Which requests are speculated on at all: a share of them, and always the same users, or keys."""

from __future__ import annotations

from speceyes.config import TrustSettings
from speceyes.gating.audit import is_chosen


class Rollout:
    """Draws requests by hash, so all gateways draw alike, and whoever is in stays in when the share grows.

    Args:
        settings: The share, and what is drawn for.
    """

    def __init__(self, settings: TrustSettings) -> None:
        self._percent, self._by, self._keys = settings.rollout, settings.rollout_by, settings.rollout_keys

    def includes(self, request_id: str, *, key: str | None = None, user: str | None = None) -> bool:
        """Whether a request is speculated on.

        Args:
            request_id: The request.
            key: Name of its API key; None without one.
            user: Its field `user`, if it has one.
        """
        percent = self._keys.get(key, self._percent) if key is not None else self._percent
        drawn = request_id
        if self._by == "key" and key is not None:
            drawn = f"key {key}"
        elif self._by == "user" and user:
            drawn = f"user {user} of {key}"
        return is_chosen(drawn, percent / 100, "rollout")
