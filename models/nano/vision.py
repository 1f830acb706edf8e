"""Stage 1: teach the vision tower what is under each cell, in the directions of the language model's words.

Every merged token of a view is asked for the colour, shape and digit of the sign under it, as similarity to the word
embeddings that the language model will start from, and for the sign's centre and size by a linear read-out. Afterwards
looking something up by its word is a dot product, which the language model learns at once.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import replicas
import torch
import torch.nn.functional as F
import trainer
from architecture import CELLS, IMAGE_TOKENS, WIDTH, Vision, reduced_precision
from cache import VIEWS, Scenes, dense_labels
from grid import LOOK
from torch import Tensor, nn

from speceyes.evals.datasets.scenes import COLORS, DIGITS, SHAPES

CONCEPTS = [*COLORS, *SHAPES, *DIGITS]
_COLOR = slice(0, len(COLORS))
_SHAPE = slice(len(COLORS), len(COLORS) + len(SHAPES))
_DIGIT = slice(len(COLORS) + len(SHAPES), len(CONCEPTS))
BATCH = 64
READABLE = 12.0
"""Signs under this radius, in pixels of the view, are not asked for their digit."""


def concept_vectors(seed: int = 7) -> Tensor:
    """Random directions of unit length or so, one per word of `CONCEPTS`, (len(CONCEPTS), WIDTH)."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(len(CONCEPTS), WIDTH, generator=generator) / WIDTH**0.5


class Reader(nn.Module):
    """A vision tower and what reads its tokens during stage 1."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower
        self.nothing = nn.Parameter(torch.zeros(1))
        self.place = nn.Linear(WIDTH, 3)
        self.register_buffer("words", concept_vectors())

    def forward(self, views: Tensor) -> tuple[Tensor, Tensor]:
        """uint8 views to word scores (B, IMAGE_TOKENS, len(CONCEPTS)) and places (B, IMAGE_TOKENS, 3)."""
        with reduced_precision():
            tokens, _ = Vision(self.tower)(views)
        tokens = tokens.float()
        return self.read(tokens)

    def read(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Word scores and places of tokens (B, IMAGE_TOKENS, WIDTH)."""
        return 3 * tokens @ self.words.T, self.place(tokens)


class Labels:
    """Dense labels of all views, as tensors: concept index per cell (-1: none) and place."""

    def __init__(self, scenes: Scenes) -> None:
        n = len(scenes)
        self.color = np.full((n, VIEWS, IMAGE_TOKENS), -1, np.int64)
        self.shape = self.color.copy()
        self.digit = self.color.copy()
        self.place = np.zeros((n, VIEWS, IMAGE_TOKENS, 3), np.float32)
        colors, shapes = list(COLORS), list(SHAPES)
        for i, scene in enumerate(scenes.scenes):
            for v in range(VIEWS):
                window = scenes.windows[i, v]
                sign, self.place[i, v] = dense_labels(scene, window, CELLS)
                scale = LOOK / (window[2] - window[0])
                for k, s in enumerate(scene.signs):
                    here = sign == k
                    self.color[i, v][here] = colors.index(s.color)
                    self.shape[i, v][here] = shapes.index(s.shape)
                    if s.radius * scale > READABLE:
                        self.digit[i, v][here] = int(s.digit)

    def at(self, index: tuple[np.ndarray, np.ndarray]) -> tuple[Tensor, ...]:
        """Colour, shape, digit and place of the views at (scenes, views)."""
        return tuple(torch.from_numpy(a[index]) for a in (self.color, self.shape, self.digit, self.place))


def draw(step: int, scenes: Scenes, labels: Labels, batch: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The batch of a step: views (3 in 5 are first looks) and their labels."""
    rng = random.Random(f"vision-{step}-{replicas.rank()}")
    pick = [(rng.randrange(len(scenes)), 0 if rng.random() < 0.6 else rng.randrange(1, VIEWS)) for _ in range(batch)]
    at = tuple(np.array(pick).T)
    return torch.from_numpy(np.ascontiguousarray(scenes.views[at])), labels.at(at)


def losses(reader: Reader, read: tuple[Tensor, Tensor], labels: tuple[Tensor, ...]) -> dict[str, Tensor]:
    """Cross-entropies of colour (or nothing), shape and digit, and the error of the place in cells."""
    score, where = read
    color, shape, digit, place = labels
    nothing = reader.nothing.expand(*color.shape, 1)
    weight = torch.cat((torch.ones(len(COLORS)), torch.tensor([0.2])))
    target = torch.where(color < 0, len(COLORS), color)
    on = color >= 0
    return {
        "color": F.cross_entropy(
            torch.cat((score[..., _COLOR], nothing), -1).flatten(0, 1), target.flatten(), weight=weight
        ),
        "shape": F.cross_entropy(score[..., _SHAPE].flatten(0, 1), shape.flatten(), ignore_index=-1),
        "digit": F.cross_entropy(score[..., _DIGIT].flatten(0, 1), digit.flatten(), ignore_index=-1),
        "place": 2 * F.smooth_l1_loss(where[on], place[on], beta=0.1),
    }


@torch.no_grad()
def accuracy(reader: Reader, scenes: Scenes, labels: Labels, count: int = 256) -> str:
    """Held-out accuracy per cell, first looks and crops apart."""
    parts = []
    for name, v in (("look", 0), ("crop", 1)):
        score, where = reader(torch.from_numpy(np.ascontiguousarray(scenes.views[:count, v])))
        for key, part, true in (
            ("color", _COLOR, labels.color),
            ("shape", _SHAPE, labels.shape),
            ("digit", _DIGIT, labels.digit),
        ):
            t = torch.from_numpy(true[:count, v])
            parts.append(f"{name}/{key} {(score[..., part].argmax(-1) == t)[t >= 0].float().mean():.3f}")
        on = torch.from_numpy(labels.color[:count, v]) >= 0
        error = (where - torch.from_numpy(labels.place[:count, v]))[on][:, :2].abs().mean()
        parts.append(f"{name}/place {error:.3f} cells")
    return "  ".join(parts)


def run(tower: nn.Module, scenes: Scenes, held_out: Scenes, labels: Labels, folder: Path, steps: int) -> Reader:
    """Train the tower in place."""
    reader = Reader(tower)
    held_out_labels = Labels(held_out)

    def step_losses(step: int) -> dict[str, Tensor]:
        views, truth = draw(step, scenes, labels, BATCH // replicas.count())
        return losses(reader, reader(views), truth)

    trainer.train(
        "vision",
        reader,
        [{"params": list(reader.parameters()), "lr": 1.2e-3}],
        step_losses,
        steps=steps,
        folder=folder,
        evaluate=lambda: accuracy(reader, held_out, held_out_labels),
        evaluate_every=250,
    )
    return reader
