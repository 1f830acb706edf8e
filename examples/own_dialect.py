"""Teach SpecEyes how a model of your own speaks: one class, registered under a name.

    python examples/own_dialect.py

This model writes `LOOK left top right bottom` in thousandths, and `ANSWER ...`. A scripted server plays it. Its second
turn is wrong: the model is told so, and the run goes on. Where it is registered, funnel and gateway know the name too.
"""

import asyncio
import re

from PIL import Image

from speceyes import Agent
from speceyes.agents.dialects import DIALECTS, Call, DeepEyes, Final, Malformed, Prompts
from speceyes.engines.scripted import Reply, ScriptedServer
from speceyes.imaging import Coordinates


class Plain(DeepEyes):
    """What is not said here is as for DeepEyes: the zoom tool, how results go back, the limits."""

    name = "plain"
    coordinates = Coordinates.PER_MILLE
    prompts = Prompts(
        system="Write LOOK left top right bottom (0 to 1000) to see a part up close, and ANSWER when you know.",
        act="LOOK or ANSWER?",
        screen="Would LOOK help here? Reply yes or no.",
        reminder="Here it is. LOOK or ANSWER?",
        closing="Write ANSWER now.",
        retry="LOOK or ANSWER?",
    )

    def parse(self, completion):
        if look := re.search(r"LOOK((?: +-?[\d.]+){4})", completion.text):
            return Call("image_zoom_in_tool", {"bbox_2d": [float(number) for number in look[1].split()]})
        if answer := re.search(r"ANSWER +(.+)", completion.text):
            return Final(answer[1].strip())
        return Malformed("Write LOOK and four numbers, or ANSWER and the answer.")

    def closing_answer(self, completion):
        said = self.parse(completion)
        return said if isinstance(said, Final) else Final(completion.text.strip(), tagged=False)


DIALECTS["plain"] = Plain


async def main() -> None:
    script = [Reply("I see a van. LOOK 500 250 750 500"), Reply("LOOK there"), Reply("It is red.\nANSWER red")]
    async with ScriptedServer(script) as server, Agent(server.url, dialect="plain") as agent:
        answer = await agent.answer("What colour is the van?", Image.new("RGB", (1600, 800), "red"))
    for turn in answer.turns:
        print(f"{turn.text!r}: {turn.error or [crop.box for crop in turn.crops]}")
    print(answer.text, answer.finish)


if __name__ == "__main__":
    asyncio.run(main())
