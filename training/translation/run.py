"""Trains a small German-English model on Multi30k and measures it.

    python -m training.translation.run --data DATA --out build/de-en python -m
    training.translation.run --smoke --out build/de-en-smoke       # seconds, on a CPU, without any
    data

Writes OUT/model (weights, configuration, tokenizer, card.md), OUT/training.json and
OUT/figures.json. A killed run goes on from its last state when the command is given again.
--train-only leaves the evaluation to `training.translation.evaluate`.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from .pairs import Corpus, real_corpus, toy_corpus
from .train import SMOKE, Settings, Trainer
from .vocabulary import save_vocabulary, train_vocabulary

BEGAN = time.monotonic()


def log(message: str) -> None:
    print(f"{time.monotonic() - BEGAN:6.0f} s  {message}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with multi30k and alignment_de_en")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument(
        "--seconds",
        type=float,
        default=None,
        help="end by the clock: the learning rate falls to zero by then",
    )
    parser.add_argument("--device", default=None, help="cuda or cpu; default: cuda if there is one")
    parser.add_argument("--train-only", action="store_true")
    parser.add_argument(
        "--smoke", action="store_true", help="a few steps of a tiny model on made-up sentences"
    )
    arguments = parser.parse_args()
    if not arguments.smoke and arguments.data is None:
        parser.error("a full run needs --data")
    return arguments


def vocabulary_of(corpus: Corpus, settings: Settings, folder: Path) -> Tokenizer:
    file = folder / "tokenizer.json"
    if file.exists():  # of the run that is being resumed
        return Tokenizer.from_file(str(file))
    tokenizer = train_vocabulary(
        [text for pair in corpus.train for text in pair], settings.vocabulary
    )
    save_vocabulary(tokenizer, folder, settings.positions)
    return tokenizer


def save(model: Any, folder: Path) -> None:
    """Half precision on disk; the configuration asks for float32, in which the measures compute."""
    copy.deepcopy(model).to("cpu", torch.float16).save_pretrained(folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**config, "dtype": "float32"}, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    arguments = parse()
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    settings = replace(
        SMOKE if arguments.smoke else Settings(), seed=arguments.seed, seconds=arguments.seconds
    )
    if arguments.steps:
        settings = replace(settings, steps=arguments.steps)
    corpus = toy_corpus(arguments.seed) if arguments.smoke else real_corpus(arguments.data)
    folder = arguments.out / "model"
    tokenizer = vocabulary_of(corpus, settings, folder)
    trainer = Trainer(settings, tokenizer, corpus.train, corpus.valid, arguments.out, device)
    log(
        f"{len(corpus.train)} pairs in {len(trainer.train)} batches, vocabulary"
        f" {tokenizer.get_vocab_size()}, from step {trainer.step}"
    )
    began = time.monotonic()
    model = trainer.run(log)
    save(model, folder)
    training = {
        "settings": asdict(settings),
        "steps": trainer.step,
        "minutes": (time.monotonic() - began) / 60,
        "device": torch.cuda.get_device_name() if device == "cuda" else "a CPU",
        "validation_loss": trainer.best,
        "history": trainer.history,
        "torch": torch.__version__,
    }
    (arguments.out / "training.json").write_text(
        json.dumps(training, indent=2) + "\n", encoding="utf-8"
    )
    if not arguments.train_only:
        measure(arguments.out, corpus, device)
    log("done")


def measure(out: Path, corpus: Corpus, device: str) -> None:
    """The figures of a trained model, and its card."""
    from .card import card
    from .evaluate import evaluated

    training = json.loads((out / "training.json").read_text(encoding="utf-8"))
    figures = evaluated(out / "model", corpus, device)
    (out / "figures.json").write_text(
        json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    (out / "model" / "card.md").write_text(card(training, figures), encoding="utf-8")
    log(
        f"BLEU {figures['bleu']:.1f}, token accuracy {figures['token_accuracy']:.3f}; see"
        f" {out / 'model' / 'card.md'}"
    )


if __name__ == "__main__":
    main()
