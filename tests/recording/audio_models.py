"""A tiny random Whisper with its real processor: 1 s windows at 1 kHz, tokens of bytes."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import transformers as tf
from transformers.convert_slow_tokenizer import bytes_to_unicode

from mixlens import Lens
from tests.measures.models import randomised

RATE = 1000
_SPECIAL = (
    *("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|translate|>"),
    *("<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
)


def sound(seconds: float = 0.29) -> Any:
    return np.sin(np.arange(round(seconds * RATE)) / 5).astype(np.float32)


def _tokenizer() -> Any:
    vocabulary = {sign: number for number, sign in enumerate(bytes_to_unicode().values())}
    vocabulary |= {sign: 256 + number for number, sign in enumerate(_SPECIAL)}
    return tf.WhisperTokenizer(vocab=vocabulary, merges=[], language="en", task="transcribe")


@functools.cache
def whisper_lens() -> Lens:
    words = _tokenizer()
    number = words.convert_tokens_to_ids
    end = number("<|endoftext|>")
    sizes: dict[str, Any] = {
        f"{part}_{name}": value
        for part in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 48))
    }
    config = tf.WhisperConfig(
        vocab_size=len(words),
        num_mel_bins=8,
        d_model=32,
        max_source_positions=50,
        max_target_positions=40,
        pad_token_id=end,
        bos_token_id=end,
        eos_token_id=end,
        decoder_start_token_id=number("<|startoftranscript|>"),
        **sizes,
    )
    model: Any = randomised(tf.WhisperForConditionalGeneration(config)).float().eval()
    options = model.generation_config
    options.no_timestamps_token_id = number("<|notimestamps|>")
    options.lang_to_id = {"<|en|>": number("<|en|>")}
    options.task_to_id = {name: number(f"<|{name}|>") for name in ("transcribe", "translate")}
    options.is_multilingual, options.language, options.task = True, "en", "transcribe"
    options.suppress_tokens = list(range(end + 1, len(words)))
    extractor = tf.WhisperFeatureExtractor(
        feature_size=8, sampling_rate=RATE, hop_length=10, chunk_length=1, n_fft=256
    )
    return Lens(model, processor=tf.WhisperProcessor(extractor, words))
