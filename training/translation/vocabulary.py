"""One lower-case BPE for both languages, made so that a word has the same pieces alone and inside a
sentence.

Punctuation is cut off first (hyphens and apostrophes inside a word stay), and every part begins
with the mark of a new word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

PAD, END, UNKNOWN = SPECIALS = ["<pad>", "</s>", "<unk>"]
PAD_ID, END_ID, UNKNOWN_ID = range(3)


def train_vocabulary(texts: Iterable[str], size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(r"\w+(?:[-'’]\w+)*|[^\w\s]"), "removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.Metaspace(prepend_scheme="always", split=False)]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always", split=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIALS,
        min_frequency=2,
        limit_alphabet=200,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", special_tokens=[(END, END_ID)]
    )
    return tokenizer


def save_vocabulary(tokenizer: Tokenizer, folder: Path, positions: int) -> None:
    """Files that AutoTokenizer reads as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": positions,
        "clean_up_tokenization_spaces": False,
        "pad_token": PAD,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings, indent=2) + "\n", encoding="utf-8"
    )
