"""The recording contract on real models and texts, if they are available."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mixlens import Lens

REACTION = "CC(=O)Cl.NCCc1ccccc1>>CC(=O)NCCc1ccccc1"
SYMBOLS = (
    r"\[[^\]]+\]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p"
    r"|\(|\)|\.|=|#|-|\+|\\|/|:|~|@|\?|>>?|\*|\$|%[0-9]{2}|[0-9]"
)


def _texts(name: str, folder: Path) -> tuple[Any, Any]:
    """A longer and a shorter input."""
    if name == "rxnmapper-albert":
        vocabulary = {
            token: number
            for number, token in enumerate((folder / "vocab.txt").read_text().split("\n"))
        }
        ids = [vocabulary[token] for token in ["[CLS]", *re.findall(SYMBOLS, REACTION), "[SEP]"]]
        return {"input_ids": torch.tensor([ids])}, {"input_ids": torch.tensor([ids[:11]])}
    if name.startswith("opus"):
        longer = (
            "The dogs near the river are very old.",
            "Les chiens près de la rivière sont très vieux.",
        )
        return longer, ("The dogs bark.", "Les chiens aboient.")
    return (
        "One day, a little girl found the keys to the old cabinet near the door.",
        "The dogs bark.",
    )


def _far(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", ["stories15M", "opus-mt-en-fr-pruned-fp16", "rxnmapper-albert"])
def test_real_weights_keep_the_contract(name: str, shared: Path) -> None:
    folder = shared / "models" / name
    lens = Lens.from_pretrained(str(folder), dtype=torch.float32)
    longer, shorter = _texts(name, folder)
    recording = lens.record(longer)
    assert lens.verify(longer).native_error <= 1e-5
    for stack in recording.structure.stacks:
        for layer in recording.layers(stack.name):
            assert _far(layer.rerun(0, copies=2)[1], layer.output[0]) <= 1e-5
            for site in layer.sites():
                assert max(site.errors.values()) <= 1e-5, site.errors
                values = site.values[0, :: site.structure.heads // site.structure.kv_heads].clone()
                values[:, 1] = 0
                lost = torch.einsum(
                    "ht,hd->td", site.weights[0, :, :, 1], site.transformed()[0, :, 1]
                )
                inside = layer.rerun(0, values=values[None], kind=site.structure.kind)
                outside = layer.rerun(
                    0, attention_output=(site.projected[0] - lost)[None], kind=site.structure.kind
                )
                assert _far(inside, outside) <= 1e-5
    if isinstance(longer, dict):
        return
    both, alone = lens.record([longer, shorter]), lens.record(shorter)
    for stack in alone.structure.stacks:
        one, many = alone.layers(stack.name)[-1], both.layers(stack.name)[-1]
        count = alone.lengths[stack.name][0]
        assert both.lengths[stack.name][1] == count
        assert _far(many.output[1, :count], one.output[0]) <= 1e-5
