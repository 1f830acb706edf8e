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
    b, p, h, d = q.shape
    g = k.shape[2]
    q = q.view(b, p, g, h // g, d).permute(0, 2, 3, 1, 4).reshape(b, g, -1, d)
    score = (q @ k.permute(0, 2, 3, 1)).view(b, g, h // g, p, p)
    mask = torch.ones(p, p, dtype=torch.bool).triu(1)
    weight = score.masked_fill(mask, -1e4).softmax(-1, dtype=v.dtype).view(b, g, -1, p)
    out = weight @ v.permute(0, 2, 1, 3)
    return out.view(b, g, h // g, p, d).permute(0, 3, 1, 2, 4).reshape(b, p, h * d)


def _branches(q: Tensor, k: Tensor, v: Tensor, kt: Tensor, vt: Tensor, group: Group) -> Tensor:
    """Attention of a group of branches to their trunks and, causally, to themselves; (valid tokens, heads * d)."""
    m, n = group.index.shape
    p, g, d = kt.shape[1:]
    h = q.shape[1]
    # index_select, for the backward pass of plain indexing is slow
    at = group.index.flatten()
    own_q = q.index_select(0, at).view(m, n, g, h // g, d).permute(0, 2, 3, 1, 4).reshape(m, g, -1, d)
    own_k = k.index_select(0, at).view(m, n, g, d).permute(0, 2, 3, 1)
    own_v = v.index_select(0, at).view(m, n, g, d).permute(0, 2, 1, 3)
    trunk_k = kt.index_select(0, group.trunk).permute(0, 2, 3, 1)
    trunk_v = vt.index_select(0, group.trunk).permute(0, 2, 1, 3)
    # padding comes last in a row, so the causal mask alone keeps it from being seen
    mask = torch.ones(n, n, dtype=torch.bool).triu(1)
    own = (own_q @ own_k).view(m, g, h // g, n, n).masked_fill(mask, -1e4).view(m, g, -1, n)
    weight = torch.cat((own_q @ trunk_k, own), -1).softmax(-1, dtype=v.dtype)
    out = weight[..., :p] @ trunk_v + weight[..., p:] @ own_v
    out = out.view(m, g, h // g, n, d).permute(0, 3, 1, 2, 4).reshape(m * n, h * d)
    return out.index_select(0, group.valid.flatten().nonzero()[:, 0])


def reply_loss(logits: Tensor, packed: Packed) -> Tensor:
    """Weighted cross-entropy of the learned tokens."""
    loss = F.cross_entropy(logits, packed.target, reduction="none")
    return (loss * packed.weight).sum() / packed.weight.sum()


__all__ = ["IMAGE_TOKENS", "Reply", "reply_loss"]
