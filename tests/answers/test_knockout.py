"""Attention knockout against stored numbers, and against masks changed by hooks on the model."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.answers.attention_edges import window_layers
from mixlens.answers.knockout import Knockout
from tests.answers import models
from tests.measures import models as random_models

PROMPT = "The keys are on the table. The dogs sleep. A man near the doors sings! It rains."


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal", dtype=torch.float64)


@pytest.mark.parametrize("name", ["llama_n9", "qwen2_n12"])
def test_stored_numbers(name: str, shared: Path) -> None:
    """By brute force: every changed model was run again."""
    folder = shared / "reference"
    about = json.loads((folder / "spans" / f"{name}_spans.json").read_text())
    with np.load(folder / "spans" / f"{name}_spans.npz", allow_pickle=False) as file:
        numbers = dict(file)
    with np.load(folder / "flashtrace" / f"{name}.npz", allow_pickle=False) as file:
        ids = file["input_ids"].tolist()
    count = about["targets"][0] + 1
    named = {f"s{i}": (held[0], held[-1] + 1) for i, held in enumerate(about["segments"])}
    lens = Lens(models.stored(folder / "flashtrace", name))
    answer = numbers["produced_tokens"].tolist()
    assert answer == ids[count : count + len(answer)]
    made = lens.knockout(
        {"input_ids": [ids[:count]]}, named, answer=answer, windows=about["windows"]
    )
    assert made.reused
    free = numbers["knockout/log_probability_unblocked"]
    expected = (free - numbers["knockout/log_probability"]).transpose(1, 0, 2)
    assert made.token_scores == pytest.approx(expected, abs=1e-10)
    assert made.log_probability == pytest.approx(free.sum(), abs=1e-10)


def _built(kind: str, implementation: str) -> Any:
    sizes: Any = random_models._CAUSAL | {"num_hidden_layers": 3}
    window = ["sliding_attention", "full_attention", "sliding_attention"]
    made: Any = {
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, attention_bias=True)),
        "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**sizes, head_dim=4)),
        "gemma2": lambda: hf.Gemma2ForCausalLM(
            hf.Gemma2Config(**sizes, head_dim=4, sliding_window=9, layer_types=window)
        ),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=3, n_head=4, n_positions=40)
        ),
        "gpt_neox": lambda: hf.GPTNeoXForCausalLM(
            hf.GPTNeoXConfig(**random_models._SIZES, max_position_embeddings=40)
        ),
        "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**sizes, num_local_experts=3)),
    }[kind]()
    made.set_attn_implementation(implementation)
    made.set_experts_implementation("eager") if kind == "mixtral" else None
    return random_models.randomised(made)


@contextlib.contextmanager
def _blocked(modules: list[Any], targets: slice, sources: slice) -> Iterator[None]:
    """Add minus infinity to the masks that these modules are given."""

    def change(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = kwargs["attention_mask"].clone()
        mask[:, :, targets, sources] = -torch.inf
        return args, {**kwargs, "attention_mask": mask}

    handles = [each.register_forward_pre_hook(change, with_kwargs=True) for each in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _attention(model: Any) -> list[Any]:
    names = ("self_attn", "attn", "attention")
    return [module for path, module in model.named_modules() if path.rpartition(".")[2] in names]


@pytest.mark.parametrize(
    ("kind", "implementation"),
    [
        ("llama", "eager"),
        ("llama", "sdpa"),
        ("qwen3", "sdpa"),
        ("gemma2", "eager"),  # its soft-cap has no other
        ("gpt2", "eager"),
        ("gpt_neox", "sdpa"),
        ("mixtral", "sdpa"),
    ],
)
def test_masks_changed_by_hooks(kind: str, implementation: str) -> None:
    """Grouped heads, query norms, soft-caps with windows, experts; many targets, and all layers."""
    ids = random_models.inputs(kind, 12)["input_ids"][0].tolist()
    answer, named = [7, 30, 9], {"a": (0, 2), "b": (4, 7), "c": (10, 12)}
    lens = Lens(_built(kind, implementation))
    layers = len(_attention(lens.model))
    windows = [[0], [layers - 1], list(range(layers))]
    made = lens.knockout({"input_ids": [ids]}, named, answer=answer, windows=windows)
    assert made.reused
    model, text = _built(kind, "eager"), torch.tensor([[*ids, *answer[:-1]]])

    def run() -> torch.Tensor:
        with torch.no_grad():
            logits = model(input_ids=text, use_cache=False).logits[0, 11:]
        return torch.log_softmax(logits, -1)[[0, 1, 2], answer]

    full = run()
    for number, (first, stop) in enumerate(named.values()):
        for place, window in enumerate(windows):
            chosen = [_attention(model)[layer] for layer in window]
            with _blocked(chosen, slice(11, None), slice(first, stop)):
                expected = (full - run()).numpy()
            assert made.token_scores[number, place] == pytest.approx(expected, abs=2e-6)


OUTSIDE: dict[str, Any] = {
    "bloom": lambda: hf.BloomForCausalLM(
        hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4)
    ),
    "falcon": lambda: hf.FalconForCausalLM(
        hf.FalconConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=4)
    ),
    "gpt_j": lambda: hf.GPTJForCausalLM(
        hf.GPTJConfig(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40, rotary_dim=4)
    ),
}


@pytest.mark.parametrize("kind", OUTSIDE)
def test_attention_outside_the_interface_is_blocked(kind: str) -> None:
    """These modelling files compute their own softmax, or call PyTorch's fused attention."""
    lens = Lens(random_models.randomised(OUTSIDE[kind]()).double())
    model: Any = random_models.randomised(OUTSIDE[kind]()).double()
    model.config._attn_implementation = "eager"
    ids = random_models.inputs("gpt2", 12)["input_ids"][0].tolist()
    answer, named = [7, 30, 9], {"a": (0, 2), "b": (4, 7)}
    windows, text = [[0], [0, 1]], torch.tensor([[*ids, *answer[:-1]]])
    seen = torch.ones_like(text)
    names = ("self_attention", "attn")

    def run() -> torch.Tensor:
        with torch.no_grad():
            logits = model(input_ids=text, attention_mask=seen, use_cache=False).logits[0, 11:]
        return torch.log_softmax(logits, -1)[[0, 1, 2], answer]

    def blocked(layers: list[int], first: int, stop: int) -> torch.Tensor:
        def change(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
            mask = torch.full((14, 14), -torch.inf, dtype=torch.float64).triu(1)
            mask[11:, first:stop] = -torch.inf
            return args, {**kwargs, "attention_mask": mask[None, None]}

        parts = [part for path, part in model.named_modules() if path.split(".")[-1] in names]
        handles = [
            parts[layer].register_forward_pre_hook(change, with_kwargs=True) for layer in layers
        ]
        logs = run()
        for handle in handles:
            handle.remove()
        return logs

    full = run()
    made = lens.knockout({"input_ids": [ids]}, named, answer=answer, windows=windows)
    assert made.reused
    for number, (first, stop) in enumerate(named.values()):
        for place, window in enumerate(windows):
            expected = (full - blocked(window, first, stop)).numpy()
            assert made.token_scores[number, place] == pytest.approx(expected, abs=2e-6)
    with pytest.raises(InvalidInput, match="sees only one of the segments"):
        lens.knockout({"input_ids": [[1, 5, 6]]}, {"all": (0, 3)}, answer=[9], windows=1)


def test_cross_attention_is_blocked() -> None:
    torch.manual_seed(0)
    base: Any = random_models.build("bart")
    model: Any = hf.BartForConditionalGeneration(base.config).eval().double()
    ids, answer = [5, 6, 7, 8, 9, 2], [4, 9, 2]
    made = Lens(model).knockout(
        {"input_ids": [ids]}, {"a": (0, 1), "b": (2, 5)}, answer=answer, windows=[[1], [0, 1]]
    )
    assert not made.reused
    model.set_attn_implementation("eager")
    cross = [layer.encoder_attn for layer in model.model.decoder.layers]

    def run() -> torch.Tensor:
        text, begun = torch.tensor([ids]), torch.tensor([[2, *answer[:-1]]])
        seen = torch.ones_like(text)
        with torch.no_grad():
            logits = model(input_ids=text, attention_mask=seen, decoder_input_ids=begun).logits[0]
        return torch.log_softmax(logits, -1)[[0, 1, 2], answer]

    def changed(module: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        mask = torch.zeros(1, 1, 3, 6, dtype=torch.float64)
        mask[..., 2:5] = -torch.inf
        return args, {**kwargs, "attention_mask": mask}

    full = run()
    handles = [each.register_forward_pre_hook(changed, with_kwargs=True) for each in cross]
    both = run()
    handles[0].remove()
    last = run()
    handles[1].remove()
    expected = torch.stack([full - last, full - both]).numpy()
    assert made.token_scores[1] == pytest.approx(expected, abs=1e-6)


def test_batches_change_nothing(lens: Lens) -> None:
    given: Any = (PROMPT, "sentences")
    calls: list[tuple[int, int]] = []
    one = lens.knockout(
        *given,
        answer=" The keys",
        windows=3,
        batch_size=1,
        progress=lambda done, total: calls.append((done, total)),
    )
    many = lens.knockout(*given, answer=" The keys", windows=3, batch_size=24)
    assert one.token_scores == pytest.approx(many.token_scores, abs=1e-10)
    assert one.scores.shape == (4, 6)
    assert calls[-1] == (25, 25)


def test_windows_are_those_of_the_paper() -> None:
    assert window_layers(5, 3) == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4]]
    assert window_layers(4, 2) == [[0], [0, 1], [1, 2], [2, 3]]
    assert window_layers(3, "all") == [[0, 1, 2]]
    assert window_layers(3, [(2, 0), [1]]) == [[0, 2], [1]]
    assert window_layers(4, np.int64(2)) == window_layers(4, 2)  # type: ignore[arg-type]
    assert window_layers(3, [np.array([2, 0])]) == [[0, 2]]
    wrong: tuple[Any, ...] = (0, "some", [[3]], [[]], [], [0], 2.5, [[True]], [["1"]], [[0.0]])
    for each in wrong:
        with pytest.raises(InvalidInput):
            window_layers(3, each)


def test_results_are_kept(lens: Lens, tmp_path: Path) -> None:
    made = lens.knockout(lens.generate(PROMPT, answer=" The keys"), windows=[[0, 1], [4, 5]])
    made.save(tmp_path / "scores.json")
    again = Knockout.load(tmp_path / "scores.json")
    assert repr(again) == repr(made)
    assert (again.token_scores == made.token_scores).all()
    assert made.window(1).scores == pytest.approx(made.scores[:, 1])
    probability = np.exp(made.log_probability)
    changed = np.exp(made.log_probability - made.scores)
    assert made.percent == pytest.approx(100 * (changed - probability) / probability)
    assert len(made.to_dataframe()) == 8
    assert made.top(1)[0][1] == made.scores.max()
    wrong: tuple[Any, ...] = (2, 0.5, "a", True)
    for number in wrong:
        with pytest.raises(InvalidInput, match="out of range"):
            made.window(number)
    for count in (*wrong[1:3], 0, -1):
        with pytest.raises(InvalidInput, match="out of range"):
            made.top(count)
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(InvalidInput, match="does not hold knockout scores"):
        Knockout.load(tmp_path / "other.json")
    for axis in ("segments", "texts", "windows", "tokens", "token_scores"):
        given = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
        given[axis].pop()
        (tmp_path / "damaged.json").write_text(json.dumps(given))
        with pytest.raises(InvalidInput, match="its scores have the shape"):
            Knockout.load(tmp_path / "damaged.json")


def test_unsupported_inputs_raise(lens: Lens) -> None:
    with pytest.raises(InvalidInput, match="sees only one of the segments"):
        lens.knockout({"input_ids": [[1, 5, 6]]}, {"all": (0, 3)}, answer=[9], windows=1)
    with pytest.raises(InvalidInput, match="exceed max_passes=5"):
        lens.knockout(PROMPT, answer=" The keys", max_passes=5)
    config = hf.MambaConfig(vocab_size=50, hidden_size=16, state_size=4, num_hidden_layers=2)
    mamba: Any = hf.MambaForCausalLM(config).eval()
    with pytest.raises(UnsupportedModel):
        Lens(mamba).knockout({"input_ids": [[5, 6, 7]]}, {"a": (0, 1)}, answer=[9])
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        Lens.bundled().knockout(PROMPT, answer=" The keys")
    sizes: Any = random_models._CAUSAL | {"num_hidden_layers": 3}
    griffin: Any = hf.RecurrentGemmaForCausalLM(
        hf.RecurrentGemmaConfig(**sizes, lru_width=16, attention_window_size=8)
    ).eval()
    with pytest.raises(UnsupportedModel, match="has 3 layers, and attention to the prompt in 1"):
        Lens(griffin).knockout({"input_ids": [[5, 6, 7]]}, {"a": (0, 1)}, answer=[9])
