"""Ask many questions at once and watch them being answered.

    python examples/many_questions.py [COUNT]

`answer_many` lets each query move on as soon as it can; the funnel's slots bound how many are under way. The listener
is told of every phase, decision and answer as it happens.
"""

import asyncio
import io
import random
import sys
from collections import Counter

from rich.progress import Progress

from speceyes.config import load_settings
from speceyes.evals.datasets.questions import Kind, ask_any
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.events import Answered, Event, Failed
from speceyes.imaging import decode
from speceyes.types import Answer, Query
from speceyes.wiring import open_funnel


def ask(seed: int) -> tuple[Query, str]:
    """A question about a scene of its own, and the right answer."""
    scene, rng = make_scene(seed), random.Random(seed)
    question = ask_any(rng, scene, list(Kind)[seed % len(Kind)]) or ask_any(rng, scene, Kind.DIGIT)
    assert question is not None
    png = io.BytesIO()
    draw_scene(scene).save(png, "PNG")
    return Query(question.prompt, (decode(png.getvalue()),), id=f"scene {seed}"), question.gold


async def main(count: int) -> None:
    queries, gold = zip(*(ask(seed) for seed in range(count)), strict=True)
    with Progress(transient=True) as progress:
        bar = progress.add_task("questions", total=count)

        def listen(event: Event) -> None:
            if isinstance(event, Answered | Failed):
                progress.advance(bar)

        async with open_funnel(load_settings(), listen=listen) as funnel:
            outcomes = await funnel.answer_many(queries, return_exceptions=True)

    for query, outcome in zip(queries, outcomes, strict=True):
        if not isinstance(outcome, Answer):
            print(f"{query.id}: {outcome}")
    answers = [(outcome, right) for outcome, right in zip(outcomes, gold, strict=True) if isinstance(outcome, Answer)]
    correct = sum(answer.text.casefold() == right.casefold() for answer, right in answers)
    print(f"{len(answers)} of {count} questions answered, {correct} of them right")
    for reason, times in Counter(answer.reason for answer, _ in answers).most_common():
        print(f"{times:5}  {reason.route:5}  {reason}")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 16))
