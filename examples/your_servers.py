"""Ask models on servers of your own: any two OpenAI-compatible URLs.

    python examples/your_servers.py IMAGE QUESTION \\
        --draft-url http://127.0.0.1:8001 --draft-model Qwen/Qwen3-VL-2B-Instruct --draft-sizes qwen3-vl \\
        --agent-url http://127.0.0.1:8002 --agent-model path/to/DeepEyes-7B --agent-sizes qwen2.5-vl

The same by hand that `speceyes ask` does from its settings.
"""

import argparse
import asyncio
import os

from speceyes.agents.dialects import DeepEyes
from speceyes.engines.client import ChatClient
from speceyes.engines.nano import NANO_LIMITS, NANO_ZOOM_CONTEXT
from speceyes.funnel import Funnel
from speceyes.gating import Calibration, unsquash
from speceyes.imaging import QWEN2_5_VL, QWEN3_VL, load
from speceyes.phases import AgentModel, DraftModel
from speceyes.types import Query

SIZES = {"qwen2.5-vl": QWEN2_5_VL, "qwen3-vl": QWEN3_VL, "nano": NANO_LIMITS}
"""Which pictures a model family takes. Sizes that do not fit the model spoil the agent's boxes."""


async def main(args: argparse.Namespace) -> None:
    key = os.environ.get("API_KEY")
    async with (
        ChatClient(args.draft_url, args.draft_model, api_key=key) as small,
        ChatClient(args.agent_url, args.agent_model, api_key=key) as large,
    ):
        nano = args.agent_sizes == "nano"  # its boxes are loose: show more around them, and say less
        dialect = DeepEyes(
            limits=SIZES[args.agent_sizes], zoom_context=NANO_ZOOM_CONTEXT if nano else 0.0, zoom_notes=not nano
        )
        # The threshold that the paper used for V*, from its squashed scale. Here it is a guess, and promises nothing.
        gate = Calibration.manual(unsquash(0.98), k=64)
        funnel = Funnel(DraftModel(small, SIZES[args.draft_sizes]), AgentModel(large, dialect), gate)
        answer = await funnel.answer(Query(args.question, (load(args.image),)))

    print(answer.text)
    print(f"from the {answer.route}: {answer.reason}")
    for model, usage in answer.trace.usage.items():
        print(f"{model}: {usage.calls} calls, {usage.prompt_tokens} + {usage.completion_tokens} tokens")
    for note in answer.trace.notes:
        print(f"note: {note}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("image")
    parser.add_argument("question")
    for role, sizes in (("draft", "qwen3-vl"), ("agent", "qwen2.5-vl")):
        parser.add_argument(f"--{role}-url", required=True, metavar="URL")
        parser.add_argument(f"--{role}-model", required=True, metavar="NAME")
        parser.add_argument(f"--{role}-sizes", choices=SIZES, default=sizes)
    asyncio.run(main(parser.parse_args()))
