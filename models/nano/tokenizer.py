"""A byte-level BPE tokenizer in Qwen's manner, small enough for small models.

The pre-tokenizer, the special tokens and their kinds are Qwen's, so that llama.cpp's `qwen2` pre-tokenizer and the
Hugging Face one cut text alike. Digits stand alone; `yes`, `no` and the letters of options are one token each.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from architecture import Special
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
VISIBLE = [
    *("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>", "<answer>", "</answer>"),
]
"""Added tokens that are text all the same: servers send them."""

PLAIN = """
A small model reads short texts. It sees an image first and a question after it, and it says what it sees in few words.
Left, right, above, below, near, far, one, two, three, four, none; yes or no; true or false. The letter of an option is
A, B, C, D, E or F. Please look at the picture and tell me what is there. How many things can you see? Which of them is
the largest? I do not know. The tool could not do that: the box lies outside the image, which is 192 pixels wide and 192
pixels high. You have seen this part before. Give the answer now. An error came back, so try another box, please.
"""

ENSURE_WHOLE = ["yes", "no", "Yes", "No", *"ABCDEF"]


def train(texts: Iterable[str], vocabulary: int = 1024) -> Tokenizer:
    """Train merges on `texts`. `vocabulary` counts all tokens, the added ones included."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(CONTROL) - len(VISIBLE),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        min_frequency=2,
    )

    def stream() -> Iterable[str]:
        for text in texts:
            for tag in (*CONTROL, *VISIBLE):
                text = text.replace(tag, "\n")
            yield text
        for _ in range(50):
            yield PLAIN
            yield from ENSURE_WHOLE

    tokenizer.train_from_iterator(stream(), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in CONTROL])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in VISIBLE])
    for word in ENSURE_WHOLE:
        assert len(tokenizer.encode(word).ids) == 1, f"{word!r} must be one token for clean gating"
    return tokenizer


def special(tokenizer: Tokenizer) -> Special:
    """The ids that a model configuration names."""
    ids = {t: tokenizer.token_to_id(t) for t in CONTROL}
    size = tokenizer.get_vocab_size()
    return Special(
        vocab_size=(size + 63) // 64 * 64,
        image_pad=ids["<|image_pad|>"],
        video_pad=ids["<|video_pad|>"],
        vision_start=ids["<|vision_start|>"],
        vision_end=ids["<|vision_end|>"],
        end_of_turn=ids["<|im_end|>"],
        end_of_text=ids["<|endoftext|>"],
    )


def save(tokenizer: Tokenizer, template: str, folder: Path) -> None:
    """Write the files that transformers, vLLM and the GGUF conversion read."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    content = json.loads((folder / "tokenizer.json").read_text())
    model = content["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False))
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    keys = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    settings = {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": {str(a["id"]): {k: a[k] for k in keys} for a in content["added_tokens"]},
        "additional_special_tokens": CONTROL[1:],
        "bos_token": None,
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "errors": "replace",
        "model_max_length": 8192,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1, ensure_ascii=False))
    (folder / "chat_template.jinja").write_text(template)
