"""From branches of text to the flat tensors that one training step computes on.

All scenes of a batch share one trunk text, so trunks form a dense block. Branches are cut into groups of like length;
within a group they are padded for attention only, everything else runs over real tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from architecture import CELLS, IMAGE_TOKENS
from text import Branch
from tokenizers import Tokenizer
from torch import Tensor

PADDING = 1.12
"""Branches go into one group while the longest is so many times as long as the shortest: attention over padding costs
its square, and another group only a few more calls."""
SHORTEST_PADDING = 8
SHORT = 3
"""Replies of up to so many tokens are answers, not accounts."""


@dataclass
class Encoded:
    """A stretch of tokens with its image placeholders widened to IMAGE_TOKENS each.

    Attributes:
        ids: token ids, (L,).
        positions: temporal, vertical and horizontal position relative to the stretch's start, (3, L).
        view: index of the view of an image token, -1 for text, (L,).
        weight: weight of the loss of predicting this token, (L,).
        end: the position that follows.
    """

    ids: np.ndarray
    positions: np.ndarray
    view: np.ndarray
    weight: np.ndarray
    end: int


class Encoder:
    """Turns pieces into tokens. Positions are Qwen3-VL's: a picture advances them by its longer side in cells.

    Args:
        short_weight: Weight of the word of a short reply.
        digit_weight: How many times as much a digit counts, for the agent, whose boxes are hard and little text.
    """

    def __init__(self, tokenizer: Tokenizer, short_weight: float = 2.0, digit_weight: float = 1.0) -> None:
        self.tokenizer = tokenizer
        self.short_weight = short_weight
        self.digit_weight = digit_weight
        self.end = tokenizer.token_to_id("<|im_end|>")
        self.image = tokenizer.token_to_id("<|image_pad|>")
        self.digits = {tokenizer.token_to_id(d) for d in "0123456789"}
        self._seen: dict[str, list[int]] = {}

    def _ids(self, text: str) -> list[int]:
        if text not in self._seen:
            if len(self._seen) > 200_000:
                self._seen.clear()
            self._seen[text] = self.tokenizer.encode(text, add_special_tokens=False).ids
        return self._seen[text]

    def __call__(self, branch: Branch) -> Encoded:
        ids: list[int] = []
        view: list[int] = []
        learn: list[bool] = []
        stress: list[float] = []
        for piece in branch:
            for token in self._ids(piece.text):
                repeat = IMAGE_TOKENS if token == self.image else 1
                ids += [token] * repeat
                view += [piece.view if token == self.image else -1] * repeat
                learn += [piece.learn] * repeat
                stress += [piece.stress] * repeat
        positions, end = self._positions(ids)
        learned, tokens = np.array(learn), np.array(ids)
        n = int(learned.sum())
        # a long reply is mostly boilerplate: it must not drown the one token of a short answer
        weight = learned * (self.short_weight if n <= SHORT else 4.0 / (7.0 + n))
        weight *= np.array(stress)
        weight[tokens == self.end] *= 0.1
        weight[np.isin(tokens, list(self.digits))] *= self.digit_weight
        return Encoded(np.array(ids), positions, np.array(view), weight.astype(np.float32), end)

    def _positions(self, ids: list[int]) -> tuple[np.ndarray, int]:
        out = np.empty((3, len(ids)), np.int64)
        at = i = 0
        while i < len(ids):
            if ids[i] == self.image:
                cell = np.arange(IMAGE_TOKENS)
                out[:, i : i + IMAGE_TOKENS] = at + np.stack((0 * cell, cell // CELLS, cell % CELLS))
                i, at = i + IMAGE_TOKENS, at + CELLS
            else:
                out[:, i] = at
                i, at = i + 1, at + 1
        return out, at


@dataclass
class Group:
    """Branches of like length: where their tokens lie in the flat order, and which trunk each grows from."""

    index: Tensor
    """(M, L) flat index of each token, 0 where padded."""
    valid: Tensor
    """(M, L) bool."""
    trunk: Tensor
    """(M,) scene within the batch."""


@dataclass
class Packed:
    """A batch. Flat order: the trunks of all scenes, then the branches group by group."""

    ids: Tensor
    positions: Tensor
    image_at: Tensor
    """Flat indices of all image tokens."""
    image_from: Tensor
    """For each of them the row in the views' tokens, view number * IMAGE_TOKENS + cell."""
    views: list[tuple[int, int]]
    """(scene within the batch, view) of each view that is to be encoded."""
    trunk_shape: tuple[int, int]
    groups: list[Group]
    target_at: Tensor
    """Flat indices of the tokens before learned ones."""
    target: Tensor
    weight: Tensor
    owner: list[tuple[int, int]]
    """(scene within the batch, branch) in flat order, for evaluation."""
    starts: list[int]
    """Flat index of the first token of each branch, in the order of `owner`."""


def pack(encode: Encoder, trunk: Encoded, batch: list[list[Branch]]) -> Packed:
    """Pack the branches of every scene of a batch."""
    p = len(trunk.ids)
    branches = [(s, b, encode(branch)) for s, group in enumerate(batch) for b, branch in enumerate(group)]
    views: dict[tuple[int, int], int] = {}
    ids = [np.tile(trunk.ids, len(batch))]
    positions = [np.tile(trunk.positions, (1, len(batch)))]
    source = [_rows(trunk.view, s, views) for s in range(len(batch))]
    weight = [np.zeros(p * len(batch), np.float32)]
    groups, owner, starts, at = [], [], [], p * len(batch)
    for chosen in _alike(branches):
        longest = len(chosen[-1][2].ids)
        index = np.zeros((len(chosen), longest), np.int64)
        valid = np.zeros((len(chosen), longest), bool)
        for row, (s, b, e) in enumerate(chosen):
            n = len(e.ids)
            index[row, :n], valid[row, :n] = np.arange(at, at + n), True
            ids.append(e.ids)
            positions.append(e.positions + trunk.end)
            source.append(_rows(e.view, s, views))
            weight.append(e.weight)
            owner.append((s, b))
            starts.append(at)
            at += n
        groups.append(Group(torch.from_numpy(index), torch.from_numpy(valid), torch.tensor([s for s, _, _ in chosen])))
    flat, rows, weights = np.concatenate(ids), np.concatenate(source), np.concatenate(weight)
    image_at, target = np.flatnonzero(rows >= 0), np.flatnonzero(weights > 0)
    return Packed(
        torch.from_numpy(flat),
        torch.from_numpy(np.concatenate(positions, 1)),
        torch.from_numpy(image_at),
        torch.from_numpy(rows[image_at]),
        list(views),
        (len(batch), p),
        groups,
        torch.from_numpy(target - 1),
        torch.from_numpy(flat[target]),
        torch.from_numpy(weights[target]),
        owner,
        starts,
    )


def _alike(branches: list[tuple[int, int, Encoded]]) -> Iterator[list[tuple[int, int, Encoded]]]:
    """Branches in groups of like length, each from its shortest to its longest."""
    group: list[tuple[int, int, Encoded]] = []
    for branch in sorted(branches, key=lambda b: len(b[2].ids)):
        if group and len(branch[2].ids) > max(PADDING * len(group[0][2].ids), len(group[0][2].ids) + SHORTEST_PADDING):
            yield group
            group = []
        group.append(branch)
    yield group


def _rows(view: np.ndarray, scene: int, views: dict[tuple[int, int], int]) -> np.ndarray:
    """Rows of the views' tokens for each image token of a stretch, -1 for text."""
    rows = np.full(len(view), -1)
    i = 0
    while i < len(view):
        if view[i] >= 0:
            number = views.setdefault((scene, int(view[i])), len(views))
            rows[i : i + IMAGE_TOKENS] = number * IMAGE_TOKENS + np.arange(IMAGE_TOKENS)
            i += IMAGE_TOKENS
        else:
            i += 1
    return rows
