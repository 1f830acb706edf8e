"""Let DeepEyes answer in its own tool loop, and watch it look: `speceyes.Agent`, without the funnel.

    vllm serve path/to/DeepEyes-7B --port 8002 --limit-mm-per-prompt '{"image": 12, "video": 0}'
    python examples/deepeyes_on_vllm.py http://127.0.0.1:8002 street.jpg "What does the sign over the door say?"

Without arguments the nano agent, which speaks the same dialect, answers about a scene that the script draws.
"""

import asyncio
import sys

from speceyes import Agent, AgentAnswer
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.events import TextStreamed
from speceyes.wiring.agent import ToolRan


async def ask(agent: Agent, image: object, question: str) -> None:
    print(question)
    async for event in agent.stream(question, image):
        match event:
            case TextStreamed(kind="thought", text=text):
                print(text, end="", flush=True)
            case ToolRan(error=None, views=views):
                for view in views:
                    left, top, right, bottom = (round(edge) for edge in view.region.as_tuple())
                    print(f"\n[looks at {left}, {top}, {right}, {bottom} of the original]")
            case ToolRan(error=error):
                print(f"\n[is told: {error}]")
            case AgentAnswer() as answer:
                tokens = answer.usage.completion_tokens
                print(f"\n{answer.text} ({answer.finish} after {len(answer.turns)} turns, {tokens} tokens)")


async def main(arguments: list[str]) -> None:
    if len(arguments) == 3:
        url, image, question = arguments
        async with Agent(url, dialect="deepeyes") as agent:
            await ask(agent, image, question)
    else:
        scene = make_scene(seed=2)
        sign = next(sign for sign in scene.signs if sign.small)
        async with Agent.nano() as agent:
            await ask(agent, draw_scene(scene), f"What digit is on the {sign.color} sign?")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
