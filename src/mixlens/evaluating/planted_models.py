"""Build transformers with weights set by hand, so that the sources of each state are known.

They are ordinary transformers models (BERT, GPT-2) with 36 channels. A token's state holds 18
*features*, each stored as (+x, -x) on two channels. The channels of a state therefore sum to zero,
and a layer norm only rescales the state. The features are grouped into blocks:

* `word`: the word, one of three (one-hot), or zero for a marker;
* `mark`: +1 or -1 for the two markers (like punctuation), 0 for words;
* `got` and `middle`: empty at first; heads write there;
* `place`: the position, one-hot.

Every token has the same norm, so that a layer norm scales all tokens by the same constant. A head
that attends to a single position gives this position a weight of 1 to within 1e-20. The MLP
consists of pairs of ReLUs, which make it linear in the features. A classifier reads one block at
every token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

TOKENS = 8
WORDS, MARKS = (0, 1, 2), (3, 4)  # token ids
_WIDTHS = {"word": 3, "mark": 1, "got": 3, "middle": 3, "place": TOKENS}
FEATURES = sum(_WIDTHS.values())
CHANNELS = 2 * FEATURES
_SHARP = 1000.0  # logit of the attended position, before scaling


def block(name: str) -> Tensor:
    """Return the matrix [width, FEATURES] that selects one block of the features."""
    start = sum(width for other, width in list(_WIDTHS.items())[: list(_WIDTHS).index(name)])
    return torch.eye(FEATURES, dtype=torch.float64)[start : start + _WIDTHS[name]]


def channels() -> Tensor:
    """Return the matrix [CHANNELS, FEATURES] that writes features into channels."""
    eye = torch.eye(FEATURES, dtype=torch.float64)
    return torch.cat([eye, -eye]) / 2**0.5


def ones() -> Tensor:
    """Return the direction [CHANNELS, 1] that a layer norm removes from a state."""
    return torch.full((CHANNELS, 1), CHANNELS**-0.5, dtype=torch.float64)


@dataclass(frozen=True)
class PlantedHead:
    """The weights of a head: queries, keys and values [d_head, FEATURES], `output` [CHANNELS,
    d_head]. If a weight has fewer than d_head rows or columns, the others are zero.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor


def looking(at: Mapping[int, int]) -> tuple[Tensor, Tensor]:
    """Return the query and key weights of a head in which target `t` attends to `at[t]`. Every
    other token attends to itself.
    """
    pattern = torch.eye(TOKENS, dtype=torch.float64)
    for target, source in at.items():
        pattern[:, target] = torch.eye(TOKENS, dtype=torch.float64)[source]
    return _SHARP * pattern @ block("place"), block("place")


def weighing(target: int, weights: Sequence[float], d_head: int) -> tuple[Tensor, Tensor]:
    """Return the query and key weights of a head in BERT's first layer.

    The target attends with the given weights, and every other token attends uniformly.
    """
    query = torch.eye(TOKENS, dtype=torch.float64)[target][None] @ block("place")
    scale = d_head**0.5 / (
        CHANNELS / 2
    )  # two features of a token are 1, and a norm makes its squares sum to CHANNELS
    return scale * query, torch.tensor([weights], dtype=torch.float64).log() @ block("place")


def copying(
    at: Mapping[int, int], reads: str = "word", writes: str = "got", strength: float = 1.0
) -> PlantedHead:
    """Return a head that copies a block of the attended token into a block of the target."""
    return PlantedHead(*looking(at), block(reads), strength * channels() @ block(writes).T)


def strengthening() -> Tensor:
    """Return the linear map [FEATURES, FEATURES] of an MLP that adds half of every feature except
    the position to the state.

    The MLP works on each token separately, so it does not change which tokens are sources.
    """
    return 0.5 * (torch.eye(FEATURES, dtype=torch.float64) - block("place").T @ block("place"))


@dataclass(frozen=True)
class PlantedLayer:
    """The heads and the MLP of one layer."""

    heads: Sequence[PlantedHead]
    mlp_weight: Tensor = field(default_factory=strengthening)  # [FEATURES, FEATURES]


@dataclass(frozen=True)
class Blueprint:
    """The layers of a hand-built model, the size of its heads, and `reads`, the block that the
    classifier reads.
    """

    layers: Sequence[PlantedLayer]
    d_head: int = 9
    reads: str = "got"


def build_model(architecture: str, plan: Blueprint) -> nn.Module:
    """Build the model of a plan in float64. The architecture is "bert" (post-norm) or "gpt2"
    (pre-norm, causal).
    """
    with torch.random.fork_rng(devices=[]):  # weights are initialised before they are set
        model: nn.Module = _BUILDERS[architecture](plan).double().eval()
    weights = {
        "word": _embeddings(),
        "place": channels() @ block("place").T,
        "classifier": 0.4 * block(plan.reads) @ channels().T,
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name.lower() or ".ln_" in name
            parameter.fill_(1.0 if norm and name.endswith("weight") else 0.0)
        _FILLERS[architecture](model, plan, weights)
    return model


def _embeddings() -> Tensor:
    """Return the embeddings [vocabulary, CHANNELS]."""
    features = torch.zeros(len(WORDS) + len(MARKS) + 1, FEATURES, dtype=torch.float64)
    features[list(WORDS)] = block("word")
    features[MARKS[0]], features[MARKS[1]] = block("mark")[0], -block("mark")[0]
    return features @ channels().T


def _stack_heads(layer: PlantedLayer, d_head: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return query, key and value [heads * d_head, CHANNELS] and output [CHANNELS, heads * d_head]
    of all heads.
    """
    heads = CHANNELS // d_head

    def padded(part: Tensor) -> Tensor:
        return nn.functional.pad(part, (0, 0, 0, d_head - len(part)))

    def join_heads(part: Callable[[PlantedHead], Tensor]) -> Tensor:
        idle = [torch.zeros(d_head, part(layer.heads[0]).shape[1], dtype=torch.float64)] * (
            heads - len(layer.heads)
        )
        return torch.cat([*(padded(part(head)) for head in layer.heads), *idle])

    channel_inputs = channels().T
    output = join_heads(lambda head: head.output.T).T
    return (
        join_heads(lambda h: h.query) @ channel_inputs,
        join_heads(lambda h: h.key) @ channel_inputs,
        join_heads(lambda h: h.value) @ channel_inputs,
        output,
    )


def _mlp_weights(layer: PlantedLayer) -> tuple[Tensor, Tensor]:
    """Return the first and second weight of an MLP: relu(x) - relu(-x) = x, then the linear map."""
    channel_inputs = channels().T
    return (
        torch.cat([channel_inputs, -channel_inputs]),
        channels()
        @ layer.mlp_weight
        @ torch.cat([torch.eye(FEATURES), -torch.eye(FEATURES)], 1).double(),
    )


# ------------------------------------------------------------------------------------ architectures

_SIZES: dict[str, Any] = {
    "vocab_size": len(WORDS) + len(MARKS) + 1,
    "num_labels": len(WORDS),
    "pad_token_id": len(WORDS) + len(MARKS),
}


def _bert(plan: Blueprint) -> Any:
    import transformers

    models: Any = transformers
    config = models.BertConfig(
        **_SIZES,
        hidden_size=CHANNELS,
        num_hidden_layers=len(plan.layers),
        num_attention_heads=CHANNELS // plan.d_head,
        intermediate_size=CHANNELS,
        hidden_act="relu",
        max_position_embeddings=2 * TOKENS,
        layer_norm_eps=1e-12,
    )
    return models.BertForTokenClassification(config)


def _fill_bert(model: Any, plan: Blueprint, weights: Mapping[str, Tensor]) -> None:
    model.bert.embeddings.word_embeddings.weight.copy_(weights["word"])
    model.bert.embeddings.position_embeddings.weight[:TOKENS] = weights["place"].T
    model.classifier.weight.copy_(weights["classifier"])
    for module, layer in zip(model.bert.encoder.layer, plan.layers, strict=True):
        attention = module.attention.self
        query, key, value, output = _stack_heads(layer, plan.d_head)
        first, second = _mlp_weights(layer)
        for linear, weight in (
            (attention.query, query),
            (attention.key, key),
            (attention.value, value),
            (module.attention.output.dense, output),
            (module.intermediate.dense, first),
            (module.output.dense, second),
        ):
            linear.weight.copy_(weight)


def _gpt2(plan: Blueprint) -> Any:
    import transformers

    models: Any = transformers
    config = models.GPT2Config(
        **_SIZES,
        n_embd=CHANNELS,
        n_layer=len(plan.layers),
        n_head=CHANNELS // plan.d_head,
        n_inner=CHANNELS,
        n_positions=2 * TOKENS,
        activation_function="relu",
        layer_norm_epsilon=1e-12,
        bos_token_id=None,
        eos_token_id=None,
    )
    return models.GPT2ForTokenClassification(config)


def _fill_gpt2(model: Any, plan: Blueprint, weights: Mapping[str, Tensor]) -> None:
    model.transformer.wte.weight.copy_(weights["word"])
    model.transformer.wpe.weight[:TOKENS] = weights["place"].T
    model.classifier.weight.copy_(weights["classifier"])
    for module, layer in zip(model.transformer.h, plan.layers, strict=True):
        query, key, value, output = _stack_heads(layer, plan.d_head)
        first, second = _mlp_weights(layer)
        for conv, weight in (
            (module.attn.c_attn, torch.cat([query, key, value])),
            (module.attn.c_proj, output),
            (module.mlp.c_fc, first),
            (module.mlp.c_proj, second),
        ):
            conv.weight.copy_(weight.T)


_BUILDERS: dict[str, Callable[[Blueprint], Any]] = {"bert": _bert, "gpt2": _gpt2}
_FILLERS: dict[str, Callable[[Any, Blueprint, Mapping[str, Tensor]], None]] = {
    "bert": _fill_bert,
    "gpt2": _fill_gpt2,
}
