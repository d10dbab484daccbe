"""The whole pipeline in one command: sample stories, build tokenizers and rows, train both models,
evaluate.

    python -m training.run --data DATA \
        --stories-model STORIES --out build/models
    python -m training.run --smoke --out build/smoke        # seconds, on a CPU, from generated text
    alone

A full run is for a GPU. --seconds-* cut a stage by time (the schedules then end by the clock, and
the number of steps taken is reported); without them seed and step counts fix the run, up to what
GPU kernels leave open.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import Executor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from .benchmarks import load_benchmarks
from .corpora import wikitext_paragraphs
from .lexicon import load_lexicon
from .rows import (
    causal_stream,
    gather,
    generated_rows,
    generated_texts,
    in_chunks,
    make_pool,
    text_rows,
    windows,
)
from .vocabulary import CAUSAL_PAD, CAUSAL_START, save_tokenizer, train_bpe, train_wordpiece

BEGAN = time.monotonic()


def log(message: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.0f} s  {message}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, help="folder with wikitext2, blimp, blimp_cues, linzen_agreement"
    )
    parser.add_argument("--stories-model", type=Path, help="folder of stories15M")
    parser.add_argument("--out", type=Path, required=True, help="models and report.json go here")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default=None, help="cuda or cpu; default: cuda if there is one")
    parser.add_argument("--processes", type=int, default=min(16, os.cpu_count() or 1))
    parser.add_argument("--stories", type=int, default=61_440, help="stories to sample")
    parser.add_argument("--generated", type=int, default=4_000_000, help="sentences of the grammar")
    parser.add_argument("--vocabulary", type=int, default=10_752)
    parser.add_argument("--causal-vocabulary", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=None, help="steps of the masked model")
    parser.add_argument("--causal-steps", type=int, default=None)
    parser.add_argument("--seconds-stories", type=float, default=float("inf"))
    parser.add_argument("--seconds-masked", type=float, default=None)
    parser.add_argument("--seconds-causal", type=float, default=None)
    parser.add_argument(
        "--smoke", action="store_true", help="a few steps of tiny models on generated text"
    )
    arguments = parser.parse_args()
    if not arguments.smoke and (arguments.data is None or arguments.stories_model is None):
        parser.error("a full run needs --data and --stories-model")
    return arguments


def natural_texts(arguments: argparse.Namespace, device: str) -> tuple[list[str], list[str]]:
    """WikiText paragraphs and sampled stories; generated text takes the place of both in a smoke
    run.
    """
    if arguments.smoke:
        return generated_texts(None, arguments.seed + 11, 600), generated_texts(
            None, arguments.seed + 12, 600
        )
    from .stories import sample_stories

    stories = sample_stories(
        arguments.stories_model,
        arguments.stories,
        seed=arguments.seed,
        device=device,
        batch=12288 if device == "cuda" else 64,
        seconds=arguments.seconds_stories,
    )
    log(
        f"{len(stories)} stories, {sum(map(len, stories))} characters; the first:"
        f" {stories[0][:150]!r}"
    )
    return wikitext_paragraphs(arguments.data / "wikitext2", "train"), stories


def masked_stage(
    arguments: argparse.Namespace, pool: Executor, wiki: list[str], stories: list[str], device: str
) -> dict[str, Any]:
    """Tokenizer, rows, training and saving of the masked model."""
    folder, data = arguments.out / "masked", arguments.data
    sample = (
        wiki
        + stories[:20_000]
        + generated_texts(data, arguments.seed + 1, min(120_000, arguments.generated))
    )
    tokenizer = train_wordpiece(sample, load_lexicon().word_forms(), arguments.vocabulary)
    save_tokenizer(tokenizer, folder, causal=False, positions=256)
    file = str(folder / "tokenizer.json")
    log(f"WordPiece of {tokenizer.get_vocab_size()}")
    each = max(1, arguments.generated // (arguments.processes * 4))
    jobs = range(arguments.processes * 4)
    generated = gather(
        pool, generated_rows, [(file, data, arguments.seed + 100 + i, each) for i in jobs]
    )
    from_wiki = gather(pool, text_rows, [(file, data, chunk) for chunk in in_chunks(wiki, 500)])
    from_stories = gather(
        pool, text_rows, [(file, data, chunk) for chunk in in_chunks(stories, 2000)]
    )
    log(f"rows: generated {generated.kept}, WikiText {from_wiki.kept}, stories {from_stories.kept}")

    import numpy as np

    from .rows import SentenceRows
    from .saving import save_model
    from .train_masked import MaskedData, MaskedSettings, MaskedTrainer

    def both(width: str) -> SentenceRows:
        """WikiText sentences are fewer: repeat them up to about two fifths."""
        a, b = getattr(from_wiki, width), getattr(from_stories, width)
        times = max(1, round(0.66 * len(b.ids) / max(1, len(a.ids))))
        ids = np.concatenate([a.ids] * times + [b.ids])
        return SentenceRows(ids, np.zeros_like(ids, dtype=bool))

    settings = MaskedSettings(seconds=arguments.seconds_masked)
    if arguments.steps:
        settings = replace(settings, steps=arguments.steps)
    if arguments.smoke:
        settings = replace(
            settings,
            layers=2,
            hidden=64,
            heads=2,
            inner=128,
            steps=arguments.steps or 4,
            long_rows=4,
            short_rows=(16, 8),
            middle_rows=(4, 4),
        )
    rows = MaskedData(
        windows(from_wiki.stream),
        windows(from_stories.stream),
        both("short"),
        both("middle"),
        generated.short,
        generated.middle,
    )
    trainer = MaskedTrainer(settings, rows, tokenizer.get_vocab(), device, arguments.seed)
    log(f"{sum(p.numel() for p in trainer.model.parameters())} parameters")
    model, steps = trainer.run(log)
    size = save_model(model, tokenizer, folder, causal=False)
    log(f"masked model: {steps} steps, {size} bytes")
    counts = {
        name: {
            "kept": job.kept,
            "dropped": job.dropped,
            "tokens": (
                len(job.stream) or int((job.short.ids > 4).sum()) + int((job.middle.ids > 4).sum())
            ),
        }
        for name, job in (
            ("wikitext", from_wiki),
            ("stories", from_stories),
            ("generated", generated),
        )
    }
    return {
        "settings": asdict(settings),
        "steps": steps,
        "bytes": size,
        "text": counts,
        "vocabulary": tokenizer.get_vocab_size(),
    }


def causal_stage(
    arguments: argparse.Namespace, pool: Executor, wiki: list[str], stories: list[str], device: str
) -> dict[str, Any]:
    """Tokenizer, streams, training and saving of the causal model."""
    folder, data = arguments.out / "causal", arguments.data
    generated = generated_texts(data, arguments.seed + 2, min(300_000, arguments.generated))
    index = load_benchmarks(data)
    sample = [text for text in wiki + stories[:20_000] if not index.holds(text)]
    tokenizer = train_bpe(sample + generated[:10_000], arguments.causal_vocabulary)
    save_tokenizer(tokenizer, folder, causal=True, positions=256)
    start, padding = tokenizer.token_to_id(CAUSAL_START), tokenizer.token_to_id(CAUSAL_PAD)
    file = str(folder / "tokenizer.json")
    jobs = [
        gather(
            pool, causal_stream, [(file, data, chunk, start) for chunk in in_chunks(texts, 1000)]
        )
        for texts in (wiki, stories, generated)
    ]
    log(
        f"byte-level BPE of {tokenizer.get_vocab_size()}; tokens"
        f" {[len(job.stream) for job in jobs]}"
    )

    from .saving import save_model
    from .train_causal import CausalSettings, build_causal, train_causal

    settings = CausalSettings(seconds=arguments.seconds_causal)
    if arguments.causal_steps:
        settings = replace(settings, steps=arguments.causal_steps)
    if arguments.smoke:
        settings = replace(
            settings,
            layers=2,
            hidden=64,
            heads=2,
            key_value_heads=1,
            inner=96,
            steps=arguments.causal_steps or 4,
            rows=(2, 2, 2),
        )
    import torch

    torch.manual_seed(arguments.seed)
    model = build_causal(settings, tokenizer.get_vocab_size(), start, padding)
    log(f"{sum(p.numel() for p in model.parameters())} parameters")
    model, steps = train_causal(
        settings, model, [job.stream for job in jobs], device, arguments.seed, log
    )
    size = save_model(model, tokenizer, folder, causal=True)
    log(f"causal model: {steps} steps, {size} bytes")
    text = {
        name: {"kept": job.kept, "dropped": job.dropped, "tokens": len(job.stream)}
        for name, job in zip(("wikitext", "stories", "generated"), jobs, strict=True)
    }
    return {
        "settings": asdict(settings),
        "steps": steps,
        "bytes": size,
        "text": text,
        "vocabulary": tokenizer.get_vocab_size(),
    }


def main() -> None:
    arguments = parse()
    import torch

    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    if arguments.smoke:
        arguments.generated, arguments.vocabulary, arguments.processes = 1500, 7000, 1
        arguments.causal_vocabulary = 600
    arguments.out.mkdir(parents=True, exist_ok=True)
    report: dict[str, Any] = {"seed": arguments.seed, "torch": torch.__version__}
    with make_pool(arguments.processes) as pool:
        wiki, stories = natural_texts(arguments, device)
        for name, stage in (("masked", masked_stage), ("causal", causal_stage)):
            report[name] = stage(arguments, pool, wiki, stories, device)
            (arguments.out / "training.json").write_text(
                json.dumps(report, indent=2) + "\n", encoding="utf-8"
            )
    if arguments.data is not None:
        from .evaluate import evaluate_causal, evaluate_masked, show

        show("masked", evaluate_masked(arguments.out / "masked", arguments.data, device))
        show("causal", evaluate_causal(arguments.out / "causal", arguments.data, device))
    log("done")


if __name__ == "__main__":
    main()
