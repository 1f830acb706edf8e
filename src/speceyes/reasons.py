"""Who answered, and why: one value per query, which header, metric, record and page all read."""

from __future__ import annotations

from enum import StrEnum


class Route(StrEnum):
    """Who gave the answer."""

    DRAFT = "draft"
    AGENT = "agent"


class Reason(StrEnum):
    """Why a query went where it went. One value per query; the route follows from it."""

    ACCEPTED = "accepted"
    """No tool would help, and the draft's answer stands clearly apart from its rivals."""
    ACCEPTED_CLOSER = "accepted_closer"
    """No glance was enough, but the draft model has looked closer by itself, and its answer then stands apart."""
    TOOL_WOULD_HELP = "tool_would_help"
    """Phase I: the agent expects that a tool would help."""
    SCREEN_UNREADABLE = "screen_unreadable"
    """Phase I: the reply carries no probability for yes or for no."""
    SCREEN_FAILED = "screen_failed"
    """Phase I: the agent's server did not answer the screening question."""
    DRAFT_FAILED = "draft_failed"
    """Phase II: the draft model's server did not answer."""
    BELOW_THRESHOLD = "below_threshold"
    """Phase III: the answer's score is under the calibrated threshold."""
    INFEASIBLE = "infeasible"
    """Phase III: no threshold carries the guarantee, by the calibration or by the standing audit."""
    EMPTY_ANSWER = "empty_answer"
    """Phase III, no confidence: the draft has no answer token."""
    TRUNCATED_ANSWER = "truncated_answer"
    """Phase III, no confidence: the draft ran into its token limit."""
    REPETITIVE_ANSWER = "repetitive_answer"
    """Phase III, no confidence: the draft repeats itself."""
    LOOK_FAILED = "look_failed"
    """Phase III, no confidence: the draft model was to look closer, and named no part of the image."""
    LOGPROBS_MISSING = "logprobs_missing"
    """Phase III, no confidence: the server sent no log-probs, or none for some answer token."""
    LOGPROBS_TOO_FEW = "logprobs_too_few"
    """Phase III, no confidence: fewer usable log-probs per token than the calibration's K (or than 3)."""
    LOGPROBS_MISALIGNED = "logprobs_misaligned"
    """Phase III, no confidence: the log-probs do not spell the answer's text."""
    SCORE_UNDEFINED = "score_undefined"
    """Phase III, no confidence: the score is not a finite number (rivals without any spread)."""
    SPECULATION_OFF = "speculation_off"
    """The plan asked the agent at once."""
    AGENT_FIRST = "agent_first"
    """A hedged plan: the agent was done before phases I to III were."""
    NO_IMAGE = "no_image"
    """There is nothing to look at, so nothing to speculate on."""
    LATER_TURN = "later_turn"
    """Transparent mode: the client runs the agent's loop itself and is in the middle of it."""
    NEEDS_AGENT = "needs_agent"
    """Transparent mode: the request asks for something that a draft cannot give."""
    OBSERVED = "observed"
    """The gateway only observes: the agent answers, whatever phases I to III would have said."""
    NOT_ROLLED_OUT = "not_rolled_out"
    """The gateway speculates on a share of the requests, and this one is not in it."""
    FORCED_DRAFT = "forced_draft"
    """The caller asked for the draft's answer, whatever the gate says of it."""
    FORCED_AGENT = "forced_agent"
    """The caller asked for the agent's answer."""
    AGENT_DOWN = "agent_down"
    """The agent's server is down, and the draft passed the stricter threshold that is set for this case."""

    @property
    def route(self) -> Route:
        """Who answers for this reason."""
        return Route.DRAFT if self in _BY_DRAFT else Route.AGENT

    @property
    def by_gate(self) -> bool:
        """Whether the gate has passed the draft that answers."""
        return self in _BY_GATE


_BY_GATE = frozenset({Reason.ACCEPTED, Reason.ACCEPTED_CLOSER})
_BY_DRAFT = _BY_GATE | frozenset({Reason.FORCED_DRAFT, Reason.AGENT_DOWN})
