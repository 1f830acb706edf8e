"""Put another score before the draft: look at recorded log-probs first, then gate by what they tell.

    python examples/own_gate.py [COUNT]

The draft is asked once for each question. From its tokens every score is computed, in one pass, without a model. Then a
funnel runs with a gate of our own: the margin between the first two candidates, at a threshold set by hand.
"""

import asyncio
import io
import random
import sys

from speceyes.config import load_settings
from speceyes.evals.datasets.questions import Kind, ask_any
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.funnel import Funnel
from speceyes.gating import SCORES, AnswerTable, Calibration
from speceyes.imaging import decode
from speceyes.imaging.looks import look
from speceyes.phases import DraftModel, speculate
from speceyes.types import Draft, Query
from speceyes.wiring import open_agent, open_draft


def ask(seed: int) -> Query:
    scene = make_scene(seed)
    question = ask_any(random.Random(seed), scene, Kind.DIGIT)
    assert question is not None
    png = io.BytesIO()
    draw_scene(scene).save(png, "PNG")
    return Query(question.prompt, (decode(png.getvalue()),), id=str(seed))


async def record(query: Query, draft: DraftModel) -> Draft:
    return await speculate(query, await look(query.images, draft.limits), draft)


async def main(count: int) -> None:
    settings = load_settings()
    queries = [ask(seed) for seed in range(count)]
    async with open_draft(settings) as draft, open_agent(settings) as agent:
        drafts = await asyncio.gather(*(record(query, draft) for query in queries))

        table = AnswerTable.of([answer.tokens for answer in drafts])
        for score in SCORES.values():
            values = table.score(score.name, 64, score.aggregates[0]).values
            print(f"{score.name:22}", " ".join(f"{value:8.3f}" for value in values[:8]))

        by_margin = Calibration.manual(2.0, score="margin", k=8, notes="two nats: the first is 7.4 times as probable")
        funnel = Funnel(draft, agent, by_margin)
        for answer in await funnel.answer_many(queries):
            print(f"question {answer.query_id}: {answer.text!r} from the {answer.route} ({answer.reason})")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8))
