"""A tool loop of your own, written with OpenAI's client and nothing else, in front of the gateway.

    python examples/tool_loop.py                    easy and hard questions to a gateway that it starts
    python examples/tool_loop.py http://127.0.0.1:8040/v1

The loop is the client's: it sends the tool, reads the model's calls out of its text, crops, and sends the crop back.
For the easy question the gateway answers with the draft, in the form that the loop expects, and the loop ends after
one turn. Needs `pip install openai 'speceyes[gateway]'`.
"""

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

from openai import OpenAI
from PIL import Image

from speceyes.evals.datasets.scenes import draw_scene, make_scene

MODEL = "speceyes/transparent-deepeyes"
SYSTEM = "You answer questions about images. A tool can show you a part of an image up close."
TASK = "Think in <think> tags. Call the tool for what is too small to read. Then answer in <answer> tags."
LOOK = "Here is the closer look. Think, then call the tool again or answer in <answer> tags."
SIDE = 192  # the nano agent sees pictures in this size, and its boxes are in pixels of it
TOOL = {
    "type": "function",
    "function": {
        "name": "image_zoom_in_tool",
        "description": "Show a part of the image up close.",
        "parameters": {
            "type": "object",
            "properties": {
                "bbox_2d": {"type": "array", "items": {"type": "number"}, "description": "x1, y1, x2, y2 in pixels"},
                "label": {"type": "string", "description": "what is there"},
            },
            "required": ["bbox_2d"],
        },
    },
}


def ask(client: OpenAI, image: Image.Image, question: str, most: int = 6) -> tuple[str, int]:
    """The answer, and after how many turns it came."""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": [shown(image), said(f"{question}\n\n{TASK}")]},
    ]
    for turn in range(1, most + 1):
        reply = client.chat.completions.create(
            model=MODEL, messages=messages, tools=[TOOL], tool_choice="none", max_tokens=256, temperature=0
        )
        text = reply.choices[0].message.content
        if answer := re.search(r"<answer>(.*?)</answer>", text, re.DOTALL):
            return answer[1].strip(), turn
        messages.append({"role": "assistant", "content": text})
        if call := re.search(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL):
            box = json.loads(call[1])["arguments"]["bbox_2d"]
            print(f"    zoom to {box}")
            crop = image.crop([round(edge * image.width / SIDE) for edge in box])
            messages.append(
                {
                    "role": "user",
                    "content": [said("<tool_response>\n"), shown(crop), said(f"\n{LOOK}\n</tool_response>")],
                }
            )
        else:
            messages.append({"role": "user", "content": f"<tool_response>\n{TASK}\n</tool_response>"})
    return "", most


def said(text: str) -> dict:
    return {"type": "text", "text": text}


def shown(image: Image.Image) -> dict:
    data = io.BytesIO()
    image.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(data, "PNG")
    url = "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": url}}


def main(url: str) -> None:
    client = OpenAI(base_url=url, api_key="none")
    for scene in map(make_scene, (1, 2, 5)):
        image = draw_scene(scene)
        for kind in ("large", "small"):
            sign = next(sign for sign in scene.signs if sign.small == (kind == "small"))
            question = f"What digit is on the {sign.color} sign?"
            print(f"A {kind} sign, which shows {sign.digit}: {question}")
            answer, turns = ask(client, image, question)
            print(f"    {answer} after {turns} turn{'s' if turns > 1 else ''}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        speceyes = Path(sys.executable).with_name("speceyes")
        quietly = ["--set", "store.enabled=false", "--set", "observe.log=false"]
        with subprocess.Popen(
            [speceyes, "serve", "--port", "0", *quietly], stdout=subprocess.PIPE, text=True
        ) as gateway:
            main(gateway.stdout.readline().strip())  # its first line is its URL
            gateway.terminate()
