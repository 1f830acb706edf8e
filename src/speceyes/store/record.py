"""What is kept of one request: numbers always, words only if somebody asked for them, pictures never."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from speceyes.types import Token, Usage

CLIENT_GONE = 499
"""The status of a request whose client went away before it had its answer. Not in HTTP, but widely read (nginx)."""


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What may be said of an image without showing it.

    Attributes:
        sha256: Hex digest of the file's bytes.
        format: As the decoder names it: `JPEG`, `PNG`, ...
        bytes: Size of the file.
        width: In pixels, upright.
        height: In pixels, upright.
    """

    sha256: str
    format: str
    bytes: int
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request to the gateway, when it is over.

    Attributes:
        id: The request's id, as the client was told it. A second record of the same id is not stored.
        created: When the request came, in seconds since 1970 (UTC).
        key: Name of the API key; None without one. The key itself is never here.
        model: The name that was asked for.
        streamed: Whether the answer was asked for as a stream.
        status: The HTTP status that the client got; `CLIENT_GONE` where it did not wait.
        error: Class of the error that ended the request; None if none did.
        trust: `enforce` (an accepted draft was the answer) or `observe` (the agent answered whatever the gate said).
        route: `draft` or `agent`; None where nobody answered. So is `reason`, a `speceyes.types.Reason`.
        reason: Why the request went where it went.
        verdict: What phases I to III said, which under `observe` is not what was done. None where they did not end.
        score: Of the draft; None where there is no confidence, or no draft. So are `squashed` and `threshold`.
        squashed: The score on (0, 1), where it has such a form.
        threshold: What the score was held against.
        p_yes: Phase I: probability of "a tool would help"; None without a screening.
        p_no: Phase I: probability of the opposite.
        draft_tokens: The draft's answer tokens with their K largest log-probs; without their texts unless content is
            kept. Shape: tokens.
        draft_fault: Why the draft's tokens cannot be scored (a `Reason`); None where they can, or without a draft.
        agrees: Whether draft and agent state the same answer; None where one is missing, or nobody compared.
        question: The user's text. None unless content is kept; so are the two texts below.
        draft_text: What the draft model answered.
        agent_text: What the agent answered.
        agent_depth: Tool calls of the agent's run; None without one.
        agent_finish: How the agent's run ended (`speceyes.types.Finish`).
        usage: Tokens by model, refused drafts and screening included.
        phase_usage: Tokens by phase: `screen`, `speculate`, `fall_back`; those that were complete.
        seconds: From the request's arrival to its end.
        first_token_s: From its arrival to the first words sent; None where nothing was streamed.
        phase_seconds: By phase, waiting for a slot included; those that ran.
        images: In the order of the request.
        user: The request's `user`.
        metadata: The request's `metadata`.
        audited: Whether an accepted draft also went to the agent, to be compared. The outcome comes later.
        audit_seconds: What that took.
        setup: Models and prompts that a calibration is bound to, by the names of `Calibration`.
    """

    id: str
    created: float
    model: str
    status: int
    key: str | None = None
    streamed: bool = False
    error: str | None = None
    trust: str = "enforce"
    route: str | None = None
    reason: str | None = None
    verdict: str | None = None
    score: float | None = None
    squashed: float | None = None
    threshold: float | None = None
    p_yes: float | None = None
    p_no: float | None = None
    draft_tokens: tuple[Token, ...] = ()
    draft_fault: str | None = None
    agrees: bool | None = None
    question: str | None = None
    draft_text: str | None = None
    agent_text: str | None = None
    agent_depth: int | None = None
    agent_finish: str | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)
    phase_usage: Mapping[str, Usage] = field(default_factory=dict)
    seconds: float = 0.0
    first_token_s: float | None = None
    phase_seconds: Mapping[str, float] = field(default_factory=dict)
    images: tuple[ImageFacts, ...] = ()
    user: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    audited: bool = False
    audit_seconds: float | None = None
    setup: Mapping[str, str] = field(default_factory=dict)

    @property
    def time(self) -> datetime:
        """`created` as a moment in UTC."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def help_probability(self) -> float | None:
        """Phase I's estimate that a tool would help; None where it could not be read."""
        total = (self.p_yes or 0.0) + (self.p_no or 0.0)
        return (self.p_yes or 0.0) / total if total > 0 else None


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What an audit found about a request whose record is already written, or on its way.

    Attributes:
        id: The request's id.
        agrees: Whether draft and agent state the same answer; None where the agent gave none.
        seconds: What the agent's run took.
        agent_text: What the agent answered; None unless content is kept.
        agent_depth: Tool calls of its run.
        agent_finish: How it ended.
        usage: What the run cost, by model; it is added to the record's.
    """

    id: str
    agrees: bool | None
    seconds: float
    agent_text: str | None = None
    agent_depth: int | None = None
    agent_finish: str | None = None
    usage: Mapping[str, Usage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """Which records are meant; None means all.

    Attributes:
        since: Not older than this, in seconds since 1970. So `until`, exclusive.
        until: Older than this.
        route: Of one route. So the others.
        reason: Of one reason.
        status: Of one HTTP status.
        key: Of one API key, by its name.
        trust: `enforce` or `observe`.
        audited: Audited or not.
    """

    since: float | None = None
    until: float | None = None
    route: str | None = None
    reason: str | None = None
    status: int | None = None
    key: str | None = None
    trust: str | None = None
    audited: bool | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long records are kept; None means without a limit.

    Attributes:
        max_age_s: Older records are deleted.
        max_records: Of more records than these the oldest are deleted.
    """

    max_age_s: float | None = None
    max_records: int | None = None


EVERYTHING = Selection()
KEEP_ALL = Retention()
