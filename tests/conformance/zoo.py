"""Tiny models of every supported family, each weight, bias and norm random: a forgotten bias must
show.

An entry is a kind of input and a function that builds the model. Sizes are small but all different
where they can be, so that a transposed axis shows too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from tests.conformance.tiny_models import (
    GPT,
    HEADS,
    INNER,
    LAYERS,
    NARROW,
    VOCABULARY,
    WIDTH,
    audio,
    captioner,
    clip,
    decoder,
    encoder,
    opt,
    pair_of_berts,
    t5,
    translator,
    vision,
)


@dataclass(frozen=True)
class Animal:
    kind: str  # text, translation, whisper, image, audio, towers, captions
    build: Callable[[], Any]
    style: str  # block style of the first stack
    float64_inside: bool = (
        True  # in float64, does it compute in float64, or take its softmax or norms in float32?
    )
    narrow_block_norm: bool = False  # is a norm inside the attention block among the latter?


ZOO: dict[str, Animal] = {
    "bert": Animal("text", encoder("Bert"), "post"),
    "roberta": Animal("text", encoder("Roberta", pad_token_id=1), "post"),
    "xlm-roberta": Animal("text", encoder("XLMRoberta", pad_token_id=1), "post"),
    "distilbert": Animal(
        "text",
        encoder("DistilBert", dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=INNER),
        "post",
    ),
    "electra": Animal("text", encoder("Electra", embedding_size=24), "post"),
    "albert": Animal("text", encoder("Albert", embedding_size=24), "post"),
    "deberta": Animal(
        "text",
        encoder("Deberta", relative_attention=True, pos_att_type=["c2p", "p2c"]),
        "post",
        narrow_block_norm=True,
    ),
    "deberta-v2": Animal(
        "text",
        encoder(
            "DebertaV2", relative_attention=True, pos_att_type=["c2p", "p2c"], position_buckets=8
        ),
        "post",
    ),
    "mpnet": Animal("text", encoder("MPNet"), "post"),
    "modernbert": Animal(
        "text",
        encoder(
            "ModernBert",
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            cls_token_id=1,
            sep_token_id=2,
            local_attention=4,
            global_attn_every_n_layers=2,
            norm_bias=True,
            attention_bias=True,
            mlp_bias=True,
        ),
        "bare",
        **NARROW,
    ),
    "roformer": Animal("text", encoder("RoFormer", embedding_size=WIDTH), "post"),
    "gpt2": Animal("text", lambda: hf.GPT2Model(hf.GPT2Config(**GPT)), "pre"),
    "gpt-neo": Animal(
        "text",
        lambda: hf.GPTNeoModel(
            hf.GPTNeoConfig(
                vocab_size=VOCABULARY,
                hidden_size=WIDTH,
                num_layers=LAYERS,
                num_heads=HEADS,
                max_position_embeddings=64,
                attention_types=[[["global", "local"], 1]],
                window_size=3,
            )
        ),
        "pre",
        **NARROW,
    ),
    "gpt-neox": Animal("text", encoder("GPTNeoX"), "parallel", **NARROW),
    "gpt-neox-sequential": Animal(
        "text", encoder("GPTNeoX", use_parallel_residual=False), "pre", **NARROW
    ),
    "gpt-j": Animal(
        "text", lambda: hf.GPTJModel(hf.GPTJConfig(**GPT, rotary_dim=4)), "parallel", **NARROW
    ),
    "opt": Animal("text", opt(True), "pre", **NARROW),
    "opt-post": Animal("text", opt(False), "post", **NARROW),
    "bloom": Animal(
        "text",
        lambda: hf.BloomModel(
            hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS)
        ),
        "pre",
        **NARROW,
    ),
    "falcon": Animal("text", encoder("Falcon", alibi=False), "parallel", **NARROW),
    "falcon-alibi": Animal(
        "text", encoder("Falcon", alibi=True, parallel_attn=False), "pre", **NARROW
    ),
    "mpt": Animal(
        "text",
        lambda: hf.MptModel(
            hf.MptConfig(
                vocab_size=VOCABULARY, d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, max_seq_len=64
            )
        ),
        "pre",
        **NARROW,
    ),
    "llama": Animal("text", decoder("Llama", attention_bias=True, mlp_bias=True), "pre", **NARROW),
    "mistral": Animal("text", decoder("Mistral", sliding_window=3), "pre", **NARROW),
    "qwen2": Animal(
        "text",
        decoder("Qwen2", use_sliding_window=True, sliding_window=3, max_window_layers=1),
        "pre",
        **NARROW,
    ),
    "qwen3": Animal("text", decoder("Qwen3", head_dim=12), "pre", **NARROW),
    "gemma": Animal("text", decoder("Gemma", head_dim=12), "pre", **NARROW),
    "gemma2": Animal(
        "text",
        decoder(
            "Gemma2",
            head_dim=12,
            sliding_window=3,
            query_pre_attn_scalar=8,
            attn_logit_softcapping=2.0,
        ),
        "sandwich",
        **NARROW,
        narrow_block_norm=True,
    ),
    "gemma3": Animal(
        "text",
        lambda: hf.Gemma3TextModel(
            hf.Gemma3TextConfig(
                vocab_size=VOCABULARY,
                hidden_size=WIDTH,
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                num_key_value_heads=2,
                intermediate_size=INNER,
                max_position_embeddings=64,
                head_dim=12,
                sliding_window=3,
                query_pre_attn_scalar=8,
                layer_types=["sliding_attention", "full_attention"],
                pad_token_id=0,
                bos_token_id=1,
                eos_token_id=2,
            )
        ),
        "sandwich",
        **NARROW,
        narrow_block_norm=True,
    ),
    "phi3": Animal("text", decoder("Phi3"), "pre", **NARROW),
    "olmo2": Animal("text", decoder("Olmo2"), "branch", **NARROW, narrow_block_norm=True),
    "granite": Animal("text", decoder("Granite", residual_multiplier=0.3), "pre", **NARROW),
    "cohere": Animal("text", decoder("Cohere"), "parallel", **NARROW),
    "mixtral": Animal(
        "text", decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2), "pre", **NARROW
    ),
    "qwen3-moe": Animal(
        "text",
        decoder(
            "Qwen3Moe",
            head_dim=12,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=8,
            decoder_sparse_step=1,
            norm_topk_prob=True,
        ),
        "pre",
        **NARROW,
    ),
    "gpt-oss": Animal(
        "text",
        decoder(
            "GptOss", head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=3
        ),
        "pre",
        **NARROW,
    ),
    "bart": Animal("translation", translator("Bart"), "post"),
    "mbart": Animal("translation", translator("MBart"), "pre"),
    "marian": Animal("translation", translator("Marian"), "post"),
    "m2m100": Animal("translation", translator("M2M100"), "pre"),
    "pegasus": Animal("translation", translator("Pegasus"), "pre"),
    "t5": Animal("translation", t5("T5"), "pre", **NARROW),
    "mt5": Animal("translation", t5("MT5"), "pre", **NARROW),
    "whisper": Animal(
        "whisper",
        translator("Whisper", num_mel_bins=8, max_source_positions=6, max_target_positions=32),
        "pre",
    ),
    "vit": Animal("image", vision("ViT"), "pre", **NARROW),
    "deit": Animal("image", vision("DeiT"), "pre", **NARROW),
    "dinov2": Animal("image", vision("Dinov2", layerscale_value=0.7), "pre", **NARROW),
    "beit": Animal("image", vision("Beit", use_relative_position_bias=True), "pre", **NARROW),
    "clip": Animal("towers", clip, "pre", **NARROW),
    "clip-text": Animal(
        "text",
        encoder("CLIPText", eos_token_id=2, bos_token_id=1, pad_token_id=0),
        "pre",
        **NARROW,
    ),
    "clip-vision": Animal("image", vision("CLIPVision"), "pre", **NARROW),
    "wav2vec2": Animal("audio", audio("Wav2Vec2"), "post"),
    "wav2vec2-stable": Animal(
        "audio", audio("Wav2Vec2", do_stable_layer_norm=True, feat_extract_norm="layer"), "pre"
    ),
    "hubert": Animal("audio", audio("Hubert"), "post"),
    "encoder-decoder": Animal("translation", pair_of_berts, "post"),
    "vision-encoder-decoder": Animal("captions", captioner, "pre", **NARROW),
}

PARTIAL: dict[str, Animal] = {
    "jamba": Animal(
        "text",
        decoder(
            "Jamba",
            attn_layer_period=2,
            attn_layer_offset=1,
            num_experts=1,
            num_experts_per_tok=1,
            mamba_d_state=4,
            mamba_dt_rank=4,
            use_mamba_kernels=False,
        ),
        "pre",
    ),
}
"""Measured in part: the layers with attention."""

QUICK = ("bert", "llama", "bart", "vit")  # of every shape one: what `make smoke` takes
FAMILIES = [pytest.param(name, marks=pytest.mark.smoke if name in QUICK else ()) for name in ZOO]

REFUSED: dict[str, Animal] = {
    "swin": Animal(
        "image",
        lambda: hf.SwinModel(
            hf.SwinConfig(
                image_size=8,
                patch_size=1,
                embed_dim=8,
                depths=[1, 1],
                num_heads=[2, 4],
                window_size=2,
            )
        ),
        "",
    ),
    "longformer": Animal("text", encoder("Longformer", attention_window=4, pad_token_id=1), ""),
    "nystromformer": Animal(
        "text", encoder("Nystromformer", num_landmarks=4, segment_means_seq_len=12), ""
    ),
    "fnet": Animal("text", encoder("FNet"), ""),
    "mamba": Animal(
        "text",
        lambda: hf.MambaModel(
            hf.MambaConfig(
                vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, state_size=4
            )
        ),
        "",
    ),
    "squeezebert": Animal(
        "text",
        encoder(
            "SqueezeBert",
            embedding_size=WIDTH,
            q_groups=1,
            k_groups=1,
            v_groups=1,
            post_attention_groups=1,
            intermediate_groups=1,
            output_groups=1,
        ),
        "",
    ),
}


def randomised(model: Any, seed: int = 0) -> Any:
    """Every parameter drawn; norm gains around one, all else around zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator) * 0.25
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(noise + 1 if is_gain else noise)
    return model


HEADS_OF_TASKS = (
    "ForConditionalGeneration",
    "MTModel",
    "ForMaskedLM",
    "ForCausalLM",
    "LMHeadModel",
    "ForImageClassification",
    "ForCTC",
)


def _with_head(model: Any, kind: str) -> Any:
    """The same architecture with an output that can be explained, if it has one."""
    if kind == "towers":
        return model
    family = type(model).__name__.removesuffix("TextModel").removesuffix("Model")
    for suffix in HEADS_OF_TASKS[2:5] if kind == "text" else HEADS_OF_TASKS:
        cls = getattr(hf, family + suffix, None)
        if cls is not None:
            return cls(model.config)
    return model


def built(
    name: str,
    dtype: torch.dtype = torch.float32,
    attention: str | None = None,
    *,
    head: bool = False,
) -> Any:
    torch.manual_seed(0)
    animal = (ZOO | PARTIAL | REFUSED)[name]
    model = animal.build()
    model = randomised(_with_head(model, animal.kind) if head else model).to(dtype).eval()
    if attention is not None:
        model.set_attn_implementation(attention)
    return model


def with_plain_attention(name: str, model: Any) -> Any:
    """A copy of a model with plain attention in place of torch's own function.

    Skips if it has one implementation only, or if its own two outputs differ.
    """
    eager = copy.deepcopy(model)
    eager.set_attn_implementation("eager")
    if model.config._attn_implementation != "sdpa":
        pytest.skip(f"{name} has one implementation only, or chooses it when it is built")
    with torch.no_grad():
        plain, usual = (each(**inputs(name))[0] for each in (eager, model))
    apart = float((plain - usual).abs().max() / usual.abs().max())
    if apart > 1e-3:
        pytest.skip(
            f"the model's own eager and sdpa paths differ by {apart:.1g}: each is measured as it is"
        )
    return eager


def inputs(
    name: str, dtype: torch.dtype = torch.float32, rows: int = 2, tokens: int = 9, seed: int = 1
) -> dict[str, Tensor]:
    """A batch without padding."""
    animal = (ZOO | PARTIAL | REFUSED)[name]
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, VOCABULARY, (rows, tokens), generator=generator)
    if "clip" in name:
        ids[:, -1] = 2
    text = (
        {"input_ids": ids}
        if name in ("fnet", "nystromformer")
        else {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    )
    prefix = {
        "decoder_input_ids": torch.randint(5, VOCABULARY, (rows, tokens - 2), generator=generator)
    }
    image = {"pixel_values": torch.randn(rows, 3, 8, 8, generator=generator).to(dtype)}
    sound = {"input_values": torch.randn(rows, 130, generator=generator).to(dtype)}
    features = {"input_features": torch.randn(rows, 8, 12, generator=generator).to(dtype)}
    return {
        "text": text,
        "translation": text | prefix,
        "whisper": features | prefix,
        "image": image,
        "audio": sound,
        "towers": text | image,
        "captions": image | prefix,
    }[animal.kind]
