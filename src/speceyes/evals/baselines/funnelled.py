"""The funnel itself, and each of its two ways out alone: agent, draft, and SpecEyes.

All three go through `Funnel`, so what is measured is what is shipped. A race keeps as many queries under way for each
system as for any other; the funnel's slots are so many that no query waits in it for a second time.
"""

from __future__ import annotations

from speceyes.evals.baselines.models import Models
from speceyes.evals.systems import Question, Reply, SystemName
from speceyes.funnel import Funnel
from speceyes.scheduling import planner_of
from speceyes.types import Query, Route


class Funnelled:
    """The funnel; with a route, the answer of that model whatever the gate would say.

    Args:
        name: As which system it stands in the results.
        models: The pair.
        places: The most queries that will be under way at a time.
        route: Who is to answer. None: the funnel decides.

    Raises:
        CalibrationMismatch: The calibration was made for other models, prompts, or another K.
    """

    def __init__(self, name: SystemName, models: Models, places: int, route: Route | None = None) -> None:
        self.name = name
        self._route = route
        self._funnel = Funnel(
            models.draft,
            models.agent,
            models.calibration,
            stateless=places,
            loops=places,
            planner=planner_of(models.plan),
        )

    async def answer(self, query: Query, question: Question) -> Reply:
        """Answer a query."""
        return Reply.of(await self._funnel.answer(query, by=self._route))


def agent_alone(models: Models, places: int) -> Funnelled:
    """The agent's tool loop for every query: no screening, no draft."""
    return Funnelled(SystemName.AGENT, models, places, Route.AGENT)


def draft_alone(models: Models, places: int) -> Funnelled:
    """The draft model's answer for every query. It is scored, and stands whatever its score."""
    return Funnelled(SystemName.DRAFT, models, places, Route.DRAFT)


def spec_eyes(models: Models, places: int) -> Funnelled:
    """The funnel as it is shipped."""
    return Funnelled(SystemName.SPECEYES, models, places)
