"""Loading a model and its tokenizer by hub name or folder, as the class its checkpoint names."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


def loaded(name: str, tokenizer: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The model in eval mode, and its tokenizer (None where it has none)."""
    import transformers

    shared = {
        key: options[key]
        for key in ("revision", "token", "cache_dir", "local_files_only", "trust_remote_code")
        if key in options
    }
    config = transformers.AutoConfig.from_pretrained(name, **shared)
    cls = transformers.AutoModel
    for architecture in getattr(config, "architectures", None) or []:
        cls = getattr(transformers, architecture, cls)
    if options.get("trust_remote_code") and getattr(config, "auto_map", None):
        cls = transformers.AutoModel
    model = cls.from_pretrained(name, **options).eval()
    if tokenizer is None:
        try:
            tokenizer = transformers.AutoTokenizer.from_pretrained(name, **shared)
        except (OSError, ValueError, KeyError, ImportError, AttributeError, TypeError):
            # a folder without tokenizer files: inputs are then tensors, and a text says so
            tokenizer = None
        if tokenizer is not None and not _knows_words(tokenizer):
            tokenizer = None
    elif isinstance(tokenizer, str):
        tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer, **shared)
    return model, tokenizer


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """No progress bar for what takes a tenth of a second."""
    import transformers

    bars: Any = transformers.utils.logging
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _knows_words(tokenizer: Any) -> bool:
    """transformers makes an empty tokenizer for a folder that has none: it knows its special tokens
    and nothing else.
    """
    return len(set(tokenizer.get_vocab()) - set(tokenizer.all_special_tokens)) > 1
