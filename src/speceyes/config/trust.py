"""The section `trust`: how far drafts are trusted, by whom first, and how that is watched."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from speceyes.config.section import Count, FilePath, Section, Text

OpenShare = Annotated[float, Field(gt=0, lt=1)]
Percent = Annotated[float, Field(ge=0, le=100)]


def _pairs(given: object) -> object:
    """A table may be one line, `NAME=PERCENT,NAME=PERCENT`, as in the environment."""
    if not isinstance(given, str):
        return given
    pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ValueError("percentages by key are written as NAME=PERCENT,NAME=PERCENT")
    return {name.strip(): percent.strip() for name, _, percent in pairs}


class TrustSettings(Section):
    """How far drafts are trusted, and how that is watched."""

    mode: Literal["observe", "enforce", "audit"] = "enforce"
    """`observe`: the agent always answers; what the gate would have said is found out beside it and only noted.
    `enforce`: an accepted draft is the answer. `audit`: the same, and a share of the accepted requests also goes to the
    agent, in the background; where the promise no longer stands, the gate is tightened."""

    rollout: Percent = 100.0
    """Percent of the requests that are speculated on at all; the agent answers the others."""
    rollout_by: Literal["user", "key", "request"] = "user"
    """What a draw is made for, always with the same outcome. `user`: the request's `user`; where it names none, each
    request by itself. `key`: an API key with all of its requests. `request`: each by itself."""
    rollout_keys: Annotated[dict[Text, Percent], BeforeValidator(_pairs)] = Field(default_factory=dict)
    """Other percentages for single API keys, by their names. In the environment: `team-a=100,team-b=0`."""

    observe_at_once: Count = 4
    """Requests on which we speculate beside the agent at a time, under `observe`."""
    drain_s: Annotated[float, Field(ge=0)] = 5.0
    """Seconds that what runs beside the requests gets when the gateway stops. Audits that are late count as missing."""

    audit_alpha: OpenShare | None = None
    """The greatest share of accepted drafts that may differ from the agent's answer. None: what the calibration
    promises of disagreement; where it promises nothing, an audit needs this."""
    audit_delta: OpenShare | None = None
    """The greatest probability of a false alarm, ever. None: the calibration's, or 0.05."""
    audit_share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """Share of the accepted requests that also go to the agent."""
    audits_at_once: Count = 2
    """Audits under way at a time. A request that is drawn beyond them is not audited, which is counted."""
    audits_per_hour: Count | None = None
    """Audits in any hour. None: no limit but the others."""
    audit_on_change: Literal["tighten", "warn"] = "tighten"
    """What follows when the change detector raises its alarm, which is faster than the test's and promises less."""
    audit_on_missing: Literal["skip", "loss"] = "skip"
    """What an audit counts as in which the agent failed."""
    audit_state: FilePath | None = None
    """File of the audit's state, of one gateway process; `speceyes audit show FILE` reads it. Other modes only read it:
    a gate that was tightened stays so. None: `~/.local/state/speceyes/audit.json`."""

    @property
    def draft_calls(self) -> int:
        """Calls of the draft that may be under way beside those of the requests."""
        return self.observe_at_once if self.mode == "observe" else 0

    @property
    def agent_calls(self) -> int:
        """The same of the agent."""
        return {"observe": self.observe_at_once, "enforce": 0, "audit": self.audits_at_once}[self.mode]
