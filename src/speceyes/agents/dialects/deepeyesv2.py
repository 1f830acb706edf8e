"""DeepEyesV2: Python code in a stateful session, with the images as variables, and other tools as JSON.

    <think>...</think>
    <code>
    ```python
    plt.imshow(image_1.crop((x1, y1, x2, y2)))
    plt.show()
    ```
    </code>

The i-th image is there as `image_i`, opened by Pillow at its original size; figures that the code shows come back as
pictures, and variables live on. The result is a user message with what was printed, and the pictures. The model was
trained to search, too, with `<tool_call>`: give such a tool in the toolbox and say in the prompts what it is for.
"""

from __future__ import annotations

from speceyes.agents.dialects.base import Prompts
from speceyes.agents.dialects.coding import Coding
from speceyes.imaging.resize import QWEN2_5_VL

PROMPTS = Prompts(
    system="You answer questions about images. You may run Python code, as in a notebook: write it as\n"
    "<code>\n```python\n# your code\n```\n</code>\n"
    "You get back what it prints, and every figure that it shows with plt.show(). Variables stay from one piece of "
    "code to the next. Each image is open already, as a Pillow image in a variable. Use code to crop, enlarge, rotate "
    "or brighten what is hard to see, or to measure and count. There is no network, and no file is kept.",
    act="Reason step by step in <think> and </think>. Then either write code in <code> and </code>, or the answer in "
    "<answer> and </answer>.",
    screen="Would code that works on the image help here? Reply yes or no.",
    picture="image_{number} is {width} x {height} pixels.",
    result="The code gave:",
    reminder="Go on in <think> and </think>, and then with <code> or <answer>.",
    closing="No more code can be run. Write the answer in <answer> and </answer> now.",
    retry="Mend the code, or write the answer in <answer> and </answer>.",
    repeated="That very code has been run already. Write the answer in <answer> and </answer> now.",
)


class DeepEyesV2(Coding):
    """DeepEyesV2-7B. Its options are those of `Coding`."""

    name = "deepeyesv2"
    models = "DeepEyesV2-7B (Qwen2.5-VL)"
    limits = QWEN2_5_VL
    prompts = PROMPTS
    result_tag = None
    max_turns = 10
    max_tokens_per_turn = 4096
