"""Tiny random models that read images as tokens of a text, each with a real processor."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import transformers as tf
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

from mixlens import Lens
from tests.measures.models import randomised

SPECIAL = (
    *("<pad>", "<s>", "</s>", "<unk>", "<image>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>", "<start_of_image>", "<end_of_image>"),
    *("<image_soft_token>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>"),
    *(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)),
)
_TEXT = "user assistant : what is in the picture a cat on mat and dog red blue left right . ?"
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }} : {% if m['content'] is string %}{{ m['content'] }}"
    "{% else %}{% for p in m['content'] %}{% if p['type'] == 'image' %}IMAGE{% else %}"
    "{{ p['text'] }}{% endif %} {% endfor %}{% endif %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant : {% endif %}"
)
TEXT: dict[str, Any] = {
    **{"vocab_size": 109, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
VISION: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "image_size": 32},
}


def picture(seed: int = 0, wide: int = 64, tall: int = 48) -> Any:
    pixels = np.random.default_rng(seed).integers(0, 255, (tall, wide, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def chat(*pictures: Any, text: str = "what is in the picture ?") -> list[dict[str, Any]]:
    parts = [{"type": "image", "image": each} for each in pictures]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": text}]}]


def _tokenizer(image: str, **names: str) -> Any:
    words = [*SPECIAL, *_TEXT.split(), *(f"w{number}" for number in range(70))]
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    core.add_special_tokens(list(SPECIAL[4:]))
    marks = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    made = tf.PreTrainedTokenizerFast(
        tokenizer_object=core,
        extra_special_tokens=names,
        **marks,
    )
    made.chat_template = TEMPLATE.replace("IMAGE", image)
    return made


def _llava() -> tuple[Any, Any]:
    words = _tokenizer("<image>", image_token="<image>")
    config = tf.LlavaConfig(
        vision_config=tf.CLIPVisionConfig(**VISION, patch_size=8),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    size = {"height": 32, "width": 32}
    processor = tf.LlavaProcessor(
        image_processor=tf.CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=size),
        tokenizer=words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=words.chat_template,
    )
    return tf.LlavaForConditionalGeneration(config), processor


def _llava_next() -> tuple[Any, Any]:
    words = _tokenizer("<image>", image_token="<image>")
    points = [[32, 64], [64, 32], [64, 64]]
    config = tf.LlavaNextConfig(
        vision_config=tf.CLIPVisionConfig(**VISION, patch_size=8),
        text_config=tf.LlamaConfig(**TEXT),
        image_token_index=words.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=points,
        vision_feature_layer=-1,
    )
    size = {"height": 32, "width": 32}
    images = tf.LlavaNextImageProcessorPil(
        size={"shortest_edge": 32}, crop_size=size, image_grid_pinpoints=points
    )
    processor = tf.LlavaNextProcessor(
        image_processor=images,
        tokenizer=words,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",
        chat_template=words.chat_template,
    )
    return tf.LlavaNextForConditionalGeneration(config), processor


class _Qwen2VLProcessor(tf.Qwen2VLProcessor):
    """Without the processor of videos, which needs torchvision."""

    @classmethod
    def get_attributes(cls) -> list[str]:
        return ["image_processor", "tokenizer"]

    def __init__(self, image_processor: Any, tokenizer: Any, **options: Any) -> None:
        self.image_token, self.video_token = "<|image_pad|>", "<|video_pad|>"
        self.image_token_id = tokenizer.convert_tokens_to_ids(self.image_token)
        self.video_token_id = tokenizer.convert_tokens_to_ids(self.video_token)
        tf.ProcessorMixin.__init__(self, image_processor, tokenizer, **options)


def _qwen2_vl() -> tuple[Any, Any]:
    words = _tokenizer("<|vision_start|> <|image_pad|> <|vision_end|>")
    number = words.convert_tokens_to_ids
    cut: dict[str, Any] = {"patch_size": 8, "temporal_patch_size": 2}
    vision = {"depth": 2, "embed_dim": 32, "hidden_size": 64, "num_heads": 4, "mlp_ratio": 2}
    rotary = {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4}
    config = tf.Qwen2VLConfig(
        vision_config=vision | cut | {"spatial_merge_size": 2, "in_channels": 3},
        text_config=TEXT | {"rope_parameters": rotary},
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
    )
    images = tf.Qwen2VLImageProcessorPil(
        merge_size=2, min_pixels=16 * 16, max_pixels=96 * 96, **cut
    )
    processor = _Qwen2VLProcessor(images, words, chat_template=words.chat_template)
    return tf.Qwen2VLForConditionalGeneration(config), processor


def _gemma3() -> tuple[Any, Any]:
    words = _tokenizer(
        "<start_of_image>",
        boi_token="<start_of_image>",
        eoi_token="<end_of_image>",
        image_token="<image_soft_token>",
    )
    number = words.convert_tokens_to_ids
    text = TEXT | {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16}
    config = tf.Gemma3Config(
        vision_config=tf.SiglipVisionConfig(**VISION, patch_size=4),
        text_config=tf.Gemma3TextConfig(**text),
        mm_tokens_per_image=16,
        boi_token_index=number("<start_of_image>"),
        eoi_token_index=number("<end_of_image>"),
        image_token_index=number("<image_soft_token>"),
    )
    processor = tf.Gemma3Processor(
        image_processor=tf.Gemma3ImageProcessorPil(size={"height": 32, "width": 32}),
        tokenizer=words,
        image_seq_length=16,
        chat_template=words.chat_template,
    )
    return tf.Gemma3ForConditionalGeneration(config), processor


def _idefics3(*, splits: bool = False) -> tuple[Any, Any]:
    words = _tokenizer("<image>", image_token="<image>")
    config = tf.Idefics3Config(
        vision_config={**VISION, "patch_size": 4},
        text_config=tf.LlamaConfig(**TEXT),
        image_token_id=words.convert_tokens_to_ids("<image>"),
        scale_factor=2,
    )
    longest = {"longest_edge": 32}
    images = tf.Idefics3ImageProcessorPil(
        size={"longest_edge": 64} if splits else longest,
        max_image_size=longest,
        do_image_splitting=splits,
    )
    processor = tf.Idefics3Processor(
        image_processor=images, tokenizer=words, image_seq_len=16, chat_template=words.chat_template
    )
    return tf.Idefics3ForConditionalGeneration(config), processor


MODELS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "llava": _llava,
    "llava_next": _llava_next,
    "qwen2_vl": _qwen2_vl,
    "gemma3": _gemma3,
    "idefics3": _idefics3,
    "idefics3_tiles": functools.partial(_idefics3, splits=True),
}


@functools.cache
def vision_lens(name: str) -> Lens:
    model, processor = MODELS[name]()
    return Lens(randomised(model).float().eval(), processor=processor)
