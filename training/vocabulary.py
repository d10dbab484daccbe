"""The two tokenizers: a lower-case WordPiece for the masked model, a byte-level BPE for the causal
one.

The WordPiece vocabulary is the lexicon's word forms (so that both numbers of a noun and of a verb
are one token) filled up with the pieces that training on the corpus finds most useful.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

PAD, UNKNOWN, START, END, MASK = SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD_ID, UNKNOWN_ID, START_ID, END_ID, MASK_ID = range(5)
FUNCTION_WORDS = (
    "is are was were has have do does am been be had did this these that those himself herself"
    " itself themselves myself ourselves yourself isn aren wasn weren hasn haven doesn don didn won"
    " wouldn couldn shouldn t s"
)
CAUSAL_START, CAUSAL_PAD = "<s>", "<pad>"


def _wordpiece(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(
        models.WordPiece(vocabulary, unk_token=UNKNOWN, max_input_chars_per_word=100)
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def train_wordpiece(texts: Iterable[str], words: list[str], size: int) -> Tokenizer:
    """A WordPiece of this size (less when the text is small) that holds the given words whole.

    Twice as many pieces as needed are learned; those that the text uses most, next to the given
    words, stay.
    """
    texts = list(texts)
    learner = _wordpiece({UNKNOWN: 0})
    trainer = trainers.WordPieceTrainer(
        vocab_size=2 * size,
        special_tokens=SPECIALS,
        limit_alphabet=120,
        min_frequency=2,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    learned = sorted(learner.get_vocab().items(), key=lambda item: item[1])
    characters = [piece for piece, _ in learned if len(piece.removeprefix("##")) == 1]
    alphabetic = [word for word in FUNCTION_WORDS.split() + words if word.isalpha()]
    fixed = dict.fromkeys([*SPECIALS, *characters, *alphabetic])
    everything = dict.fromkeys([*fixed, *(piece for piece, _ in learned)])
    counter = _wordpiece({piece: i for i, piece in enumerate(everything)})
    uses: Counter[str] = Counter()
    for start in range(0, len(texts), 2000):
        for encoding in counter.encode_batch(texts[start : start + 2000], add_special_tokens=False):
            uses.update(encoding.tokens)
    extra = sorted(
        (piece for piece in uses if piece not in fixed), key=lambda piece: (-uses[piece], piece)
    )
    tokenizer = _wordpiece({piece: i for i, piece in enumerate([*fixed, *extra][:size])})
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A {END}",
        pair=f"{START} $A {END} $B:1 {END}:1",
        special_tokens=[(START, START_ID), (END, END_ID)],
    )
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def train_bpe(texts: Iterable[str], size: int) -> Tokenizer:
    """A cased byte-level BPE whose start token also parts one text from the next."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[CAUSAL_PAD, CAUSAL_START],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    start = processors.TemplateProcessing(
        single=f"{CAUSAL_START} $A",
        pair=f"{CAUSAL_START} $A {CAUSAL_START}:1 $B:1",
        special_tokens=[(CAUSAL_START, tokenizer.token_to_id(CAUSAL_START))],
    )
    no_spaces_in_offsets = processors.ByteLevel(trim_offsets=True)
    tokenizer.post_processor = processors.Sequence([no_spaces_in_offsets, start])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, causal: bool, positions: int) -> None:
    """Writes tokenizer.json and the configuration that makes AutoTokenizer read it as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": positions,
        "clean_up_tokenization_spaces": False,
    }
    if causal:
        settings |= {
            "bos_token": CAUSAL_START,
            "eos_token": CAUSAL_START,
            "pad_token": CAUSAL_PAD,
            "model_input_names": ["input_ids", "attention_mask"],
        }
    else:
        settings |= {
            "pad_token": PAD,
            "unk_token": UNKNOWN,
            "cls_token": START,
            "sep_token": END,
            "mask_token": MASK,
            "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings, indent=2) + "\n", encoding="utf-8"
    )
