"""Speculation for clients that run the agent's loop themselves: its gate, its words, and what its drafts look like.

A threshold is found on the answers of one agent, one draft and the words said to both. Here the agent's words are the
client's, whom we do not know. So the threshold is never taken over in silence from the gateway's own loop:

- `transparent.calibration` names one. Made for such clients (their records name the same words as `setup` here), it
  carries its guarantee; made for the gateway's own words, it is used with a warning and promises nothing.
- A threshold set by hand promises nothing anyway; `transparent.enabled = true` is enough for it.
- The nano pair brings its calibration along. Its agent knows one wording only; a client that uses it, as the dialect's
  prompts have it, says to both models what the gateway's own loop says, and the calibration holds for it as it stands.
- Else nothing is speculated, and all requests pass to the agent.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from speceyes.config import Settings, TransparentSettings
from speceyes.errors import ConfigError
from speceyes.funnel import Funnel
from speceyes.gateway.templates import TEMPLATES, TextForm
from speceyes.gating import Calibration, fingerprint
from speceyes.phases.gate import in_use
from speceyes.wiring import find_calibration
from speceyes.wiring.funnel import make_agent_dialect

_log = logging.getLogger(__name__)

NATIVE = "tools"
"""Clients that send tools and get native tool calls; the others go by their dialect's name."""

_THEIRS = ("screen_prompt", "agent_prompt")


@dataclass(frozen=True)
class Speculation:
    """What transparent mode speculates with.

    Attributes:
        funnel: Over the same models and places as the gateway's own, with this mode's threshold. None: it is off.
        form: The text of the agent's dialect; None where it has no template.
        screen: Asks the agent whether a tool would help.
        settings: The section `transparent`.
        setup: What a calibration for this mode is bound to; it stands in the records.
    """

    funnel: Funnel | None
    form: TextForm | None
    screen: str
    settings: TransparentSettings
    setup: Mapping[str, str]


def text_form(settings: Settings) -> TextForm | None:
    """The text of the agent's dialect. None where there is no template for it.

    Raises:
        ConfigError: `transparent.reply` does not fit the dialect.
    """
    if settings.agent.dialect in TEMPLATES:
        return TextForm(make_agent_dialect(settings.agent), settings.transparent.reply)
    if settings.transparent.reply is not None:
        raise ConfigError(f"transparent.reply: the agent's dialect, {settings.agent.dialect}, has no text form")
    return None


def client_calibration(settings: Settings) -> Calibration | None:
    """The calibration of this mode, by the rules above. None: it is off.

    Raises:
        ConfigError: It is damaged, or the mode is switched on with a calibration that was made for something else.
    """
    chosen = settings.transparent
    if chosen.enabled is False:
        return None
    if chosen.calibration is not None:
        return Calibration.load(chosen.calibration)
    if (settings.draft.is_nano and settings.agent.is_nano) or (chosen.enabled and settings.gate.threshold is not None):
        return find_calibration(settings)
    if chosen.enabled:
        raise ConfigError(
            "transparent.enabled: no threshold is known for clients that run the agent's loop in their own words. Name "
            "a calibration (transparent.calibration). The one of the section `gate` may be named too, but its "
            "guarantee is about the gateway's own words"
        )
    return None


def make_speculation(settings: Settings, funnel: Funnel) -> Speculation:
    """Put it together, over the models of the gateway's own funnel.

    Raises:
        ConfigError: As `client_calibration` and `text_form`; `CalibrationMismatch` where it is for other models.
    """
    chosen, calibration = settings.transparent, client_calibration(settings)
    prompts = funnel.agent.dialect.prompts
    screen = chosen.screen or prompts.screen
    theirs = {name: fingerprint("transparent", name, screen) for name in _THEIRS}
    setup = {**in_use(funnel.draft, funnel.agent), **theirs}
    if calibration is not None and chosen.calibration is not None:
        _warn_of_other_words(calibration, setup)
    mine = None if calibration is None else _funnel(settings, funnel, calibration)
    return Speculation(mine, text_form(settings), screen, chosen, setup)


def _funnel(settings: Settings, like: Funnel, calibration: Calibration) -> Funnel:
    """The same funnel with another threshold; it shares the other's places."""
    content = {name: getattr(calibration, name) for name in type(calibration).model_fields}
    funnel = Funnel(
        like.draft,
        like.agent,
        Calibration(**content | dict.fromkeys(_THEIRS)),
        listen=like.listen,
        retries=like.retries,
        stand_in_threshold=settings.funnel.draft_when_agent_down_threshold,
        planner=like.planner,
        strict=like.strict,
    )
    funnel.stateless, funnel.loops = like.stateless, like.loops
    return funnel


def _warn_of_other_words(calibration: Calibration, setup: Mapping[str, str]) -> None:
    bound = {name: getattr(calibration, name) for name in _THEIRS}
    if any(value is not None and value != setup[name] for name, value in bound.items()):
        _log.warning(
            "transparent.calibration was made for other words than those of clients that run the loop themselves: its "
            "threshold is used, but its guarantee does not cover them"
        )
