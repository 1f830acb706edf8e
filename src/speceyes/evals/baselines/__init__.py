"""The systems that are compared, all on the same engines: SpecEyes, its two models alone, and what could stand in
their place.

    agent, draft, speceyes              `funnelled`: through the funnel itself
    no-screen, no-gate, draft-screen    `left_out`
    random, oracle                      `random_gate`, `oracle_gate`
    specreason                          `spec_reason`
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from speceyes.errors import ConfigError
from speceyes.evals.baselines.funnelled import agent_alone, draft_alone, spec_eyes
from speceyes.evals.baselines.left_out import draft_screen, no_gate, no_screen
from speceyes.evals.baselines.models import Models
from speceyes.evals.baselines.oracle_gate import oracle_gate
from speceyes.evals.baselines.random_gate import draw, random_gate
from speceyes.evals.baselines.spec_reason import SpecReason
from speceyes.evals.systems import System, SystemName

__all__ = ["Models", "draw", "make_system", "system_names"]

ALL = "all"

_FUNNELLED: Mapping[SystemName, Callable[[Models, int], System]] = {
    SystemName.AGENT: agent_alone,
    SystemName.DRAFT: draft_alone,
    SystemName.SPECEYES: spec_eyes,
}
_OTHERS: Mapping[SystemName, Callable[[Models], System]] = {
    SystemName.SPECREASON: SpecReason,
    SystemName.ORACLE: oracle_gate,
    SystemName.NO_SCREEN: no_screen,
    SystemName.NO_GATE: no_gate,
    SystemName.DRAFT_SCREEN: draft_screen,
}


def make_system(name: SystemName, models: Models, places: int, drawn: Collection[str] = ()) -> System:
    """A system by its name.

    Args:
        name: Which.
        models: The pair.
        places: The most queries that will be under way at a time.
        drawn: What the random gate accepts, from `draw`.

    Raises:
        CalibrationMismatch: The calibration was made for other models, prompts, or another K.
    """
    if name is SystemName.RANDOM:
        return random_gate(models, drawn)
    return _FUNNELLED[name](models, places) if name in _FUNNELLED else _OTHERS[name](models)


def system_names(text: str) -> tuple[SystemName, ...]:
    """The systems that a comma-separated list names, each once, in the list's order; `all` names all of them.

    Raises:
        ConfigError: There is no such system, or none is named.
    """
    words = [word.strip() for word in text.split(",") if word.strip()]
    known = [name.value for name in SystemName]
    if not words:
        raise ConfigError(f"no system is named. There are {', '.join(known)}, and {ALL}.")
    if wrong := [word for word in words if word not in known and word != ALL]:
        raise ConfigError(f"{', '.join(wrong)}: there is no such system. There are {', '.join(known)}, and {ALL}.")
    named: Sequence[str] = [name for word in words for name in (known if word == ALL else [word])]
    return tuple(dict.fromkeys(map(SystemName, named)))
