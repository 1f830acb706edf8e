"""Ask one question about one image, and see who answered and why.

    python examples/ask_one.py [IMAGE QUESTION]

The nano pair answers, unless a speceyes.toml beside you names other models. It knows sign scenes only; without
arguments the script makes one.
"""

import asyncio
import sys

from speceyes import Query, load_image, load_settings, open_funnel
from speceyes.evals.datasets.scenes import draw_scene, make_scene


async def main(image: str, question: str) -> None:
    async with open_funnel(load_settings()) as funnel:
        answer = await funnel.answer(Query(question, (load_image(image),)))

    print(f"{question} {answer.text}")
    print(f"from the {answer.route}: {answer.reason}, in {answer.trace.seconds:.2f} s")
    if verdict := answer.trace.verdict:
        print(f"score {verdict.score}, threshold {verdict.threshold}")
    for turn in answer.trace.run.turns if answer.trace.run else ():
        for crop in turn.crops:
            edges = ", ".join(f"{edge:.0f}" for edge in crop.box)
            print(f"looked closer at [{edges}] of image {crop.image}: {crop.label}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        asyncio.run(main(sys.argv[1], sys.argv[2]))
    else:
        scene = make_scene(seed=7)
        draw_scene(scene).save("scene.png")
        asyncio.run(main("scene.png", f"What digit is on the {scene.signs[0].color} sign?"))
