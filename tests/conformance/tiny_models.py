"""How the tiny models of the conformance tests are built, by the form of their configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import transformers as hf

VOCABULARY, WIDTH, HEADS, LAYERS, INNER = 96, 32, 4, 2, 48


def _model(name: str, settings: Mapping[str, Any]) -> Callable[[], Any]:
    """The bare model of a family, built when it is called for."""
    return lambda: getattr(hf, f"{name}Model")(getattr(hf, f"{name}Config")(**settings))


def encoder(name: str, **changes: Any) -> Callable[[], Any]:
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": 64,
        **changes,
    }
    return _model(name, settings)


def decoder(name: str, **changes: Any) -> Callable[[], Any]:
    extra: dict[str, Any] = {
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        **changes,
    }
    return encoder(name, **extra)


def translator(name: str, **changes: Any) -> Callable[[], Any]:
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "encoder_layers": LAYERS,
        "decoder_layers": LAYERS,
        "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS,
        "encoder_ffn_dim": INNER,
        "decoder_ffn_dim": INNER,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        **changes,
    }
    return _model(name, settings)


def t5(name: str) -> Callable[[], Any]:
    settings = {
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "d_kv": 6,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "decoder_start_token_id": 0,
    }
    return _model(name, settings)


def vision(name: str, **changes: Any) -> Callable[[], Any]:
    settings: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "image_size": 8,
        "patch_size": 4,
        "num_channels": 3,
        **changes,
    }
    return _model(name, settings)


def audio(name: str, **changes: Any) -> Callable[[], Any]:
    settings: dict[str, Any] = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "conv_dim": (8, 8),
        "conv_stride": (4, 4),
        "conv_kernel": (8, 4),
        "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 4,
        "num_conv_pos_embedding_groups": 2,
        **changes,
    }
    return _model(name, settings)


def opt(before: bool) -> Callable[[], Any]:
    return encoder(
        "OPT",
        ffn_dim=INNER,
        word_embed_proj_dim=WIDTH,
        pad_token_id=1,
        do_layer_norm_before=before,
        intermediate_size=INNER,
    )


def clip() -> Any:
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "bos_token_id": 1,
        "intermediate_size": INNER,
        "max_position_embeddings": 64,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    vision = {
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "image_size": 8,
        "patch_size": 4,
    }
    return hf.CLIPModel(hf.CLIPConfig(text_config=text, vision_config=vision, projection_dim=WIDTH))


def pair_of_berts() -> Any:
    settings: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": 64,
    }
    decoder = hf.BertConfig(**settings, is_decoder=True, add_cross_attention=True)
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(
        hf.BertConfig(**settings), decoder
    )
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return hf.EncoderDecoderModel(config)


def captioner() -> Any:
    vision = hf.ViTConfig(
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        image_size=8,
        patch_size=4,
    )
    text = hf.GPT2Config(  # type: ignore[call-arg]
        vocab_size=VOCABULARY,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=64,
        is_decoder=True,
        add_cross_attention=True,
    )
    config = hf.VisionEncoderDecoderConfig.from_encoder_decoder_configs(vision, text)
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    return hf.VisionEncoderDecoderModel(config)


GPT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "n_embd": WIDTH,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_positions": 64,
}
NARROW: dict[str, Any] = {
    "float64_inside": False
}  # norms or softmax are taken in float32 whatever the dtype
