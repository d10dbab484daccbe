"""Evaluate a translation model: token accuracy, BLEU of its translations, and AER of its
cross-attention on gold alignments.

python -m training.translation.evaluate --model build/de-en/model --data DATA --json
training/translation/results.json
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, MarianMTModel

from mixlens import Lens
from mixlens.evaluating.case import Case
from mixlens.evaluations import word_alignment

from .pairs import Corpus, Pair, real_corpus

MEASURES = ("attention", "attention_norm")


def words(text: str) -> list[str]:
    """Lower-case words, punctuation apart, as the vocabulary cuts them."""
    return re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", text.lower())


def bleu(translated: Sequence[str], references: Sequence[str], order: int = 4) -> float:
    """Corpus BLEU (Papineni et al. 2002), 0 to 100, on `words`, without smoothing."""
    right, tried, lengths = Counter[int](), Counter[int](), [0, 0]
    for one, other in zip(map(words, translated), map(words, references), strict=True):
        lengths = [lengths[0] + len(one), lengths[1] + len(other)]
        for n in range(1, order + 1):
            mine, theirs = (
                Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1))
                for side in (one, other)
            )
            right[n] += sum((mine & theirs).values())
            tried[n] += sum(mine.values())
    if not all(right[n] for n in range(1, order + 1)):
        return 0.0
    precision = sum(math.log(right[n] / tried[n]) for n in range(1, order + 1)) / order
    return 100 * math.exp(precision + min(0.0, 1 - lengths[1] / lengths[0]))


@torch.inference_mode()
def translations(
    model: MarianMTModel, tokenizer: Any, texts: Sequence[str], *, beams: int = 4, rows: int = 50
) -> list[str]:
    by_number: dict[int, str] = {}
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for start in range(0, len(order), rows):
        places = order[start : start + rows]
        inputs = tokenizer([texts[i] for i in places], return_tensors="pt", padding=True).to(
            model.device
        )
        outputs = model.generate(**inputs, num_beams=beams, max_length=100)
        by_number |= dict(
            zip(places, tokenizer.batch_decode(outputs, skip_special_tokens=True), strict=True)
        )
    return [by_number[i] for i in range(len(texts))]


@torch.inference_mode()
def token_accuracy(
    model: MarianMTModel, tokenizer: Any, pairs: Sequence[Pair], rows: int = 50
) -> float:
    """How often the next token of the reference is the model's first choice."""
    right = count = 0
    for start in range(0, len(pairs), rows):
        german, english = zip(*pairs[start : start + rows], strict=True)
        inputs = tokenizer(
            list(german), text_target=list(english), return_tensors="pt", padding=True
        ).to(model.device)
        real = inputs["labels"] != tokenizer.pad_token_id
        predictions = model(**inputs).logits.argmax(-1)
        right, count = (
            right + int((predictions == inputs["labels"])[real].sum()),
            count + int(real.sum()),
        )
    return right / count


def alignment_errors(
    lens: Lens, corpus: Corpus, measures: Sequence[str] = MEASURES
) -> dict[str, Any]:
    """AER by layer for each measure, both settings, both ways with the end mark."""
    observations_by_setting: dict[tuple[str, str, str], list[Any]] = {}
    for example in corpus.aligned:
        case = Case(lens, example)
        for measure in measures:
            for setting in word_alignment.SETTINGS:
                for eos in word_alignment.EOS:
                    observation = word_alignment.observe(case, measure, setting=setting, eos=eos)
                    observations_by_setting.setdefault((measure, setting, eos), []).append(
                        observation
                    )
    errors: dict[str, Any] = {}
    for (measure, setting, eos), observations in observations_by_setting.items():
        result = word_alignment.conclude(observations)
        figures = {
            "best": result.value,
            "interval": list(result.interval),
            "best_layer": result.details["best_layer"],
        }
        figures |= {"mean": result.details["mean_aer"], "held_out": result.details["held_out_aer"]}
        errors.setdefault(measure, {})[f"{setting} {eos}"] = {
            **figures,
            "layers": result.details["aer"].tolist(),
        }
    return errors


def diagonal_error(corpus: Corpus) -> float:
    """AER of linking every word to the one at the same relative place: the score to beat."""
    total = np.zeros(len(word_alignment.COUNTS))
    for pair in corpus.aligned:
        step = len(pair.source) / len(pair.target)
        links = frozenset((int((place + 0.5) * step), place) for place in range(len(pair.target)))
        total += word_alignment.link_counts(links, pair.sure, pair.possible)
    return float(word_alignment.error_rate(total))


def evaluated(folder: Path, corpus: Corpus, device: str) -> dict[str, Any]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    translated = translations(model, tokenizer, [german for german, _ in corpus.test])
    return {
        "corpus": corpus.source,
        "parameters": sum(p.numel() for p in model.parameters()),
        "token_accuracy": token_accuracy(model, tokenizer, corpus.test),
        "bleu": bleu(translated, [english for _, english in corpus.test]),
        "sentences": len(corpus.test),
        "examples": [
            [*pair, text] for pair, text in zip(corpus.test[:3], translated, strict=False)
        ],
        "aligned_pairs": len(corpus.aligned),
        "diagonal": diagonal_error(corpus),
        "aer": alignment_errors(Lens(model, tokenizer), corpus),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with multi30k and alignment_de_en"
    )
    parser.add_argument("--json", type=Path, default=None, help="write the figures here")
    parser.add_argument("--device", default="cpu")
    arguments = parser.parse_args()
    figures = evaluated(arguments.model, real_corpus(arguments.data), arguments.device)
    text = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
    print(text)
    if arguments.json:
        arguments.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
