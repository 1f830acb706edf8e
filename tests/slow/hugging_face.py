"""A nano model as transformers runs it, in 32 bits, from the files that are shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from architecture import GRID, IMAGE_TOKENS, patches
from torch import Tensor
from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration

from speceyes.imaging.view import View

IMAGE_PAD = "<|image_pad|>"


class HuggingFaceModel:
    """The model with its tokenizer and chat template. `folder` is what vLLM and transformers load."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()

    @cached_property
    def named(self) -> dict[str, list[int]]:
        """The tokens that read as a text. Parts of UTF-8 characters all read alike."""
        found: dict[str, list[int]] = {}
        for token in range(len(self.tokenizer)):
            found.setdefault(self.tokenizer.decode([token]), []).append(token)
        return found

    def prompt(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] = ()) -> str:
        """The text that the chat template makes of a request, up to where the model writes."""
        return self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tools=[dict(tool) for tool in tools] or None,
            add_generation_prompt=True,
            tokenize=False,
        )

    def ids(self, text: str) -> list[int]:
        """The tokens of a text, each image placeholder widened to the image's tokens."""
        wide = text.replace(IMAGE_PAD, IMAGE_PAD * IMAGE_TOKENS)
        return self.tokenizer(wide, add_special_tokens=False)["input_ids"]

    @torch.no_grad()
    def logits(self, ids: Sequence[int], pictures: np.ndarray) -> Tensor:
        """transformers' own forward pass.

        Args:
            ids: L tokens.
            pictures: One for each placeholder, uint8, (N, side, side, 3).

        Returns:
            (L, vocabulary).
        """
        vectors = patches(torch.from_numpy(pictures))
        # The processor doubles a still picture along the time axis of each patch.
        vectors = vectors.reshape(-1, 3, 1, 256).expand(-1, -1, 2, -1).reshape(-1, 2 * 3 * 256)
        tokens = torch.tensor([list(ids)])
        grid = torch.tensor([[1, GRID, GRID]] * len(pictures))
        found = self.model(
            input_ids=tokens, attention_mask=torch.ones_like(tokens), pixel_values=vectors, image_grid_thw=grid
        )
        return found.logits[0]

    def next_logprobs(self, prompt: str, views: Sequence[View]) -> Tensor:
        """Log-probs of the token after a prompt, (vocabulary,)."""
        pictures = np.stack([np.asarray(view.pixels) for view in views])
        return self.logits(self.ids(prompt), pictures)[-1].log_softmax(-1)
