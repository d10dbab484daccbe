"""A checkpoint without a weight that the layers need is refused, and the error names the weight."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

import mixlens
from mixlens import CannotLoad, Lens, UnsupportedModel
from mixlens.maps.provenance import weights_digest
from tests.measures import models

SIZES: dict[str, Any] = models._SIZES
IDS = torch.tensor([[3, 7, 11, 5, 2]])
DECODER: dict[str, Any] = {**SIZES, "num_key_value_heads": 2, "max_position_embeddings": 32}
SEQ2SEQ = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "decoder_start_token_id": 0,
}


def _t5() -> Any:
    small = {"vocab_size": 50, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1}
    return hf.T5ForConditionalGeneration(
        hf.T5Config(**small, num_heads=2, decoder_start_token_id=0)  # type: ignore[arg-type,call-arg]
    )


def _pair() -> Any:
    encoder, decoder = hf.BertConfig(**SIZES), hf.BertConfig(**SIZES)
    joined: Any = hf.EncoderDecoderConfig
    config = joined.from_encoder_decoder_configs(encoder, decoder)
    config.decoder_start_token_id = config.pad_token_id = 0
    return hf.EncoderDecoderModel(config)


MODELS: dict[str, Callable[[], Any]] = {
    "masked": lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES)),
    "encoder": lambda: hf.BertModel(hf.BertConfig(**SIZES)),
    "classifier": lambda: hf.BertForSequenceClassification(hf.BertConfig(**SIZES)),
    "shared layers": lambda: hf.AlbertForMaskedLM(hf.AlbertConfig(**SIZES, embedding_size=8)),
    "causal": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**DECODER)),
    "old names": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    ),
    "experts": lambda: hf.MixtralForCausalLM(
        hf.MixtralConfig(**DECODER, num_local_experts=3, num_experts_per_tok=2)
    ),
    "T5": _t5,
    "BART": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SEQ2SEQ)),  # type: ignore[arg-type]
    "encoder and decoder": _pair,
}


def _states(folder: Path, kind: Any) -> list[torch.Tensor]:
    """The states of all layers, as transformers computes them."""
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    given = {"input_ids": IDS}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = IDS
    with torch.no_grad():
        output = model(**given, output_hidden_states=True)
    names = ("hidden_states", "encoder_hidden_states", "decoder_hidden_states")
    return [state for name in names for state in getattr(output, name, None) or ()]


def _without(folder: Path, weights: dict[str, torch.Tensor], name: str) -> None:
    rest = {key: value for key, value in weights.items() if key != name}
    save_file(rest, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", MODELS)
def test_each_weight_that_layers_depend_on_is_needed(name: str, tmp_path: Path) -> None:
    model = models.randomised(MODELS[name]()).float()
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    before, refused = _states(tmp_path, type(model)), 0
    for key, value in weights.items():
        moved = {**weights, key: value + torch.randn_like(value)}
        save_file(moved, tmp_path / "model.safetensors", metadata={"format": "pt"})
        after = _states(tmp_path, type(model))
        needed = any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))
        _without(tmp_path, weights, key)
        if needed:
            refused += 1
            own = key.replace("block_sparse_moe", "mlp")  # as transformers calls it now
            words = rf"{re.escape(own)}.*at random"
            if ".experts." in key:  # into one weight, whose parts transformers does not name
                words = "experts.*Weights are missing|such as those of experts"
            with pytest.raises(CannotLoad, match=words):
                Lens.from_pretrained(str(tmp_path))
        else:
            assert "layer" not in key or key.endswith("key.bias"), key
            Lens.from_pretrained(str(tmp_path))
    assert refused > len(weights) / 2


@pytest.mark.parametrize("form", ["safetensors", "sharded", "bin"])
@pytest.mark.parametrize("kind", [torch.int32, torch.bool, torch.int8])
def test_weights_that_are_integers_are_refused(
    form: str, kind: torch.dtype, tmp_path: Path
) -> None:
    model = models.randomised(MODELS["masked"]()).float()
    name = "bert.encoder.layer.1.output.dense.weight"
    state = {key: value.clone() for key, value in model.state_dict().items()}
    del state["cls.predictions.decoder.weight"]  # tied
    state[name] = state[name].to(kind)
    model.config.architectures = ["BertForMaskedLM"]
    model.config.save_pretrained(tmp_path)
    if form == "bin":
        torch.save(state, tmp_path / "pytorch_model.bin")
    elif form == "safetensors":
        save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    else:
        _sharded(tmp_path, state)
    with pytest.raises(CannotLoad, match=rf"stores {name} as integers or booleans"):
        Lens.from_pretrained(str(tmp_path))


@pytest.mark.parametrize("base", [False, True])
@pytest.mark.parametrize("part", ["bias", "weight_scale", "lora_A.weight"])
def test_a_stored_part_of_a_layer_that_is_not_loaded_is_refused(
    part: str, base: bool, tmp_path: Path
) -> None:
    """The config of a different model drops biases, and weights in 8 bits need their scales."""
    model = models.randomised(MODELS["causal"]()).float()
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    if base:  # names without the prefix of the base model
        weights = {key.removeprefix("model."): value for key, value in weights.items()}
    for name in ("layers.7.mlp.up_proj.weight", "value_head.weight", "rotary_emb.inv_freq"):
        weights[f"model.{name}"] = torch.ones(2, 2)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    Lens.from_pretrained(str(tmp_path))
    name = f"{'' if base else 'model.'}layers.0.self_attn.q_proj.{part}"
    weights[name] = torch.ones(16)
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CannotLoad, match=rf"stores .*{re.escape(part)}.* ignores these weights"):
        Lens.from_pretrained(str(tmp_path))


def _sharded(folder: Path, state: dict[str, torch.Tensor]) -> None:
    files: dict[str, str] = {}
    for number, part in enumerate((list(state)[::2], list(state)[1::2]), 1):
        file = f"model-0000{number}-of-00002.safetensors"
        save_file({key: state[key] for key in part}, folder / file, metadata={"format": "pt"})
        files |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("form", ["sharded", "bin", "without prefix", "all"])
def test_a_missing_layer_is_refused_in_every_form(form: str, tmp_path: Path) -> None:
    model = models.randomised(MODELS["masked"]()).float()
    model.config.architectures = ["BertForMaskedLM"]
    model.config.save_pretrained(tmp_path)
    kept = {
        key: value.clone()
        for key, value in model.state_dict().items()
        if ".layer.1." not in key and key != "cls.predictions.decoder.weight"
    }
    if form == "sharded":
        _sharded(tmp_path, kept)
    elif form == "bin":
        torch.save(kept, tmp_path / "pytorch_model.bin")
    else:
        kept = {} if form == "all" else kept
        bare = {key.removeprefix("bert."): value for key, value in kept.items()}
        bare = {key: value for key, value in bare.items() if not key.startswith("cls.")}
        bare = bare or {"something.else": torch.zeros(2)}
        save_file(bare, tmp_path / "model.safetensors", metadata={"format": "pt"})
    first = "embeddings" if form == "all" else r"encoder\.layer\.1"
    with pytest.raises(CannotLoad, match=rf"lacks bert\.{first}\..* …, .*at random"):
        Lens.from_pretrained(str(tmp_path))


def test_a_different_shape_is_refused_by_name(tmp_path: Path) -> None:
    model = models.randomised(MODELS["classifier"]()).float()
    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 32}))
    with pytest.raises(
        CannotLoad, match=r"dense\.\w+ of .* has the shape \(24.*config\.json gives \(32"
    ):
        Lens.from_pretrained(str(tmp_path))
    with pytest.raises(CannotLoad, match=r"intermediate\.dense.*different shape"):
        Lens.from_pretrained(str(tmp_path), ignore_mismatched_sizes=True)
    labels = {str(number): str(number) for number in range(5)}
    (tmp_path / "config.json").write_text(json.dumps({**config, "id2label": labels}))
    with pytest.raises(CannotLoad, match=r"^classifier\.bias of"):
        Lens.from_pretrained(str(tmp_path))
    lens = Lens.from_pretrained(str(tmp_path), ignore_mismatched_sizes=True)
    lens.measure("attention", {"input_ids": IDS})
    with pytest.raises(UnsupportedModel, match=r"no classifier\.bias, classifier\.weight"):
        lens.measure("gradient_norm", {"input_ids": IDS})


def test_an_adapter_next_to_its_model_hides_nothing(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model = models.randomised(MODELS["masked"]()).float()
    model.save_pretrained(tmp_path)
    settings = peft.LoraConfig(target_modules=["query"], r=2, init_lora_weights=False)
    peft.get_peft_model(model, settings).save_pretrained(tmp_path)
    about = json.loads((tmp_path / "adapter_config.json").read_text())
    about["base_model_name_or_path"] = str(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps(about))
    Lens.from_pretrained(str(tmp_path)).measure("attention", {"input_ids": IDS})
    name = "bert.encoder.layer.0.attention.self.query.weight"
    weights = load_file(tmp_path / "model.safetensors")
    _without(tmp_path, weights, name)
    with pytest.raises(CannotLoad, match=re.escape(name)):
        Lens.from_pretrained(str(tmp_path))
    _without(tmp_path, weights, "")
    own = load_file(tmp_path / "adapter_model.safetensors")
    save_file(dict(list(own.items())[1:]), tmp_path / "adapter_model.safetensors")
    with pytest.raises(CannotLoad, match=r"query\.lora_A\.default\.weight.*at random"):
        Lens.from_pretrained(str(tmp_path))


def test_a_pooler_that_was_not_saved_matters_to_the_class_alone(tmp_path: Path) -> None:
    model = models.randomised(MODELS["classifier"]()).float()
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    bare = {key: value for key, value in weights.items() if "pooler" not in key}
    save_file(bare, tmp_path / "model.safetensors", metadata={"format": "pt"})
    lens, again = (Lens.from_pretrained(str(tmp_path)) for _ in range(2))
    first, second = (each.measure("alti", {"input_ids": IDS}) for each in (lens, again))
    assert (first.scores == second.scores).all()
    with pytest.raises(UnsupportedModel, match=r"no bert\.pooler\.dense\.bias"):
        lens.measure("gradient_norm", {"input_ids": IDS})
    assert weights_digest(lens.model) == weights_digest(again.model)
    full = {key: weights[key] for key in weights}
    lens.model.load_state_dict(full)  # the pooler is there now
    lens.measure("gradient_norm", {"input_ids": IDS})
    assert weights_digest(lens.model) != weights_digest(again.model)


def test_bundled_models_lack_nothing(tmp_path: Path) -> None:
    for name in ("masked", "causal"):
        folder = tmp_path / name
        shutil.copytree(Path(mixlens.__file__).parent / "bundled" / name, folder)
        Lens.from_pretrained(str(folder)).measure("attention", "The dogs are old.")
