"""Stages 2 and 3: the draft learns to answer from the first look; the agent grows out of it and learns its loop."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path

import numpy as np
import replicas
import text
import torch
import trainer
from architecture import Special, build
from cache import Scenes
from language import Reply, reply_loss
from manners import ZOOMING, Manner
from packing import Encoder, Packed, pack
from runs import agent_branches
from text import Branch, Piece
from torch import Tensor, nn
from vision import CONCEPTS, Labels, Reader, concept_vectors
from vision import losses as dense_losses

from speceyes.evals.datasets.questions import Kind, ask_digit, ask_shape

Draw = Callable[[int], tuple[Packed, Tensor, tuple[Tensor, ...]]]
"""Step number to a packed batch, its views, and the dense labels of these."""
DENSE = 0.3
"""Weight of stage 1's losses in the later stages: the tower goes on learning to read."""

DRAFT_LAYERS, AGENT_LAYERS = 4, 8


def plant_words(model: nn.Module, encode: Encoder, seed: int = 11) -> None:
    """Give the words that the vision tower speaks the vectors that it speaks them in, whatever their spelling."""
    table = model.get_input_embeddings().weight
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for word, vector in zip(CONCEPTS, concept_vectors(), strict=True):
            for spelling in {word, f" {word}"}:
                ids = encode.tokenizer.encode(spelling, add_special_tokens=False).ids
                if len(ids) == 1:
                    jitter = torch.randn(vector.shape, generator=noise) * 0.1 / vector.numel() ** 0.5
                    table[ids[0]] = vector + jitter


def grow(draft: nn.Module, special: Special, layers: int = AGENT_LAYERS) -> nn.Module:
    """A deeper model that computes what the draft does: after each of its layers comes one that adds nothing yet."""
    agent = build(layers, special, seed=1)
    every = layers // len(draft.model.language_model.layers)
    agent.model.visual.load_state_dict(draft.model.visual.state_dict())
    source, target = draft.model.language_model, agent.model.language_model
    target.embed_tokens.load_state_dict(source.embed_tokens.state_dict())
    target.norm.load_state_dict(source.norm.state_dict())
    with torch.no_grad():
        for i, layer in enumerate(target.layers):
            if i % every == 0:
                layer.load_state_dict(source.layers[i // every].state_dict())
            else:
                layer.self_attn.o_proj.weight.zero_()
                layer.mlp.down_proj.weight.zero_()
    return agent


@dataclass(frozen=True)
class Lesson:
    """What one batch is made of: a trunk, and the branches that grow from it for a scene of this number."""

    trunk: str
    branches: Callable[[random.Random, Scenes, int], list[Branch]]


def sampler(name: str, encode: Encoder, lessons: Sequence[Lesson], scenes: Scenes, labels: Labels, batch: int) -> Draw:
    """Batches by step number, the lessons in turn, the next one packed in a thread while the current one trains."""
    trunks = [encode([Piece(lesson.trunk)]) for lesson in lessons]
    pool = ThreadPoolExecutor(1)
    ahead: dict[int, Future[tuple[Packed, Tensor, tuple[Tensor, ...]]]] = {}

    def make(step: int) -> tuple[Packed, Tensor, tuple[Tensor, ...]]:
        rng = random.Random(f"{name}-{step}-{replicas.rank()}")
        chosen = [rng.randrange(len(scenes)) for _ in range(batch // replicas.count())]
        turn = step % len(lessons)
        packed = pack(encode, trunks[turn], [lessons[turn].branches(rng, scenes, i) for i in chosen])
        at = (np.array([chosen[s] for s, _ in packed.views]), np.array([v for _, v in packed.views]))
        return packed, torch.from_numpy(scenes.views[at]), labels.at(at)

    def draw(step: int) -> tuple[Packed, Tensor, tuple[Tensor, ...]]:
        now = ahead.pop(step, None) or pool.submit(make, step)
        ahead[step + 1] = pool.submit(make, step + 1)
        return now.result()

    return draw


def draft_lesson() -> Lesson:
    """Questions, looks and short answers."""
    return Lesson(text.draft_trunk(), lambda rng, scenes, i: text.draft_branches(rng, scenes.scenes[i], scenes.near(i)))


def agent_lessons(*manners: Manner) -> list[Lesson]:
    """Screening and runs in these manners, in turn."""
    return [Lesson(manner.trunk(), partial(agent_branches, manner)) for manner in manners]


def train_reply(
    name: str,
    model: nn.Module,
    reader: Reader,
    draw: Draw,
    steps: int,
    folder: Path,
    evaluate: Callable[[], str],
    rate: float = 1.2e-3,
    slower: float = 2.0,
) -> None:
    """Train a whole model on drawn batches.

    Args:
        reader: Stage 1's read-out; it is trained along, so that the tower keeps learning from dense labels.
        rate: Of the language model, at its peak.
        slower: How many times as slowly the vision tower learns. One that reads well is worn down by much more.
    """
    reply = Reply(model)
    vision = list(model.model.visual.parameters())
    language = list(model.model.language_model.parameters())

    heads = [*reader.place.parameters(), reader.nothing]

    def losses(step: int) -> dict[str, Tensor]:
        packed, views, labels = draw(step)
        logits, tokens = reply(packed, views)
        dense = dense_losses(reader, reader.read(tokens), labels)
        return {"reply": reply_loss(logits, packed), **{k: DENSE * v for k, v in dense.items()}}

    groups = [{"params": vision + heads, "lr": rate / slower}, {"params": language, "lr": rate}]
    trainer.train(
        name,
        model,
        groups,
        losses,
        steps=steps,
        folder=folder,
        evaluate=evaluate,
        evaluate_every=200,
    )


# Held-out accuracy, teacher-forced: quick to see where training stands. evaluate.py measures through llama.cpp.


@torch.no_grad()
def draft_accuracy(model: nn.Module, encode: Encoder, scenes: Scenes, count: int = 192) -> str:
    """Share of right first tokens by question kind and size of the sign, and, up close, of boxes and answers."""
    trunk, reply, rng = encode([Piece(text.draft_trunk())]), Reply(model), random.Random(5)
    right: dict[str, list[bool]] = defaultdict(list)
    for low in range(0, count, 48):
        block = range(low, low + 48)
        asked = [[(k, text.random_question(rng, scenes.scenes[i], k)) for k in Kind for _ in range(2)] for i in block]
        batch = [[text.draft_answer(q) for _, q in row] for row in asked]
        for (i, row), branches in zip(zip(block, asked, strict=True), batch, strict=True):
            scene, (color, view) = scenes.scenes[i], next(iter(scenes.near(i).items()))
            sign = scene.find(color)
            closer = [ask_digit(rng, sign), ask_shape(rng, sign), *text.both_ways(rng, sign, scene)]
            branches += [text.closer_answer(q, scene, view) for q in closer]
            row += [("closer", q) for q in closer]
        packed = pack(encode, trunk, batch)
        views = torch.from_numpy(np.stack([scenes.views[low + s, v] for s, v in packed.views]))
        hits = (reply(packed, views)[0].argmax(-1) == packed.target).tolist()
        at = {int(t): hit for t, hit in zip(packed.target_at, hits, strict=True)}
        for (s, b), start in zip(packed.owner, packed.starts, strict=True):
            name, question = asked[s][b]
            size = "small" if question.tool_helps(scenes.scenes[low + s]) else "large"
            options = "/options" if question.options else ""
            end = start + len(encode(batch[s][b]).ids)
            mine = [t for t in range(start, end) if t in at]
            if name == "closer":
                right[f"closer/{question.kind}/{size}"].append(at[mine[-2]])  # the last is the end of the turn
                right["closer/box"].append(all(at[t] for t in mine[:-3]))
            else:
                right[f"{question.kind}/{size}{options}"].append(at[mine[0]])
    return "  ".join(f"{k} {np.mean(v):.2f}" for k, v in sorted(right.items()))


@torch.no_grad()
def agent_accuracy(model: nn.Module, encode: Encoder, scenes: Scenes, manner: Manner = ZOOMING, count: int = 96) -> str:
    """Screening, box digits, and whole closing turns without a wrong token, each token given those before it.

    The answer in its tags only repeats the thought, so it is the closing turn as a whole that shows what was learned.
    """
    trunk, reply, rng = encode([Piece(manner.trunk())]), Reply(model), random.Random(6)
    found: dict[str, list[float]] = defaultdict(list)
    for low in range(0, count, 16):
        batch = [agent_branches(manner, rng, scenes, low + s) for s in range(16)]
        packed = pack(encode, trunk, batch)
        views = torch.from_numpy(np.stack([scenes.views[low + s, v] for s, v in packed.views]))
        predicted = reply(packed, views)[0].argmax(-1)
        at = {int(t): i for i, t in enumerate(packed.target_at)}
        for (s, b), start in zip(packed.owner, packed.starts, strict=True):
            pieces = batch[s][b]
            end = start + len(encode(pieces).ids)
            mine = [at[t] for t in range(start, end) if t in at]
            if len(pieces) == 2 and "<think>" not in pieces[1].text:
                found["screen"].append(float(predicted[mine[0]] == packed.target[mine[0]]))
                continue
            ok = (predicted[mine] == packed.target[mine]).tolist()
            words = [encode.tokenizer.id_to_token(int(t)) for t in packed.target[mine]]
            if "<answer>" in words:
                key = f"closing turn after {sum(w == '<|im_end|>' for w in words) - 1}"
                closing = list(takewhile(lambda piece: piece.learn, reversed(pieces)))
                found[key].append(float(all(ok[-len(encode(closing).ids) :])))
            if "bbox" in words:
                first = words.index("bbox")
                last = words.index("label") if "label" in words else len(words)
                found["box digits"] += [
                    float(o) for o, w in zip(ok[first + 4 : last], words[first + 4 : last], strict=True) if w.isdigit()
                ]
    return "  ".join(f"{k} {np.mean(v):.3f}" for k, v in sorted(found.items()))
