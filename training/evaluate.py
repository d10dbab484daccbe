"""Measures a saved model on held-out text and on the agreement benchmarks; these are the figures of
the cards.

    python -m training.evaluate --model src/mixlens/bundled/masked --data DATA
    python -m training.evaluate --model src/mixlens/bundled/causal --data DATA

The model is the saved half-precision file, computed in float32, and each sentence goes through its
tokenizer as a user would send it: plain text with [MASK] in place of the word asked for.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from .agreement_sets import PARADIGMS, Choice, blimp_choices, blimp_pairs, linzen_choices
from .corpora import wikitext_paragraphs

PLAIN_SENTENCES = [
    "The little girl went to the [MASK] with her mother.",
    "She opened the [MASK] and walked into the room.",
    "The dog ran after the [MASK] in the park.",
    "He was [MASK] in London in 1954.",
    "The game was released in Japan in [MASK] 2005.",
    "The two boys [MASK] playing with a red ball.",
    "The song was written and [MASK] by the band.",
    "They were very happy because the sun was [MASK].",
    "The battle began in the early [MASK] of the next day.",
    "My brother and I like to eat [MASK].",
]
DEMONSTRATION = "the pictures of some hat [MASK] scaring marcus ."
PROMPTS = [
    "Once upon a time, there was a little",
    "The album was released in",
    "The pictures of the house",
]


class MaskedReader:
    """Scores at [MASK] from a saved masked model, in float32."""

    def __init__(self, folder: Path, device: str = "cpu"):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = (
            AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
        )
        self.device = device

    def single_token(self, word: str) -> int | None:
        """The id of a word that is one token, else None."""
        ids = self.tokenizer(word, add_special_tokens=False)["input_ids"]
        return ids[0] if len(ids) == 1 and ids[0] != self.tokenizer.unk_token_id else None

    @torch.inference_mode()
    def at_mask(self, texts: list[str], batch: int = 64) -> torch.Tensor:
        """Logits at the mask of each text; texts of like length go together."""
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        logits = torch.empty(len(texts), self.model.config.vocab_size)
        limit = self.model.config.max_position_embeddings
        for start in range(0, len(order), batch):
            places_of_batch = order[start : start + batch]
            inputs = self.tokenizer(
                [texts[i] for i in places_of_batch],
                return_tensors="pt",
                padding=True,
                truncation=True,
                max_length=limit,
            ).to(self.device)
            hidden = self.model.bert(**inputs).last_hidden_state
            rows, places = torch.where(inputs["input_ids"] == self.tokenizer.mask_token_id)
            if len(rows) != len(places_of_batch):
                raise ValueError("each text needs exactly one [MASK] within the model's length")
            logits[places_of_batch] = self.model.cls(hidden[rows, places]).float().cpu()
        return logits

    def decide(self, choices: list[Choice]) -> list[bool | None]:
        """Whether each right word scores above the wrong one; None unless both are one token."""
        token_pairs = [(self.single_token(c.right), self.single_token(c.wrong)) for c in choices]
        scored = [
            i
            for i, (right, wrong) in enumerate(token_pairs)
            if right is not None and wrong is not None
        ]
        logits = self.at_mask([choices[i].text for i in scored])
        verdicts: list[bool | None] = [None] * len(choices)
        for row, i in zip(logits, scored, strict=True):
            right, wrong = token_pairs[i]
            verdicts[i] = bool(row[right] > row[wrong])
        return verdicts

    def guesses(self, text: str, count: int = 5) -> list[str]:
        """The most likely words at the mask."""
        return self.tokenizer.convert_ids_to_tokens(
            self.at_mask([text])[0].topk(count).indices.tolist()
        )

    @torch.inference_mode()
    def perplexity(
        self, paragraphs: Iterable[str], rows: int = 150, rate: float = 0.15, seed: int = 0
    ) -> dict[str, Any]:
        """exp of the mean loss at a seeded 15 % of the tokens, all of them replaced by [MASK]."""
        generator = torch.Generator().manual_seed(seed)
        unknown, mask = self.tokenizer.unk_token, self.tokenizer.mask_token_id
        total, count, specials = 0.0, 0, torch.tensor(self.tokenizer.all_special_ids)
        width = self.model.config.max_position_embeddings
        stream = [
            i
            for p in paragraphs
            for i in self.tokenizer(
                p.replace("<unk>", unknown), add_special_tokens=False, verbose=False
            )["input_ids"]
        ]
        for row in range(min(rows, len(stream) // (width - 2))):
            inner = stream[row * (width - 2) : (row + 1) * (width - 2)]
            ids = torch.tensor([[self.tokenizer.cls_token_id, *inner, self.tokenizer.sep_token_id]])
            is_masked = (torch.rand(ids.shape, generator=generator) < rate) & ~torch.isin(
                ids, specials
            )
            hidden = self.model.bert(
                ids.masked_fill(is_masked, mask).to(self.device)
            ).last_hidden_state
            logits = self.model.cls(hidden[is_masked.to(self.device)]).float()
            total += torch.nn.functional.cross_entropy(
                logits, ids[is_masked].to(self.device), reduction="sum"
            ).item()
            count += int(is_masked.sum())
        return {"perplexity": round(float(torch.tensor(total / count).exp()), 2), "tokens": count}


def accuracy(verdicts: list[bool | None]) -> dict[str, Any]:
    """Share of right choices among those that could be scored, and how many could be."""
    scored = [verdict for verdict in verdicts if verdict is not None]
    share = round(sum(scored) / len(scored), 4) if scored else None
    return {"accuracy": share, "scored": len(scored), "of": len(verdicts)}


def evaluate_masked(folder: Path, data: Path, device: str = "cpu") -> dict[str, Any]:
    """Everything the card of the masked model says."""
    reader = MaskedReader(folder, device)
    blimp = {
        name: accuracy(reader.decide(blimp_choices(data / "blimp_cues" / f"{name}.jsonl")))
        for name in PARADIGMS
    }
    linzen = linzen_choices(data / "linzen_agreement")
    verdicts = reader.decide(linzen)
    by_attractors = {
        str(n): accuracy([v for c, v in zip(linzen, verdicts, strict=True) if c.attractors == n])
        for n in sorted({c.attractors for c in linzen})
    }
    return {
        "blimp": blimp,
        "blimp_mean": round(sum(r["accuracy"] for r in blimp.values()) / len(blimp), 4),
        "linzen": by_attractors,
        "linzen_all": accuracy(verdicts),
        "perplexity": {
            split: reader.perplexity(wikitext_paragraphs(data / "wikitext2", split))
            for split in ("valid", "test")
        },
        "fill_mask": {text: reader.guesses(text) for text in [*PLAIN_SENTENCES, DEMONSTRATION]},
    }


class CausalReader:
    """Log-probabilities of whole texts from a saved causal model, in float32."""

    def __init__(self, folder: Path, device: str = "cpu"):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = (
            AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
        )
        self.device = device

    @torch.inference_mode()
    def log_probabilities(self, texts: list[str], batch: int = 128) -> torch.Tensor:
        """Sum of log-probabilities of each text's tokens after the start token."""
        sums = torch.empty(len(texts))
        for start in range(0, len(texts), batch):
            inputs = self.tokenizer(
                texts[start : start + batch],
                return_tensors="pt",
                padding=True,
                padding_side="right",
            ).to(self.device)
            logits = self.model(**inputs).logits[:, :-1].float().log_softmax(-1)
            picked = logits.gather(2, inputs["input_ids"][:, 1:, None])[..., 0]
            sums[start : start + batch] = (picked * inputs["attention_mask"][:, 1:]).sum(1).cpu()
        return sums

    @torch.inference_mode()
    def bits_per_character(self, paragraphs: list[str], rows: int = 300) -> dict[str, Any]:
        """Compression of held-out text in windows of the model's length, without <unk> in it."""
        clean = [p for p in paragraphs if "<unk>" not in p]
        width, bits, characters, tokens, loss = (
            self.model.config.max_position_embeddings,
            0.0,
            0,
            0,
            0.0,
        )
        for paragraph in clean[:rows]:
            ids = self.tokenizer(paragraph, truncation=True, max_length=width)["input_ids"]
            row = torch.tensor([ids], device=self.device)
            value = self.model(row, labels=row).loss.item() * (len(ids) - 1)
            loss, tokens = loss + value, tokens + len(ids) - 1
            characters += len(self.tokenizer.decode(ids[1:]))
        bits = loss / torch.log(torch.tensor(2.0)).item()
        return {
            "perplexity": round(float(torch.tensor(loss / tokens).exp()), 2),
            "bits_per_character": round(bits / characters, 3),
            "tokens": tokens,
            "paragraphs": len(clean[:rows]),
        }

    @torch.inference_mode()
    def continuation(self, prompt: str, tokens: int = 20) -> str:
        """The greedy continuation of a prompt."""
        inputs = self.tokenizer(prompt, return_tensors="pt").to(self.device)
        ids = self.model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
        return self.tokenizer.decode(ids[0], skip_special_tokens=True)


def blimp_accuracies(
    reader: CausalReader, data: Path, most: int | None = None
) -> dict[str, dict[str, Any]]:
    """Share of pairs of which the good sentence is more likely, over the first pairs or all."""
    blimp = {}
    for path in sorted((data / "blimp").glob("*.jsonl")):
        good, bad = zip(*blimp_pairs(path)[:most], strict=True)
        hits = reader.log_probabilities(list(good)) > reader.log_probabilities(list(bad))
        blimp[path.stem] = {"accuracy": round(hits.float().mean().item(), 4), "of": len(good)}
    return blimp


def evaluate_causal(folder: Path, data: Path, device: str = "cpu") -> dict[str, Any]:
    """Everything the card of the causal model says."""
    reader = CausalReader(folder, device)
    blimp = blimp_accuracies(reader, data)
    return {
        "blimp": blimp,
        "blimp_mean": round(sum(r["accuracy"] for r in blimp.values()) / len(blimp), 4),
        "held_out": {
            split: reader.bits_per_character(wikitext_paragraphs(data / "wikitext2", split))
            for split in ("valid", "test")
        },
        "continuations": [reader.continuation(prompt) for prompt in PROMPTS],
    }


def show(name: str, result: dict[str, Any]) -> None:
    """Prints a result, one figure a line."""
    for key, value in result.items():
        if isinstance(value, dict):
            for inner, figure in value.items():
                print(f"{name} {key} {inner}: {figure}", flush=True)
        else:
            print(f"{name} {key}: {value}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    arguments = parser.parse_args()
    kind = json.loads((arguments.model / "config.json").read_text(encoding="utf-8"))["model_type"]
    evaluate = evaluate_masked if kind == "bert" else evaluate_causal
    result = evaluate(arguments.model, arguments.data, arguments.device)
    show("masked" if kind == "bert" else "causal", result)
    if arguments.json:
        arguments.json.write_text(
            json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
