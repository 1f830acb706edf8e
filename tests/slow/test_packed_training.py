"""What training computes over packed trunks and branches is what transformers computes over each conversation."""

from __future__ import annotations

import random

import cache
import numpy as np
import pytest
import runs
import text
import torch
from hugging_face import HuggingFaceModel
from language import Reply
from manners import CODING, ZOOMING, Manner
from packing import Encoder, Packed, pack
from text import Branch, Piece
from tokenizers import Tokenizer

from speceyes.evals.datasets.questions import ask_position

pytestmark = pytest.mark.slow

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> cache.Scenes:
    return cache.render("validation", 3, tmp_path_factory.mktemp("scenes"), workers=1)


def encoder(model: HuggingFaceModel) -> Encoder:
    return Encoder(Tokenizer.from_file(str(model.folder / "tokenizer.json")))


@torch.no_grad()
def packed_logits(model: HuggingFaceModel, packed: Packed, scenes: cache.Scenes) -> torch.Tensor:
    """Logits of all tokens in flat order, by the way through the model that training takes."""
    reply = Reply(model.model)
    views = torch.from_numpy(np.stack([scenes.views[s, v] for s, v in packed.views]))
    return model.model.lm_head(reply.hidden(packed, *reply.vision(views)))


def check(model: HuggingFaceModel, trunk_text: str, batch: list[list[Branch]], scenes: cache.Scenes) -> None:
    """Each branch of each scene, against transformers' own forward pass over trunk and branch."""
    encode = encoder(model)
    trunk = encode([Piece(trunk_text)])
    packed = pack(encode, trunk, batch)
    logits = packed_logits(model, packed, scenes)
    assert len(packed.owner) == sum(map(len, batch))
    for (s, b), start in zip(packed.owner, packed.starts, strict=True):
        branch = batch[s][b]
        written = trunk_text + "".join(piece.text for piece in branch)
        ids = model.ids(written)
        own = encode(branch).ids
        assert ids == [*trunk.ids, *own], "the two tokenizers cut the text apart"
        seen = [0, *(piece.view for piece in branch if text.IMAGE in piece.text)]
        expected = model.logits(ids, np.asarray(scenes.views[s, seen]))[len(trunk.ids) :]
        found = logits[start : start + len(own)]
        torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=1e-5)


@pytest.mark.parametrize("manner", [ZOOMING, CODING], ids=["zooming", "coding"])
def test_agent_runs_with_several_crops(
    hf_agent: HuggingFaceModel, scenes: cache.Scenes, rng: random.Random, manner: Manner
) -> None:
    batch = [runs.agent_branches(manner, rng, scenes, i) for i in range(len(scenes))]
    batch[0].append(two_crops(scenes, rng, manner))
    check(hf_agent, manner.trunk(), batch, scenes)


def two_crops(scenes: cache.Scenes, rng: random.Random, manner: Manner = ZOOMING) -> Branch:
    """A run that looks closer at both signs of a question."""
    scene = scenes.scenes[0]
    first, second = (scene.signs[i] for i in scenes.targets[0])
    return runs.agent_run(manner, ask_position(rng, first, second), scene, {first.color: 1, second.color: 2})


def test_drafts(hf_draft: HuggingFaceModel, scenes: cache.Scenes, rng: random.Random) -> None:
    batch = [text.draft_branches(rng, scene, scenes.near(i)) for i, scene in enumerate(scenes.scenes)]
    check(hf_draft, text.draft_trunk(), batch, scenes)


def test_padding_and_other_branches_do_not_leak_in(
    hf_agent: HuggingFaceModel, scenes: cache.Scenes, rng: random.Random
) -> None:
    """A branch alone, and the same among others, larger and smaller, of its own scene and of another."""
    encode = encoder(hf_agent)
    trunk = encode([Piece(ZOOMING.trunk())])
    chosen = two_crops(scenes, rng)
    crowd = [[chosen, *runs.agent_branches(ZOOMING, rng, scenes, 0)], runs.agent_branches(ZOOMING, rng, scenes, 1)]
    found = []
    for batch in ([[chosen]], crowd):
        packed = pack(encode, trunk, batch)
        start = packed.starts[packed.owner.index((0, 0))]
        found.append(packed_logits(hf_agent, packed, scenes)[start : start + len(encode(chosen).ids)])
    torch.testing.assert_close(found[0], found[1], atol=TOLERANCE, rtol=1e-5)
