"""The two nano models: Qwen3-VL in small, with forward passes that a CPU can train.

The modules are those of transformers, so that what is trained here is what vLLM, llama.cpp and transformers serve.
Only the way through them is our own: all pictures have one size, so vision attention is one batched matrix product, and
the patch embedding, a convolution whose stride is its kernel, is a linear map. Both are exact rewrites.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from grid import LOOK
from torch import Tensor, nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb_vision

PATCH, MERGE = 16, 2
GRID = LOOK // PATCH
CELLS = GRID // MERGE
IMAGE_TOKENS = CELLS * CELLS
WIDTH = 192


@dataclass(frozen=True)
class Special:
    """Token ids that the configuration must name."""

    vocab_size: int
    image_pad: int
    video_pad: int
    vision_start: int
    vision_end: int
    end_of_turn: int
    end_of_text: int


def config(layers: int, special: Special) -> Qwen3VLConfig:
    """The configuration of a nano model with `layers` language layers."""
    text = {
        "vocab_size": special.vocab_size,
        "hidden_size": WIDTH,
        "intermediate_size": 3 * WIDTH,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "rope_scaling": {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True},
        "tie_word_embeddings": True,
        "bos_token_id": special.end_of_text,
        "eos_token_id": special.end_of_turn,
        "pad_token_id": special.end_of_text,
    }
    vision = {
        "depth": 4,
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_heads": 4,
        "patch_size": PATCH,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": 2,
        "out_hidden_size": WIDTH,
        "num_position_embeddings": GRID * GRID,
        "deepstack_visual_indexes": [1],
        "hidden_act": "gelu_pytorch_tanh",
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        image_token_id=special.image_pad,
        video_token_id=special.video_pad,
        vision_start_token_id=special.vision_start,
        vision_end_token_id=special.vision_end,
    )


def reduced_precision() -> torch.autocast:
    """16-bit products where the processor has units for them; emulated ones are 20 times slower than 32 bits."""
    has_units = torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=has_units)


def build(layers: int, special: Special, seed: int) -> Qwen3VLForConditionalGeneration:
    """A new model. Linear layers start at 1/sqrt(fan-in), for at these widths the usual 0.02 is too small."""
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(config(layers, special))
    with torch.no_grad():
        for name, weight in model.model.language_model.named_parameters():
            if weight.ndim == 2:
                gain = 0.7 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0
                weight.normal_(0, gain / weight.shape[1] ** 0.5)
    return model


def patches(views: Tensor) -> Tensor:
    """uint8 views (B, LOOK, LOOK, 3) to patch vectors (B, GRID * GRID, 3 * PATCH * PATCH) in merge order, in -1..1."""
    b, c = views.shape[0], CELLS
    x = (views.float() / 127.5 - 1.0).permute(0, 3, 1, 2)
    x = x.reshape(b, 3, c, MERGE, PATCH, c, MERGE, PATCH).permute(0, 2, 5, 3, 6, 1, 4, 7)
    return x.reshape(b, GRID * GRID, 3 * PATCH * PATCH)


class Vision(nn.Module):
    """A fast way through a Qwen3-VL vision tower for views of one size."""

    def __init__(self, tower: nn.Module) -> None:
        super().__init__()
        self.tower = tower
        self.grid = torch.tensor([[1, GRID, GRID]])

    def forward(self, views: Tensor) -> tuple[Tensor, list[Tensor]]:
        """uint8 (B, LOOK, LOOK, 3) to merged tokens (B, IMAGE_TOKENS, WIDTH) and the deepstack tokens alike."""
        tower, b = self.tower, views.shape[0]
        embed = tower.patch_embed.proj
        # both temporal slices see the same picture, so their weights add
        weight = embed.weight.sum(2).reshape(embed.weight.shape[0], -1)
        x = F.linear(patches(views), weight, embed.bias) + tower.fast_pos_embed_interpolate(self.grid)
        angle = tower.rot_pos_emb(self.grid)
        angle = torch.cat((angle, angle), -1)
        rotation = (angle.cos(), angle.sin())
        deep = []
        for i, block in enumerate(tower.blocks):
            x = x + self._attend(block.attn, block.norm1(x), rotation)
            x = x + block.mlp(block.norm2(x))
            if i in tower.deepstack_visual_indexes:
                merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(i)]
                deep.append(merger(x.contiguous()).reshape(b, IMAGE_TOKENS, -1))
        return tower.merger(x.contiguous()).reshape(b, IMAGE_TOKENS, -1), deep

    @staticmethod
    def _attend(attention: nn.Module, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        b, n, width = x.shape
        q, k, v = attention.qkv(x).reshape(b, n, 3, attention.num_heads, -1).unbind(2)
        q, k = apply_rotary_pos_emb_vision(q, k, *rotation)
        q, k, v = (t.transpose(1, 2).to(v.dtype) for t in (q, k, v))
        # at these sizes plain products beat the fused kernel, whose backward pass is slow on a CPU
        weight = (q * attention.scaling @ k.transpose(-1, -2)).softmax(-1, dtype=q.dtype)
        out = weight @ v
        return attention.proj(out.transpose(1, 2).reshape(b, n, width))
