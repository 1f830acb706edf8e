"""Give the agent tools of your own: any function with type hints.

    python examples/own_tool.py

`Box` is what the model named, already in pixels of the original; `Image` is that picture at full size. The first tool
takes the place of the dialect's own zoom, under the name that the nano agent was trained to call. The second one is for
a larger model, which finds it in the tools of each request and calls it when it helps; it confuses the nano agent.
"""

import asyncio

from PIL import Image, ImageEnhance

from speceyes import Agent, ToolBudget, tool
from speceyes.evals.datasets.scenes import draw_scene, make_scene
from speceyes.imaging import Box


@tool(name="image_zoom_in_tool")
def zoom(picture: Image.Image, bbox_2d: Box, label: str = "") -> Image.Image:
    """Show a part of the image up close.

    Args:
        bbox_2d: The part.
        label: What is there.
    """
    print(f"    looks for the {label} at {[round(edge) for edge in bbox_2d.as_tuple()]}")
    part = bbox_2d.grow(0.15 * bbox_2d.width, 0.15 * bbox_2d.height).clamp(*picture.size)
    return ImageEnhance.Contrast(picture.crop([round(edge) for edge in part.as_tuple()])).enhance(1.1)


@tool(budget=ToolBudget(seconds=5))
async def look_up(plate: str, country: str = "DE") -> dict:
    """Find out who owns a car.

    Args:
        plate: The number plate.
        country: Two letters.
    """
    return {"plate": plate, "country": country, "owner": "unknown"}


async def main() -> None:
    print("for a larger model:", look_up.schema["function"]["name"])
    async with Agent.nano(tools=[zoom]) as agent:
        print("tools:", ", ".join(schema["function"]["name"] for schema in agent.dialect.tools))
        for scene in map(make_scene, (1, 2, 5)):
            sign = next(sign for sign in scene.signs if sign.small)
            print(f"What digit is on the {sign.color} sign? (it is {sign.digit})")
            answer = await agent.answer(f"What digit is on the {sign.color} sign?", draw_scene(scene))
            print(f"    {answer.text} ({answer.finish})")


if __name__ == "__main__":
    asyncio.run(main())
