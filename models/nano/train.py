"""Make the nano pair from nothing: render, tokenizer, vision tower, draft, agent, export.

    python train.py [--work work] [--out .] [--scenes 20000] [--replicas 2]

Every stage saves a checkpoint every two minutes and is skipped when it is done, so a killed run continues where it
was. `evaluate.py` measures what came out; `speceyes record` and `speceyes calibrate` make the gate's threshold for it.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import time
from pathlib import Path

import architecture
import cache
import export
import replicas
import runs
import stages
import tokenizer as nano_tokenizer
import vision
from manners import CODING, ZOOMING
from packing import Encoder
from tokenizers import Tokenizer
from torch import nn

HERE = Path(__file__).parent
STEPS = {"vision": 3500, "draft": 1600, "agent": 1200}
BATCH = {"draft": 12, "agent": 4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, default=HERE / "work", help="checkpoints and rendered scenes (7 GB)")
    parser.add_argument("--out", type=Path, default=HERE, help="gets the folders gguf and hf")
    parser.add_argument("--scenes", type=int, default=20_000)
    parser.add_argument("--replicas", type=int, default=2, help="processes that train side by side, one a core")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    cache.render("train", options.scenes, options.work / "scenes", options.replicas)
    held_out = cache.render("validation", 512, options.work / "scenes", options.replicas)
    if not (options.work / "tokenizer.json").exists():
        nano_tokenizer.train(runs.corpus(held_out)).save(str(options.work / "tokenizer.json"))
    replicas.launch(make, options.replicas, options.work, options.out, options.scenes)
    print(f"done in {(time.monotonic() - began) / 60:.0f} minutes; now: python evaluate.py", flush=True)


def make(work: Path, out: Path, count: int) -> None:
    """All stages, in one replica."""
    scenes = cache.render("train", count, work / "scenes")
    held_out = cache.render("validation", 512, work / "scenes")
    tokenizer = Tokenizer.from_file(str(work / "tokenizer.json"))
    special, encode = nano_tokenizer.special(tokenizer), Encoder(tokenizer)

    draft = architecture.build(stages.DRAFT_LAYERS, special, seed=0)
    labels = vision.Labels(scenes)
    reader = vision.run(draft.model.visual, scenes, held_out, labels, work, STEPS["vision"])

    stages.plant_words(draft, encode)
    draw = stages.sampler("draft", encode, [stages.draft_lesson()], scenes, labels, BATCH["draft"])
    check = lambda: stages.draft_accuracy(draft, encode, held_out)  # noqa: E731
    stages.train_reply("draft", draft, reader, draw, STEPS["draft"], work, check)

    agent, encode = stages.grow(draft, special), Encoder(tokenizer, short_weight=0.5, digit_weight=2.0)
    reader = copy.deepcopy(reader)
    reader.tower = agent.model.visual
    lessons = stages.agent_lessons(ZOOMING, ZOOMING, CODING)
    draw = stages.sampler("agent", encode, lessons, scenes, labels, BATCH["agent"])
    check_agent = lambda: stages.agent_accuracy(agent, encode, held_out)  # noqa: E731
    stages.train_reply("agent", agent, reader, draw, STEPS["agent"], work, check_agent, rate=7e-4, slower=8.0)

    replicas.first_alone(lambda: export_pair(draft, agent, tokenizer, out))


def export_pair(draft: nn.Module, agent: nn.Module, tokenizer: Tokenizer, out: Path) -> None:
    """Write both models in both forms, and the manifest."""
    for name, model in (("draft", draft), ("agent", agent)):
        shutil.rmtree(out / "hf" / name, ignore_errors=True)
        export.save_hugging_face(model, tokenizer, out / "hf" / name)
        export.save_gguf(model, tokenizer, name, out / "gguf")
    about = {"splits": {name: [first, first + 999_999] for name, first in cache.SEEDS.items()}, "steps": STEPS}
    export.write_manifest(out / "gguf", about)


if __name__ == "__main__":
    main()
