"""The language model over a packed batch: transformers' modules, our own way through them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from architecture import IMAGE_TOKENS, Vision, reduced_precision
from packing import Group, Packed
from torch import Tensor, nn
from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb


class Reply(nn.Module):
    """A whole nano model, run over packed trunks and branches."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.vision = Vision(model.model.visual)

    def forward(self, packed: Packed, views: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the tokens at `packed.target_at`, (T, vocabulary), and the views' tokens, both float32."""
        with reduced_precision():
            tokens, deep = self.vision(views)
            hidden = self.hidden(packed, tokens, deep)
            return self.model.lm_head(hidden.index_select(0, packed.target_at)).float(), tokens.float()

    def hidden(self, packed: Packed, tokens: Tensor, deep: list[Tensor]) -> Tensor:
        """Final hidden states of all tokens in flat order, (N, width)."""
        language = self.model.model.language_model
        x = language.embed_tokens(packed.ids)
        seen = tokens.reshape(-1, x.shape[-1]).to(x.dtype).index_select(0, packed.image_from)
        x = x.index_copy(0, packed.image_at, seen)
        rotation = language.rotary_emb(x[None], packed.positions[:, None])
        for i, layer in enumerate(language.layers):
            x = x + self._attend(layer.self_attn, layer.input_layernorm(x), rotation, packed)
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            if i < len(deep):
                extra = deep[i].reshape(-1, x.shape[-1]).to(x.dtype).index_select(0, packed.image_from)
                x = x.index_add(0, packed.image_at, extra)
        return language.norm(x)

    def _attend(self, attention: nn.Module, x: Tensor, rotation: tuple[Tensor, Tensor], packed: Packed) -> Tensor:
        n, d = x.shape[0], attention.head_dim
        q = attention.q_norm(attention.q_proj(x).view(n, -1, d))
        k = attention.k_norm(attention.k_proj(x).view(n, -1, d))
        v = attention.v_proj(x).view(n, -1, d)
        cos, sin = (r[0] for r in rotation)
        q, k = apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1)
        q, k = (q * attention.scaling).to(v.dtype), k.to(v.dtype)
        scenes, p = packed.trunk_shape
        block = slice(0, scenes * p)
        qt, kt, vt = (t[block].view(scenes, p, -1, d) for t in (q, k, v))
        out = [_causal(qt, kt, vt).reshape(scenes * p, -1)]
        out += [_branches(q, k, v, kt, vt, group) for group in packed.groups]
        return attention.o_proj(torch.cat(out))


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention within each trunk: q (B, P, heads, d), k and v (B, P, kv heads, d)."""
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0, enable_gqa=True).transpose(1, 2)


def _branches(q: Tensor, k: Tensor, v: Tensor, kt: Tensor, vt: Tensor, group: Group) -> Tensor:
    """Attention of a group of branches to their trunks and, causally, to themselves; (valid tokens, heads * d)."""
    m, n = group.index.shape
    p, d = kt.shape[1], kt.shape[3]
    # index_select, for the backward pass of plain indexing is slow
    at = group.index.flatten()
    own_q, own_k, own_v = (t.index_select(0, at).view(m, n, -1, d) for t in (q, k, v))
    keys = torch.cat((kt.index_select(0, group.trunk), own_k), 1).transpose(1, 2)
    values = torch.cat((vt.index_select(0, group.trunk), own_v), 1).transpose(1, 2)
    # padding comes last in a row, so the causal mask alone keeps it from being seen
    seen = torch.ones(n, p + n, dtype=torch.bool).tril(p)
    out = F.scaled_dot_product_attention(own_q.transpose(1, 2), keys, values, seen, scale=1.0, enable_gqa=True)
    return out.transpose(1, 2).reshape(m * n, -1).index_select(0, group.valid.flatten().nonzero()[:, 0])


def reply_loss(logits: Tensor, packed: Packed) -> Tensor:
    """Weighted cross-entropy of the learned tokens."""
    loss = F.cross_entropy(logits, packed.target, reduction="none")
    return (loss * packed.weight).sum() / packed.weight.sum()


__all__ = ["IMAGE_TOKENS", "Reply", "reply_loss"]
