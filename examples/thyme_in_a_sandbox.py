"""Let Thyme write code about an image, and run it where it can do no harm.

    python examples/thyme_in_a_sandbox.py http://127.0.0.1:8002 street.jpg "What does the sign over the door say?"

Without arguments a scripted server plays the model: what it writes is fixed, but its code really runs in the sandbox.
It needs bubblewrap (`apt install bubblewrap`), Docker or Podman, and refuses to run code without.
"""

import asyncio
import sys

from PIL import Image

from speceyes import Agent, AgentAnswer
from speceyes.engines.scripted import Reply, ScriptedServer

LOOK = """<think>The sign is too small to read. I enlarge it. <code>
```python
from PIL import Image
image = Image.open("image_1.png")
sign = image.crop((1200, 200, 1300, 260)).resize((800, 480))
sign.save("sign.png")
print("sign.png")
```
</code>"""
FETCH = """<code>
```python
import socket
print("the middle is", sign.getpixel((400, 240)))
try:
    socket.create_connection(("example.org", 80), timeout=2)
except OSError:
    print("there is no network")
```
</code>"""
ANSWER = "The sign is red.</think>\n<answer>red</answer>"


def show(answer: AgentAnswer) -> None:
    for turn in answer.turns:
        if turn.tool:
            print(f"turn {turn.index}: {turn.tool} printed {turn.observation.splitlines()}")
    print(answer.text, "after pictures of", *(f"{view.size[0]} x {view.size[1]}" for view in answer.views))


async def main(arguments: list[str]) -> None:
    if len(arguments) == 3:
        async with Agent(arguments[0], dialect="thyme") as agent:
            show(await agent.answer(arguments[2], arguments[1]))
    else:
        street = Image.new("RGB", (1600, 1200), "white")
        street.paste((200, 30, 30), (1200, 200, 1300, 260))
        script = [Reply(LOOK), Reply(FETCH), Reply(ANSWER)]
        async with ScriptedServer(script) as server, Agent(server.url, dialect="thyme") as agent:
            show(await agent.answer("What colour is the sign?", street))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
