"""Let Thyme write code about an image, and run it where it can do no harm.

    python examples/thyme_in_a_sandbox.py http://127.0.0.1:8002 street.jpg "What does the sign over the door say?"

Without arguments the nano agent answers, which has learned to write such code about scenes of signs. It needs
bubblewrap (`apt install bubblewrap`), Docker or Podman, and refuses to run code without.
"""

import asyncio
import sys

from speceyes import Agent, AgentAnswer
from speceyes.evals.datasets.scenes import draw_scene, make_scene


def show(answer: AgentAnswer) -> None:
    for turn in answer.turns:
        if turn.tool:
            code = [line for line in turn.text.splitlines() if line.startswith("image.")]
            print(f"turn {turn.index}: {turn.tool} ran {code}, which printed {turn.observation.splitlines()}")
    print(answer.text, "after pictures of", *(f"{view.size[0]} x {view.size[1]}" for view in answer.views))


async def main(arguments: list[str]) -> None:
    if len(arguments) == 3:
        async with Agent(arguments[0], dialect="thyme") as agent:
            show(await agent.answer(arguments[2], arguments[1]))
    else:
        scene = draw_scene(make_scene(seed=7))
        async with Agent.nano(dialect="thyme") as agent:
            show(await agent.answer("What digit is on the blue sign?", scene))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
