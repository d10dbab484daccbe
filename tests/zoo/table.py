"""docs/coverage.md: what is measured on each model type of the zoo, and what is refused and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.zoo.journal import Finding

_HEAD = """# Coverage

What mixlens measures on the architectures of transformers. `make zoo` wrote this page: it builds
{classes} model classes of {types} model types from transformers' own test configurations, with
random weights, takes each apart on its own input, and compares with the model itself. Versions:
{versions}.

* **Verified**: {verified} classes. The parts of every layer add up to what the model computes, or
  the layer is open: {open} classes have such layers. Of these, only the attention and what it does
  to the layer's output are measured.
* **In part**: {part} classes. What is proved is measured. What is not is named, and left out.
* **Refused**: {refused} classes. Nothing is reported rather than a wrong number.
* **Independent checks**: {checks} made on {checked} classes, {violations} violations. Attention
  weights are compared with the model's own, Value Zeroing with a hook on the model's value
  projection, at the given length and at 40 tokens. Chosen targets are compared with full maps, one
  row with two, and a padded row with the same row alone. The model must be the same before and
  after.

| check | classes | largest difference |
|---|---|---|
{kinds}
Differences are relative to the largest score of a row, and absolute for attention weights.
Measures that a structure does not allow are refused with a reason: `mixlens doctor` lists them.
[Recording](recording.md) says which forms of layers are proved, and how.

## What the reasons mean

Each kind of reason was compared with the code of one class. Some leave a layer open, others leave
it out.

| reason | class | what its code does |
|---|---|---|
| no softmax attention | FNet | Fourier transforms (`fftn`) mix the tokens |
| | Autoformer | correlates by `rfft` and adds up shifted copies |
| | Reformer | hashes tokens into buckets, `exp` minus `logsumexp` in each |
| | I-BERT | makes its softmax of whole numbers, with an exponential of its own |
| | MobileViTV2, SwiftFormer | have a weight for each token, and none for a pair of tokens |
| | Janus's VQ-VAE | attends between convolutions, by a product in the other order |
| shows no softmax attention | Jamba | some of its layers are recurrent |
| pieces of the sequence | Swin | `window_partition`: a window attends to itself |
| | Hiera, LongT5's encoder | windows and blocks are an axis of the weights |
| | ProphetNet's decoder | tokens and each predicted n-gram are pieces that attend by themselves |
| | Q-Former of BLIP-2 | with a text, only its queries read the image |
| a second stream | Grounding DINO's encoder | image and text read each other in one layer |
| | PEGASUS-X's encoder | has global tokens next to those of the text |
| two streams attend in it | LXMERT | words read boxes, and boxes words, by one shared module |
| no module takes the sum | Doge | a factor for each channel of the residual |
| | Higgs Audio | text and audio tokens are taken out of the sum, each by a module of its own |
| | GPT-NeoX Japanese | the bias of the last layer's projection is added next to the residual |
| | Idefics | what is read from images is multiplied by a gate, and by zero at some tokens |
| | LongCat-Flash | has two attentions in one layer, in a list of its own |
| does not add up afterwards | X-MOD | an adapter for each language follows the feed-forward part |
| | RT-DETR's decoder | deformable attention follows, which samples without a product |
| | TimesFM | the feed-forward part is set to zero at padded patches |
| no linear module takes the product | BitNet, Kosmos-2 | a norm is between values and projection |
| | ConvBERT | the output of a convolution is joined to the heads |
| | LeViT | an activation is between values and projection |
| channels of the projection | MobileBERT | attention is in a bottleneck with a stream of its own |
| enter with one shape and leave with another | SAM 2 | some blocks halve the grid by pooling |
| | Cvt | a stage cuts new patches; inside it, a convolution of stride 2 pools keys and values |
| are not the tokens themselves | PVT | a convolution pools keys and values |
| values follow one token | Inkling | a short convolution makes keys and values |
| | Zaya | half of a value is made of the token before |
| | FastSpeech 2 Conformer | a feed-forward part of convolutions runs before attention |
| something else than on its own | ViT-MAE, ViLT | draw at random which patches they see |
| | SpeechT5 | the dropout before its decoder is never off |
| not the product of one matrix | Nyströmformer | three softmaxes and a pseudo-inverse |
| raises when it runs again | X-CLIP | rows are frames: their number must fit a video |
| | LW-DETR | rows are windows of an image: their number must fit one |
| | PI0 | its second stack reads the cache of the first |
| in no form that is known | Granite Speech | its queries enter as one row for all texts |
| not called each time | OmDet-Turbo | keeps what it made of a text, for the next time |
| raises on this input | TVP | does not run on two rows |
| changes itself | BigBird | switches to full attention for good on a short text |
| more tokens than positions | Qwen3-ASR | the configuration has 13 positions, the input 32 tokens |

## Every class

| type | class | sites | what is left out or refused, and why |
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
    path.write_text(head + "".join(_row(line) for line in lines))


def _check_names(lines: list[Finding]) -> list[str]:
    return list(dict.fromkeys(name for line in lines for name in line.get("checks", ())))


def _check_row(name: str, lines: list[Finding]) -> str:
    sizes = [line["checks"][name] for line in lines if name in line.get("checks", ())]
    return f"| {name} | {len(sizes)} | {f'{max(sizes):.0e}' if max(sizes) else ''} |\n"


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
