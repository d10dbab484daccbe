"""Check that a measure fulfils its contract: `check_measure("my_measure")`.

The scores of a measure must match its description. They must not depend on the order of texts in a
batch, on padding, on which layers and targets are requested, or on earlier calls. The model must
stay unchanged. The tests of mixlens check every measure on every architecture in the same way.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

import mixlens
from mixlens.contracts import AttentionKind, Spec
from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.lens import Lens
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.measures import spec_of
from mixlens.measuring.measure import measure
from mixlens.measuring.recorder import record
from mixlens.recording.recording import Recording

Inputs = dict[str, Tensor]
Rows = dict[str, list[MixingMaps]]  # site -> one map per text


def check_measure(
    name: str, models: Mapping[str, Callable[[], nn.Module]] | None = None, **options: Any
) -> dict[str, str]:
    """Check a measure on small random models, or on those that `models` creates.

    Raise an AssertionError that describes the violated rule. For each model, return "checked" or
    the reason why the measure does not support it. A measure that supports no model fails the
    check.
    """
    check_description(name)
    verdicts = {}
    for model_name, make in (MODELS if models is None else models).items():
        try:
            _check_on(name, make(), options)
            verdicts[model_name] = "checked"
        except (UnsupportedModel, InvalidInput) as error:
            require_reason(error)
            verdicts[model_name] = str(error)
        except AssertionError as error:
            raise AssertionError(f"{name} on {model_name}: {error}") from error
    assert "checked" in verdicts.values(), f"{name} supports no model: {verdicts}"
    return verdicts


def check_description(name: str) -> None:
    """Check that a measure has a description and that each of its options has a default."""
    spec = spec_of(name)
    for part in ("summary", "citation", "use_when", "cost"):
        assert getattr(spec, part).strip(), f"SPEC.{part} is empty"
    for option in spec.options:
        has_default = option.default is not inspect.Parameter.empty
        assert has_default, f"the option {option.name} has no default"


def _check_on(name: str, model: nn.Module, options: Mapping[str, Any]) -> None:
    lens, inputs, before = Lens(model), _inputs(model), _state(model)
    recording = lens.record(inputs)
    whole = measure_all_sites(name, recording, options)
    for site, text_maps in whole.items():
        check_maps(spec_of(name), recording, site, text_maps)
    require_same(name, whole, measure_all_sites(name, recording, options), "in a second call", 0.0)
    how: dict[str, Any] = {"targets": None, "site": None, "memory_budget": None}
    needed = measure_all_sites(name, record(lens, inputs, **how, measures=[name]), options)
    require_same(name, whole, needed, "if only the declared inputs are recorded")
    flipped = lens.record({key: value.flip(0) for key, value in inputs.items()})
    backwards = {
        site: text_maps[::-1]
        for site, text_maps in measure_all_sites(name, flipped, options).items()
    }
    require_same(name, whole, backwards, "in a batch of a different order")
    for side in ("left", "right"):
        alone, padded = _pad_texts(inputs, side)
        one, both = (
            measure_all_sites(name, lens.record(part), options) for part in (alone, padded)
        )
        require_same(name, one, both, f"with padding on the {side}")
    _check_parts(name, recording, whole, options)
    assert _state(model) == before, "the model was changed"


def measure_all_sites(
    name: str, recording: Recording, options: Mapping[str, Any] | None = None, **selection: Any
) -> Rows:
    """Return the maps of a measure for every attention that it supports.

    If it supports none, raise the first error.
    """
    spec = spec_of(name)
    arguments = {**spec.least, **fixed_output(spec, recording), **(options or {}), **selection}
    maps_of_site, refused = {}, []
    # One set of scores describes the whole model: the first attention is enough.
    for site in recording.sites if spec.gives == "maps" else recording.sites[:1]:
        try:
            maps = measure(name, recording, site=site, **arguments)
            maps_of_site[site] = maps if isinstance(maps, list) else [maps]
        except (UnsupportedModel, InvalidInput) as error:
            require_reason(error)
            refused.append(error)
    if not maps_of_site:
        raise refused[0]
    return maps_of_site


def fixed_output(spec: Spec, recording: Recording) -> dict[str, Any]:
    """Return options that fix the explained output, so that ties between likely words cannot change
    it.
    """
    logits = getattr(recording.output, "logits", None)
    if not spec.explains_output or logits is None:
        return {}
    return {"label": 1} if logits.dim() == 2 else {"position": 1, "word": 7}


def require_reason(error: Exception) -> None:
    """Raise an AssertionError if the message of `error` is too short to state a reason."""
    assert len(str(error)) > 20, f"{error!r} gives no reason"


def check_maps(spec: Spec, recording: Recording, site: str, text_maps: list[MixingMaps]) -> None:
    """Check shapes, labels and properties of the maps of every text, and that they can be saved and
    loaded.
    """
    assert len(text_maps) == recording.batch, f"{len(text_maps)} maps for {recording.batch} texts"
    attention = recording.structure.site(site)
    for text, maps in enumerate(text_maps):
        targets = recording.target_tokens(site, text)
        assert maps.source_tokens == recording.source_tokens(site, text).labels, "wrong sources"
        assert np.isfinite(maps.scores).all(), "scores are not finite"
        if spec.gives == "maps":
            expected = (len(recording.layers(site)), len(targets), len(maps.source_tokens))
            assert maps.scores.shape == expected, f"shape {maps.scores.shape}, not {expected}"
            assert maps.tokens == targets.labels, "wrong targets"
            if attention.kind == AttentionKind.SELF and attention.stack.layers[0].sites[0].causal:
                assert not np.triu(maps.scores, 1).any(), (
                    "a causal target has scores for later tokens"
                )
        if maps.facts.rows_are_shares:
            sums = maps.scores.sum(-1)[maps.scores.any(-1)]  # a target may have no scores
            assert np.allclose(sums, 1, atol=1e-4), "scores do not sum to one"
        if not maps.facts.signed:
            least = -1e-6 * np.abs(maps.scores).max()
            assert (maps.scores >= least).all(), "scores are negative, but SPEC.facts excludes it"
    with tempfile.TemporaryDirectory() as folder:
        text_maps[0].save(Path(folder) / "maps")
        assert mixlens.load(Path(folder) / "maps") == text_maps[0], (
            "maps change when saved and loaded"
        )


def require_same(
    name: str, one: Rows, other: Rows, when: str, tolerance: float | None = None
) -> None:
    """Raise an AssertionError if two sets of scores differ by more than rounding error."""
    assert one.keys() == other.keys(), f"supported for different attentions {when}"
    bar = spec_of(name).rounding if tolerance is None else tolerance
    for site in one:
        for maps, again in zip(one[site], other[site], strict=False):
            difference = largest_difference(maps, again)
            assert difference <= bar, f"scores change by {difference:.1e} {when} ({site})"


def largest_difference(one: MixingMaps, other: MixingMaps) -> float:
    """Return the largest difference, relative to the largest score of `one`."""
    assert one.scores.shape == other.scores.shape, "shapes differ"
    scale = max(float(np.abs(one.scores).max()), 1e-12)
    return float(np.abs(one.scores - other.scores).max()) / scale


def _check_parts(name: str, recording: Recording, whole: Rows, options: Mapping[str, Any]) -> None:
    """Check that requesting only some layers and targets does not change their scores."""
    spec = spec_of(name)
    if spec.gives != "maps":
        return
    for site in whole:
        part = measure_all_sites(name, recording, options, layers=[-1], targets=[1, -1])[site][0]
        expected = whole[site][0].at(layers=[-1], targets=[1, -1])
        difference = largest_difference(expected, part)
        assert difference <= spec.rounding, f"targets= changes scores by {difference:.1e} ({site})"


# ------------------------------------------------------------------------------- models and inputs


_SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
}
_BART: dict[str, Any] = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 40,
}


def _random(model: nn.Module) -> nn.Module:
    """Return a model with random weights, biases and norms.

    With biases of zero and norm weights of one, a measure could ignore them unnoticed.
    """
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            wide = parameter.dim() > 1
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(noise * (0.25 if wide else 0.2) + (0.0 if wide else 0.5))
    return model.eval()


def _post_norm() -> nn.Module:
    config = transformers.BertConfig(**_SIZES, max_position_embeddings=40)
    return _random(transformers.BertForMaskedLM(config))


def _pre_norm() -> nn.Module:
    config = transformers.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40)
    return _random(transformers.GPT2LMHeadModel(config))


def _grouped_heads() -> nn.Module:
    config = transformers.LlamaConfig(**_SIZES, num_key_value_heads=2, pad_token_id=0)
    return _random(transformers.LlamaForCausalLM(config))


def _encoder_decoder() -> nn.Module:
    return _random(transformers.BartForConditionalGeneration(transformers.BartConfig(**_BART)))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "post-norm (BERT)": _post_norm,
    "pre-norm, causal (GPT-2)": _pre_norm,
    "RMS norm, grouped heads (Llama)": _grouped_heads,
    "encoder-decoder (BART)": _encoder_decoder,
}


def _inputs(model: nn.Module) -> Inputs:
    """Return two texts of eight tokens, without repeated tokens."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.stack([torch.randperm(47, generator=generator)[:8] + 3 for _ in range(2)])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if getattr(model.config, "is_encoder_decoder", False):
        inputs["decoder_input_ids"] = ids.flip(1)[:, :5]
    return inputs


def _pad_texts(inputs: Inputs, side: str) -> tuple[Inputs, Inputs]:
    """Return the first six tokens of the first text, alone and padded in a batch of two texts."""
    sizes = {"input_ids": 6, "attention_mask": 6}
    alone = {key: value[:1, : sizes.get(key)] for key, value in inputs.items()}
    both = {}
    for key, value in alone.items():
        width = int(inputs[key].shape[1] - value.shape[1])
        pad = (width, 0) if side == "left" else (0, width)
        both[key] = torch.cat([nn.functional.pad(value, pad), inputs[key][1:]])
    return alone, both


def _state(model: nn.Module) -> tuple[Any, ...]:
    """Return everything in a model that a measure could change."""
    parts = [
        (set(vars(part)), len(part._forward_hooks), len(part._forward_pre_hooks))
        for part in model.modules()
    ]
    weights = [
        (weight.detach().clone().numpy().tobytes(), weight.requires_grad, weight.grad is None)
        for weight in model.parameters()
    ]
    return parts, weights
