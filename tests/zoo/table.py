"""Write docs/coverage.md: the layers that mixlens measures on each model class of the zoo."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.zoo.hub import conformance_types, with_section
from tests.zoo.journal import Finding

_HEAD = """# Coverage

This page lists the model classes of transformers that mixlens can measure. `make zoo` writes
this page. It builds {classes} model classes of {types} model types from transformers' own test
configurations, with random weights. mixlens runs each model on the input of its test
configuration, splits the layers into parts, and compares these parts with the model's activations.
Versions: {versions}.

* **Verified**: {verified} classes. The parts of every layer add up to its output, except in *open*
  layers, for which mixlens can still measure the attention and its effect on the layer's output.
  {open} classes have open layers.
* **Partially supported**: {part} classes. mixlens measures the layers that it can verify and lists
  the others.
* **Not supported**: {refused} classes. mixlens raises an error.
* **Independent checks**: {checks} checks on {checked} classes, {violations} violations. They
  compare attention weights with the model's own, Value Zeroing with a hook on the model's value
  projection (on the test input and on 40 tokens), selected targets with full maps, one text with a
  batch of two, and a padded text with the text alone. They also check that the model is
  unchanged afterwards.

| check | classes | largest difference |
|---|---|---|
{kinds}
Differences are relative to the largest score of a target, and absolute for attention weights. Run
`mixlens doctor MODEL` to see which measures are defined. [Recording](recording.md) describes the
layer structures that mixlens verifies.

## Reasons

The table lists the reasons why mixlens treats a layer as open or leaves it out. The first column
quotes the message. For each reason, we looked at the code of at least one class.

| reason | class | code |
|---|---|---|
| no softmax attention | FNet | Fourier transforms (`fftn`) mix the tokens |
| | Autoformer | correlates by `rfft` and adds up shifted copies |
| | Reformer | hashes tokens into buckets, `exp` minus `logsumexp` in each |
| | I-BERT | computes an integer softmax with its own exponential |
| | MobileViTV2, SwiftFormer | have one weight per token instead of one per pair |
| | Janus's VQ-VAE | attends between convolutions, with a product in the other order |
| shows no softmax attention | Jamba | some of its layers are recurrent |
| pieces of the sequence | Swin | `window_partition`: a window attends to itself |
| | Hiera, LongT5's encoder | windows and blocks are an axis of the weights |
| | ProphetNet's decoder | tokens and each predicted n-gram attend separately |
| | Q-Former of BLIP-2 | with a text, only its queries attend to the image |
| a second stream | Grounding DINO's encoder | image and text attend to each other in one layer |
| | PEGASUS-X's encoder | has global tokens next to those of the text |
| two streams attend in it | LXMERT | words and boxes attend to each other with one module |
| no module takes the sum | Doge | a factor for each channel of the residual |
| | Higgs Audio | separate modules take text and audio tokens out of the sum |
| | GPT-NeoX Japanese | the bias of the last layer's projection is added next to the residual |
| | Idefics | the image output is multiplied by a gate, and by zero at some tokens |
| | LongCat-Flash | has two attentions in one layer, in a separate list |
| does not add up afterwards | X-MOD | an adapter for each language follows the MLP |
| | RT-DETR's decoder | deformable attention follows, which samples without a matrix product |
| | TimesFM | the MLP output is set to zero at padded patches |
| no linear module takes the product | BitNet, Kosmos-2 | a norm is between values and projection |
| | ConvBERT | the output of a convolution is concatenated to the heads |
| | LeViT | an activation is between values and projection |
| channels of the projection | MobileBERT | attention is in a bottleneck with its own stream |
| enter with one shape and leave with another | SAM 2 | some blocks halve the grid by pooling |
| | Cvt | a stage cuts new patches; inside it, a convolution of stride 2 pools keys and values |
| are not the tokens themselves | PVT | a convolution pools keys and values |
| values follow one token | Inkling | a short convolution makes keys and values |
| | Zaya | half of a value comes from the previous token |
| | FastSpeech 2 Conformer | a convolutional MLP runs before attention |
| something else than on its own | ViT-MAE, ViLT | sample the visible patches at random |
| | SpeechT5 | the dropout before its decoder is never off |
| not the product of one matrix | Nyströmformer | three softmaxes and a pseudo-inverse |
| raises when it runs again | X-CLIP | batch elements are frames of one video |
| | LW-DETR | batch elements are windows of one image |
| | PI0 | its second stack reads the cache of the first |
| in no form that is known | Granite Speech | its queries enter as one sequence for all texts |
| not called each time | OmDet-Turbo | caches the encoded text |
| raises on this input | TVP | does not run on a batch of two |
| changes itself | BigBird | switches to full attention permanently on a short text |
| more tokens than positions | Qwen3-ASR | the configuration has 13 positions, the input 32 tokens |

## Every class

| type | class | attentions | layers that are left out, and reasons |
|---|---|---|---|
"""


def written(findings: Iterable[Finding], path: Path) -> None:
    """Writes the page."""
    lines = sorted(findings, key=lambda line: (line["type"], line["class"]))
    counts = {
        verdict: sum(line["verdict"] == verdict for line in lines)
        for verdict in ("verified", "part")
    }
    head = _HEAD.format(
        classes=len(lines),
        types=len({line["type"] for line in lines}),
        **counts,
        open=sum(bool(line.get("open")) for line in lines),
        kinds="".join(_check_row(name, lines) for name in _check_names(lines)),
        versions=", ".join(f"{name} {version}" for name, version in _versions(lines).items()),
        refused=len(lines) - sum(counts.values()),
        checked=sum(bool(line.get("checks")) for line in lines),
        checks=sum(len(line.get("checks", ())) for line in lines),
        violations=sum(len(line.get("violations", ())) for line in lines),
    )
    page = head + "".join(_row(line) for line in lines)
    path.write_text(with_section(page, conformance_types()))


def _check_names(lines: list[Finding]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line.get("checks", ())))


_LABELS = {
    "one row against two": "one text against a batch of two",
    "model untouched": "model unchanged",
}


def _check_row(name: str, lines: list[Finding]) -> str:
    sizes = [line["checks"][name] for line in lines if name in line.get("checks", ())]
    label = _LABELS.get(name, name)
    return f"| {label} | {len(sizes)} | {f'{max(sizes):.0e}' if max(sizes) else ''} |\n"


def _versions(lines: list[Finding]) -> dict[str, str]:
    """Of the packages with which the lines were written."""
    names = ("transformers", "torch")
    known = {name: sorted({line[name] for line in lines if name in line}) for name in names}
    return {name: " and ".join(versions) for name, versions in known.items() if versions}


def _row(line: Finding) -> str:
    sites = ", ".join(line.get("sites", [])) or "none"
    reasons = [line.get("reason", "")]
    reasons += [f"{where}: {why}" for where, why in line.get("left_out", {}).items()]
    reasons += [f"{where}, open: {why}" for where, why in line.get("open", {}).items()]
    said = " ".join(f"{reason.rstrip('.')}." for reason in reasons if reason)
    said = re.sub(r"\s+", " ", said).replace("|", "\\|").replace("<", "&lt;")
    return f"| {line['type']} | {line['class']} | {sites} | {said[:400]} |\n"
