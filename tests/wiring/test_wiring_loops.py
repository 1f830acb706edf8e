"""`funnel.loops`: a number, or found out."""

from __future__ import annotations

from typing import Any

import pytest

from scripted_funnel import agent_script
from speceyes.config import Settings, load_settings
from speceyes.engines.script import Reply
from speceyes.engines.scripted import ScriptedServer
from speceyes.errors import ConfigError
from speceyes.gateway.observe.gauges import Gauges
from speceyes.wiring import make_funnel, open_agent, open_draft


async def loops_of(**overrides: Any) -> Any:
    small, large = ScriptedServer(Reply("B"), models=["small"]), ScriptedServer(agent_script(), models=["large"])
    async with small, large:
        places = {"draft.url": small.url, "agent.url": large.url, "gate.threshold": 2.0}
        chosen = load_settings(env={}, overrides=places | overrides)
        async with open_draft(chosen) as draft, open_agent(chosen) as agent:
            return make_funnel(chosen, draft, agent).loops


async def test_a_number_is_a_number() -> None:
    loops = await loops_of(**{"funnel.loops": 5})
    assert (loops.limit, loops.capacity, loops.most) == (None, 5, 5)


async def test_auto_is_found_out_within_its_bounds() -> None:
    loops = await loops_of(**{"funnel.loops": "auto"})
    assert (loops.capacity, loops.most) == (8, Settings().funnel.max_loops)
    loops = await loops_of(**{"funnel.loops": "auto", "funnel.max_loops": 3})
    assert (loops.capacity, loops.most) == (3, 3)


async def test_the_gauge_shows_the_limit_as_it_stands() -> None:
    loops, gauges = await loops_of(**{"funnel.loops": "auto"}), Gauges()
    gauges.watch_pool("loops", loops)

    def capacity() -> float:
        (family,) = gauges.collect()
        (value,) = (sample.value for sample in family.samples if sample.labels["state"] == "capacity")
        return value

    assert capacity() == 8
    loops.limit.overloaded(now=1.0, began=0.0)
    assert capacity() == loops.report()["capacity"] == 6
    assert loops.report() == {"limit": "auto", "capacity": 6, "most": 64, "held": 0, "waiting": 0}


@pytest.mark.parametrize("given", [0, -1, 2.5, "many", ""])
def test_anything_else_is_one_error_that_says_what_is_allowed(given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(env={}, overrides={"funnel.loops": given})
    assert str(caught.value) == f'funnel.loops is {given!r}; it should be a whole number of at least 1, or "auto"'


def test_it_is_read_from_the_environment_like_any_other() -> None:
    assert load_settings(env={"SPECEYES_FUNNEL__LOOPS": "auto"}).funnel.loops == "auto"
    assert load_settings(env={"SPECEYES_FUNNEL__LOOPS": "12"}).funnel.loops == 12
