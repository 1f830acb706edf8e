"""Write a trained model in Hugging Face form and as GGUF, both holding the same 16-bit weights.

The GGUF side needs only `gguf` and NumPy. A Qwen3-VL becomes two files: the language model (architecture `qwen3vl`) and
the projector with the vision tower (`clip`, projector `qwen3vl_merger`).
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import gguf
import numpy as np
import tokenizer as nano_tokenizer
import torch
from grid import LOOK
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from torch import nn

HERE = Path(__file__).parent
TEMPLATE = (HERE / "chat_template.jinja").read_text()

_TOP = {"embed_tokens": "token_embd", "norm": "output_norm"}
_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.down_proj": "ffn_down",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
}
_BLOCK = {
    "attn.proj": "attn_out",
    "attn.qkv": "attn_qkv",
    "mlp.linear_fc1": "ffn_up",
    "mlp.linear_fc2": "ffn_down",
    "norm1": "ln1",
    "norm2": "ln2",
}
_MERGER = {
    "merger.linear_fc1": "mm.0",
    "merger.linear_fc2": "mm.2",
    "merger.norm": "v.post_ln",
    "pos_embed": "v.position_embd",
}

Weights = dict[str, np.ndarray]


def weights(model: nn.Module) -> Weights:
    """All weights as float16, under transformers' names; the tied output head is left out."""
    state = {name: tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    return {name: tensor.detach().to(torch.float16).numpy() for name, tensor in state.items()}


def save_hugging_face(model: nn.Module, tokenizer: Tokenizer, folder: Path) -> None:
    """Write what transformers, vLLM and SGLang load."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    settings = model.config.to_dict()
    settings["architectures"] = ["Qwen3VLForConditionalGeneration"]
    settings["dtype"] = settings["text_config"]["dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(settings, indent=1, sort_keys=True, default=str) + "\n")
    special = nano_tokenizer.special(tokenizer)
    generation = {
        "do_sample": False,
        "eos_token_id": [special.end_of_turn, special.end_of_text],
        "pad_token_id": special.end_of_text,
    }
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")
    image = {
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "image_std": [0.5, 0.5, 0.5],
        "merge_size": 2,
        "patch_size": 16,
        "processor_class": "Qwen3VLProcessor",
        "resample": 3,
        "rescale_factor": 1 / 255,
        "size": {"longest_edge": LOOK * LOOK, "shortest_edge": LOOK * LOOK},
        "temporal_patch_size": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(image, indent=1) + "\n")
    video = {**image, "image_processor_type": None, "video_processor_type": "Qwen3VLVideoProcessor"}
    del video["image_processor_type"]
    (folder / "video_preprocessor_config.json").write_text(json.dumps(video, indent=1) + "\n")
    nano_tokenizer.save(tokenizer, TEMPLATE, folder)


def save_gguf(model: nn.Module, tokenizer: Tokenizer, name: str, folder: Path) -> tuple[Path, Path]:
    """Write `name-f16.gguf` and `name-mmproj-f16.gguf`."""
    folder.mkdir(parents=True, exist_ok=True)
    text, vision = folder / f"{name}-f16.gguf", folder / f"{name}-mmproj-f16.gguf"
    state = weights(model)
    _write_text(text, name, model.config, tokenizer, state)
    _write_vision(vision, name, model.config, state)
    return text, vision


def _write_text(path: Path, name: str, config: object, tokenizer: Tokenizer, state: Weights) -> None:
    t, v = config.text_config, config.vision_config
    out = gguf.GGUFWriter(path, "qwen3vl")
    out.add_type("model")
    out.add_name(f"SpecEyes nano {name}")
    out.add_license("apache-2.0")
    out.add_block_count(t.num_hidden_layers)
    out.add_context_length(t.max_position_embeddings)
    out.add_embedding_length(t.hidden_size)
    out.add_feed_forward_length(t.intermediate_size)
    out.add_head_count(t.num_attention_heads)
    out.add_head_count_kv(t.num_key_value_heads)
    out.add_key_length(t.head_dim)
    out.add_value_length(t.head_dim)
    out.add_rope_dimension_sections([*t.rope_scaling["mrope_section"], 0])
    out.add_rope_freq_base(t.rope_theta)
    out.add_layer_norm_rms_eps(t.rms_norm_eps)
    out.add_uint32("qwen3vl.n_deepstack_layers", len(v.deepstack_visual_indexes))
    _file_type(out)
    _write_tokenizer(out, tokenizer, t.vocab_size)
    for key, tensor in state.items():
        if not key.startswith("model.language_model."):
            continue
        base, kind = key.removeprefix("model.language_model.").rsplit(".", 1)
        layer = re.match(r"layers\.(\d+)\.(.+)", base)
        target = f"blk.{layer[1]}.{_LAYER[layer[2]]}" if layer else _TOP[base]
        _add(out, f"{target}.{kind}", tensor)
    _finish(out)


def _write_tokenizer(out: gguf.GGUFWriter, tokenizer: Tokenizer, size: int) -> None:
    content = json.loads(tokenizer.to_str())
    tokens = [f"[PAD{i}]" for i in range(size)]
    kinds = [int(gguf.TokenType.UNUSED)] * size
    for text, i in content["model"]["vocab"].items():
        tokens[i], kinds[i] = text, int(gguf.TokenType.NORMAL)
    for added in content["added_tokens"]:
        kind = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
        tokens[added["id"]], kinds[added["id"]] = added["content"], int(kind)
    special = nano_tokenizer.special(tokenizer)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("qwen2")
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    merges = content["model"]["merges"]
    out.add_token_merges([" ".join(m) if isinstance(m, list) else m for m in merges])
    out.add_eos_token_id(special.end_of_turn)
    out.add_bos_token_id(special.end_of_text)
    out.add_pad_token_id(special.end_of_text)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)


def _write_vision(path: Path, name: str, config: object, state: Weights) -> None:
    v = config.vision_config
    out = gguf.GGUFWriter(path, "clip")
    out.add_type("mmproj")
    out.add_name(f"SpecEyes nano {name} vision")
    out.add_license("apache-2.0")
    out.add_bool("clip.has_vision_encoder", True)
    out.add_string("clip.projector_type", "qwen3vl_merger")
    out.add_bool("clip.use_gelu", True)
    numbers = {
        "projection_dim": v.out_hidden_size,
        "image_size": round(v.num_position_embeddings**0.5) * v.patch_size,
        "patch_size": v.patch_size,
        "embedding_length": v.hidden_size,
        "feed_forward_length": v.intermediate_size,
        "block_count": v.depth,
        "attention.head_count": v.num_heads,
        "spatial_merge_size": v.spatial_merge_size,
    }
    for key, value in numbers.items():
        out.add_uint32(f"clip.vision.{key}", value)
    out.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    out.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    out.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    deep = list(v.deepstack_visual_indexes)
    out.add_array("clip.vision.is_deepstack_layers", [i in deep for i in range(v.depth)])
    _file_type(out)
    for key, tensor in state.items():
        if key.startswith("model.visual."):
            for target, part in _vision_tensors(key.removeprefix("model.visual."), tensor, deep):
                _add(out, target, part)
    _finish(out)


def _vision_tensors(key: str, tensor: np.ndarray, deep: list[int]) -> list[tuple[str, np.ndarray]]:
    base, kind = key.rsplit(".", 1)
    if base == "patch_embed.proj":
        if kind == "bias":
            return [("v.patch_embd.bias", tensor)]
        # llama.cpp holds the two temporal slices of the kernel apart
        return [("v.patch_embd.weight", tensor[:, :, 0]), ("v.patch_embd.weight.1", tensor[:, :, 1])]
    if block := re.match(r"blocks\.(\d+)\.(.+)", base):
        return [(f"v.blk.{block[1]}.{_BLOCK[block[2]]}.{kind}", tensor)]
    if merger := re.match(r"deepstack_merger_list\.(\d+)\.(.+)", base):
        part = merger[2].replace("linear_", "")
        return [(f"v.deepstack.{deep[int(merger[1])]}.{part}.{kind}", tensor)]
    return [(f"{_MERGER[base]}.{kind}", tensor)]


def _file_type(out: gguf.GGUFWriter) -> None:
    out.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    out.add_quantization_version(gguf.GGML_QUANT_VERSION)


def _add(out: gguf.GGUFWriter, name: str, tensor: np.ndarray) -> None:
    # vectors and positions are added, not multiplied: llama.cpp wants those in 32 bits
    wide = tensor.ndim == 1 or "position_embd" in name
    out.add_tensor(name, np.ascontiguousarray(tensor, np.float32 if wide else np.float16))


def _finish(out: gguf.GGUFWriter) -> None:
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def write_manifest(folder: Path, about: dict[str, object]) -> None:
    """`manifest.json`: size and SHA-256 of every model file in the folder, and what they are."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
        for path in sorted(folder.glob("*.gguf"))
    }
    (folder / "manifest.json").write_text(json.dumps({"files": files, **about}, indent=2) + "\n")
