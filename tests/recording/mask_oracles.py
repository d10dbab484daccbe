"""What a model computes under any mask, from hooks on its own attention: numpy and the equations,
without any code of mixlens.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers as hf
from torch import Tensor, nn

N, HEADS, WIDTH, VOCABULARY = 11, 4, 16, 40
_SIZES: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2}
_SMALL = _SIZES | {"num_attention_heads": HEADS, "intermediate_size": 24}
_GROUPED = _SMALL | {"num_key_value_heads": 2, "pad_token_id": 0}
_BART: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "pad_token_id": 0,
    "decoder_start_token_id": 2,
    **{f"{side}_layers": 2 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": HEADS for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 24 for side in ("encoder", "decoder")},
}
_T5: dict[str, Any] = {
    "decoder_start_token_id": 0,
    "vocab_size": VOCABULARY,
    "d_model": WIDTH,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
}


@dataclass(frozen=True)
class Architecture:
    """How to build a model, and where its parts are."""

    build: Callable[[], Any]
    layers: str
    projection: str  # the output projection, in a layer
    plain: bool = True  # is the block its residual plus the projection, with nothing else?
    calls: int = 1  # attention calls of a layer, of which the first is looked at
    decoder: bool = False  # does the mask belong to a decoder?


def _gemma3() -> Any:
    types: dict[str, Any] = {
        "layer_types": ["sliding_attention", "full_attention"],
        "sliding_window": 4,
    }
    return hf.Gemma3TextModel(hf.Gemma3TextConfig(**_GROUPED, head_dim=4, **types))


ARCHITECTURES = {
    "llama": Architecture(
        lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_GROUPED)), "model.layers", "self_attn.o_proj"
    ),
    "qwen2": Architecture(
        lambda: hf.Qwen2Model(hf.Qwen2Config(**_GROUPED)), "layers", "self_attn.o_proj"
    ),
    "gpt2": Architecture(
        lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=HEADS)
        ),
        "transformer.h",
        "attn.c_proj",
    ),
    "opt": Architecture(
        lambda: hf.OPTModel(
            hf.OPTConfig(**_SIZES, num_attention_heads=HEADS, ffn_dim=24, word_embed_proj_dim=WIDTH)
        ),
        "decoder.layers",
        "self_attn.out_proj",
    ),
    "gemma3": Architecture(_gemma3, "layers", "self_attn.o_proj", plain=False),
    "bert": Architecture(
        lambda: hf.BertModel(hf.BertConfig(**_SMALL)),
        "encoder.layer",
        "attention.output.dense",
        plain=False,
    ),
    "bart": Architecture(
        lambda: hf.BartModel(hf.BartConfig(**_BART)),
        "decoder.layers",
        "self_attn.out_proj",
        plain=False,
        calls=2,
        decoder=True,
    ),
    "t5": Architecture(
        lambda: hf.T5Model(hf.T5Config(**_T5, num_heads=HEADS)),
        "decoder.block",
        "layer.0.SelfAttention.o",
        calls=2,
        decoder=True,
    ),
}


def built(name: str, implementation: str) -> Any:
    """A model in float64, every weight random."""
    model = ARCHITECTURES[name].build().double().eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * (0.4 if parameter.dim() > 1 else 0.3))
    model.set_attn_implementation(implementation)
    return model


def ids(batch: int = 1, seed: int = 0) -> Tensor:
    """Tokens, none of them twice in a text."""
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(VOCABULARY - 4, generator=generator)[:N] + 3 for _ in range(batch)]
    return torch.stack(rows)


def pairs(kind: str, batch: int) -> Tensor:
    """Which pairs a mask of pairs shows, [texts, heads, target, source]."""
    at = torch.arange(N)
    lower = at[:, None] >= at
    generator = torch.Generator().manual_seed(3)
    halves = (at[:, None] < 6) == (at < 6)
    random_pairs = torch.rand(batch, HEADS, N, N, generator=generator) < 0.4
    shown = {
        "causal": lower,
        "prefix": lower | (at < 6),
        "bidirectional": torch.ones(N, N, dtype=torch.bool),
        "holes": lower & ~((at >= 2) & (at < 5)) | torch.eye(N, dtype=torch.bool),
        "packed": lower & halves,
        "blocks": halves,
        "sparse": random_pairs[:1, :1] | torch.eye(N, dtype=torch.bool),
        "by text": random_pairs[:, :1] | torch.eye(N, dtype=torch.bool),
        "by head": random_pairs | torch.eye(N, dtype=torch.bool),
        "blank": lower & (at[:, None] != 4) & (at[:, None] != 0),
    }[kind]
    return shown[(None,) * (4 - shown.dim())].expand(batch, -1, -1, -1)


KINDS = (
    "causal",
    "prefix",
    "bidirectional",
    "holes",
    "packed",
    "blocks",
    "sparse",
    "by text",
    "by head",
    "blank",
)
FORMS = ("lowest", "infinite", "moderate", "boolean", "biased")


def mask_of(kind: str, form: str, batch: int = 1) -> Tensor:
    """A mask of pairs in one of the forms that people write."""
    seen = pairs(kind, batch)
    if form == "boolean":
        return seen.contiguous()
    low = {"infinite": -torch.inf, "moderate": -1e9}.get(form, torch.finfo(torch.float64).min)
    added = torch.zeros(seen.shape, dtype=torch.float64)
    if form == "biased":
        generator = torch.Generator().manual_seed(4)
        added = 3 * torch.randn(seen.shape, generator=generator, dtype=torch.float64)
    return added.masked_fill(~seen, low)


@dataclass
class Seen:
    """One attention call of the model: weights, values of each query head, and its output."""

    weights: Tensor
    values: Tensor
    output: Tensor


def _fused_weights(query: Tensor, key: Tensor, mask: Any, causal: bool, scale: Any) -> Tensor:
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None and mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, -torch.inf)
    elif mask is not None:
        scores = scores + mask
    return torch.softmax(scores, -1).nan_to_num(0.0)


@contextlib.contextmanager
def attention_seen(
    model: Any, edit: Callable[[int, Tensor], Tensor] | None = None
) -> Iterator[list[Seen]]:
    """While open, the attention calls of a model; `edit` may change the values of each."""
    calls: list[Seen] = []
    sdpa = nn.functional.scaled_dot_product_attention
    homes: set[Any] = {
        sys.modules[type(part).__module__]
        for part in model.modules()
        if hasattr(sys.modules[type(part).__module__], "eager_attention_forward")
    }
    eager = {home: home.eager_attention_forward for home in homes}

    def edited(value: Tensor) -> Tensor:
        return value if edit is None else edit(len(calls), value)

    def fused(query: Tensor, key: Tensor, value: Tensor, *rest: Any, **options: Any) -> Tensor:
        value = edited(value)
        output = sdpa(query, key, value, *rest, **options)
        repeats = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
        given = (options.get("attn_mask"), options.get("is_causal", False), options.get("scale"))
        weights = _fused_weights(query, keys, *given)
        torch.testing.assert_close(weights @ values, output, atol=1e-5, rtol=1e-5)
        calls.append(Seen(weights, values, output))
        return output

    def plain(home: Any) -> Callable[..., Any]:
        def attention(
            module: Any, query: Any, key: Any, value: Any, *rest: Any, **more: Any
        ) -> Any:
            value = edited(value)
            output, weights = eager[home](module, query, key, value, *rest, **more)
            repeats = query.shape[1] // value.shape[1]
            calls.append(Seen(weights, value.repeat_interleave(repeats, 1), output))
            return output, weights

        return attention

    nn.functional.scaled_dot_product_attention = fused
    for home in homes:
        home.eager_attention_forward = plain(home)
    try:
        yield calls
    finally:
        nn.functional.scaled_dot_product_attention = sdpa
        for home, function in eager.items():
            home.eager_attention_forward = function


@dataclass
class Truth:
    """What each layer computed for one text."""

    weights: list[np.ndarray]  # [head, target, source]
    written: list[np.ndarray]  # what each source writes in each head: [head, source, d_model]
    entered: list[np.ndarray]  # the layer's input
    block: list[np.ndarray]  # input plus what the projection returned
    left: list[np.ndarray]  # the layer's output


def _hooks(model: Any, how: Architecture, kept: dict[str, list[Tensor]]) -> list[Any]:
    handles = []
    for layer in model.get_submodule(how.layers):
        projection = layer.get_submodule(how.projection)
        handles += [
            layer.register_forward_pre_hook(
                lambda _, a, k: kept["in"].append(a[0] if a else k["hidden_states"]),
                with_kwargs=True,
            ),
            layer.register_forward_hook(
                lambda _, a, o: kept["out"].append(o[0] if isinstance(o, tuple) else o)
            ),
            projection.register_forward_hook(lambda _, a, o: kept["projected"].append(o)),
        ]
    return handles


def run(
    model: Any,
    how: Architecture,
    inputs: dict[str, Any],
    edit: Callable[[int, Tensor], Tensor] | None = None,
) -> tuple[list[Seen], dict[str, list[Tensor]]]:
    """One native pass: the attention calls of the layers, and what entered and left them."""
    kept: dict[str, list[Tensor]] = {"in": [], "out": [], "projected": []}
    handles = _hooks(model, how, kept)
    try:
        with torch.no_grad(), attention_seen(model, edit) as calls:
            model(**inputs, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    count = len(kept["in"]) * how.calls
    return calls[len(calls) - count :][:: how.calls], kept


def truth(model: Any, how: Architecture, inputs: dict[str, Any], text: int = 0) -> Truth:
    """What the model computes for one text of a batch."""
    calls, kept = run(model, how, inputs)
    made = Truth([], [], [], [], [])
    for number, (call, layer) in enumerate(
        zip(calls, model.get_submodule(how.layers), strict=True)
    ):
        projection = layer.get_submodule(how.projection)
        matrix = projection.weight if type(projection).__name__ == "Conv1D" else projection.weight.T
        by_head = matrix.detach().view(HEADS, -1, WIDTH)
        entered, projected = kept["in"][number][text], kept["projected"][number][text]
        made.weights.append(call.weights[text].numpy())
        made.written.append((call.values[text] @ by_head).numpy())
        made.entered.append(entered.numpy())
        made.block.append((entered + projected).numpy())
        made.left.append(kept["out"][number][text].numpy())
    return made


def attention(made: Truth, layer: int) -> np.ndarray:
    weights: np.ndarray = made.weights[layer].mean(0)
    return weights


def attention_norm(made: Truth, layer: int) -> np.ndarray:
    parts = np.einsum("hij,hjd->ijd", made.weights[layer], made.written[layer])
    norms: np.ndarray = np.linalg.norm(parts, axis=-1)
    return norms


def _block_parts(made: Truth, layer: int) -> np.ndarray:
    parts = np.einsum("hij,hjd->ijd", made.weights[layer], made.written[layer])
    here = np.arange(len(parts))
    parts[here, here] += made.entered[layer]
    return parts


def attention_norm_res_ln(made: Truth, layer: int) -> np.ndarray:
    norms: np.ndarray = np.linalg.norm(_block_parts(made, layer), axis=-1)
    return norms


def alti(made: Truth, layer: int) -> np.ndarray:
    total = made.block[layer][:, None]
    gains = np.abs(total).sum(-1) - np.abs(total - _block_parts(made, layer)).sum(-1)
    gains = gains.clip(0)
    whole = gains.sum(-1, keepdims=True)
    shares: np.ndarray = gains / np.where(whole > 0, whole, 1)
    return shares


def flow_routes(made: Truth, layer: int) -> np.ndarray:
    total = made.block[layer]
    parts = np.einsum("hij,hjd->hijd", made.weights[layer], made.written[layer])
    size = np.abs(total).sum(-1)
    gains = (size[:, None] - np.abs(total[:, None] - parts).sum(-1)).clip(0)
    own = (size - np.abs(total - made.entered[layer]).sum(-1)).clip(0)
    shares: np.ndarray = gains.sum(0) + np.diag(own)
    return shares / shares.sum(-1, keepdims=True)


def effective_attention(made: Truth, layer: int) -> np.ndarray:
    effective = np.zeros_like(made.weights[layer])
    for head, target in np.ndindex(effective.shape[:2]):
        row = made.weights[layer][head, target]
        at = np.flatnonzero(row > 0)
        vectors = made.written[layer][head, at]
        effective[head, target, at] = row[at] @ vectors @ np.linalg.pinv(vectors, rcond=1e-10)
    mean: np.ndarray = effective.mean(0)
    return mean


def value_zeroing(
    model: Any, how: Architecture, inputs: dict[str, Any], layer: int, text: int = 0
) -> np.ndarray:
    """One minus the cosine of the layer's output without the value of each source."""
    width = int(inputs["decoder_input_ids" if how.decoder else "input_ids"].shape[1])
    skipped = 2 if how.decoder else 0  # the encoder's layers come first

    def output(source: int | None) -> Tensor:
        def edit(number: int, values: Tensor) -> Tensor:
            if source is None or number != skipped + layer * how.calls:
                return values
            values = values.clone()
            values[:, :, source] = 0
            return values

        return run(model, how, inputs, edit)[1]["out"][layer][text]

    base = output(None)
    distances = [1 - torch.cosine_similarity(output(j), base, dim=-1) for j in range(width)]
    return torch.stack(distances, -1).numpy()


FROM_TRUTH = {
    "attention": attention,
    "attention_norm": attention_norm,
    "effective_attention": effective_attention,
    "attention_norm_res_ln": attention_norm_res_ln,
    "alti": alti,
    "flow_routes": flow_routes,
}
OF_PLAIN_BLOCKS = ("attention_norm_res_ln", "alti", "flow_routes")
