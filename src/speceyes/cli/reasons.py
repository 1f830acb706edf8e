"""Why a query went where it went, in words for people."""

from __future__ import annotations

from collections.abc import Mapping

from speceyes.types import Reason

WHY: Mapping[Reason, str] = {
    Reason.ACCEPTED: "no tool would help, and the draft stands clearly apart from its rivals",
    Reason.ACCEPTED_CLOSER: "the draft model has looked closer by itself, and stands clearly apart from its rivals now",
    Reason.TOOL_WOULD_HELP: "the agent expects that a tool would help",
    Reason.SCREEN_UNREADABLE: "the agent's reply carries no probability for yes or no",
    Reason.SCREEN_FAILED: "the agent's server did not answer the screening question",
    Reason.DRAFT_FAILED: "the draft model's server did not answer",
    Reason.BELOW_THRESHOLD: "the draft does not stand apart enough",
    Reason.INFEASIBLE: "no threshold carries the guarantee",
    Reason.EMPTY_ANSWER: "no confidence, for the draft is empty",
    Reason.TRUNCATED_ANSWER: "no confidence, for the draft ran into its token limit",
    Reason.REPETITIVE_ANSWER: "no confidence, for the draft repeats itself",
    Reason.LOOK_FAILED: "no confidence, for the draft model named nothing to look at more closely",
    Reason.LOGPROBS_MISSING: "no confidence, for the server sent no log-probs",
    Reason.LOGPROBS_TOO_FEW: "no confidence, for there are fewer usable log-probs a token than the score needs",
    Reason.LOGPROBS_MISALIGNED: "no confidence, for the log-probs do not spell the answer",
    Reason.SCORE_UNDEFINED: "no confidence, for the score is not a finite number",
    Reason.SPECULATION_OFF: "the plan asks the agent at once",
    Reason.AGENT_FIRST: "the agent was done before the draft was checked",
    Reason.NO_IMAGE: "there is no image to speculate on",
    Reason.LATER_TURN: "the client is in the middle of the agent's loop",
    Reason.NEEDS_AGENT: "the request asks for something that a draft cannot give",
    Reason.OBSERVED: "the gateway only observes, so the agent answers",
    Reason.NOT_ROLLED_OUT: "the gateway speculates on a share of the requests, and this one is not in it",
    Reason.FORCED_DRAFT: "the draft's answer was asked for",
    Reason.FORCED_AGENT: "the agent's answer was asked for",
    Reason.AGENT_DOWN: "the agent is down, and the draft passed the stricter threshold for this case",
}
