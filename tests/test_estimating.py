"""Memory estimates before a run, and the error if memory runs out."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf

import mixlens
from benchmarks import models
from benchmarks.allocation import peak_bytes
from mixlens import Lens
from mixlens.contracts import Facts, Request, Scores, Spec
from mixlens.errors import OutOfMemory, UnsupportedModel
from mixlens.measures import ready_measures, register, unregister
from mixlens.measuring.estimates import (
    estimate_of,
    format_bytes,
    memory_advice,
    products_per_second,
    require_room,
)
from mixlens.model import placement as memory
from mixlens.model.session import open_session
from mixlens.recording.recording import Recording

GIB = 2**30


def llama() -> Any:
    """The shape of 8B, without numbers."""
    config = hf.LlamaConfig(
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        vocab_size=128_256,
        dtype=torch.bfloat16,
    )
    with torch.device("meta"):
        model: Any = hf.LlamaForCausalLM(config)
    return model.to(torch.bfloat16)


def test_the_memory_error_lists_alternatives() -> None:
    model = llama()
    whole = estimate_of(model, "value_zeroing", 131_072)
    assert whole.least > 1000 * GIB  # the weights of one layer: 32 heads of 131,072 squared
    with pytest.raises(OutOfMemory, match=r"needs about .* TiB, but 100 GiB are free") as error:
        require_room(whole, 100 * GIB)
    assert "One target takes about" in str(error.value)
    require_room(estimate_of(model, "value_zeroing", 131_072, targets=1), 100 * GIB)
    require_room(estimate_of(model, "value_zeroing", 1024), 100 * GIB)
    for name in ready_measures():  # blocks and copied matrices are no reason to refuse a short text
        require_room(estimate_of(model, name, 8), GIB // 8)
    with pytest.raises(OutOfMemory, match=r"a text of 4,096 tokens fits"):
        require_room(estimate_of(model, "effective_attention", 65_536), 30 * GIB)
    with pytest.raises(OutOfMemory) as error:
        require_room(estimate_of(model, "effective_attention", 65_536), 2**20)
    assert "tokens fits" not in str(error.value)  # a text of one token is no advice
    assert str(error.value).endswith("would not fit either.")


def test_every_measure_has_an_estimate_and_it_is_an_upper_bound() -> None:
    sizes: dict[str, Any] = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = models.bert("BertForSequenceClassification", **sizes, intermediate_size=512)
    given = models.tokens(model, 128)
    lens = Lens(model, memory_budget=0)
    lens.record(given)
    for name, spec in ready_measures().items():
        estimate = estimate_of(model, name, 128)
        assert estimate.needed > estimate.least > 0
        if name in ("attention", "attention_norm", "gradient_norm", "deep_lift"):
            used = peak_bytes(functools.partial(lens.measure, name, given, **spec.least))
            assert used <= estimate.needed, name


def sized_llama(**sizes: Any) -> Any:
    config = hf.LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=256,
        vocab_size=200,
        **sizes,
    )
    return hf.LlamaForCausalLM(config).eval()


def sized_bert(**sizes: Any) -> Any:
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 256, **sizes}
    return models.bert("BertForSequenceClassification", **sizes, vocab_size=200)


@pytest.mark.parametrize(
    ("make", "attention", "layers", "texts"),
    [(sized_bert, "eager", 2, 1), (sized_llama, "sdpa", 2, 1), (sized_llama, "eager", 3, 2)],
)
def test_the_lower_bound_never_exceeds_the_peak(
    make: Callable[..., Any], attention: str, layers: int, texts: int
) -> None:
    """Or a text would be refused that can be measured. By the allocator's own count, with blocks as
    small as they get.
    """
    model = make(num_hidden_layers=layers).to(torch.bfloat16 if texts == 2 else None)
    model.set_attn_implementation(attention)
    lens = Lens(model, memory_budget=2**20)
    slow = ("hidden_token_attribution", "decompx", "decompx_logit", "blank_out", "value_zeroing")
    recordings: dict[int, Recording] = {}
    for name, spec in ready_measures().items():
        tokens = 8 if name in slow else 128 // texts
        given = {key: ids.repeat(texts, 1) for key, ids in models.tokens(model, tokens).items()}
        recording = recordings.setdefault(tokens, lens.record(given))
        says_words = spec.explains_output and make is sized_llama
        options = {**spec.least, **({"word": 7, "position": 1} if says_words else {})}
        try:
            mixlens.measure(name, recording, **options)
        except UnsupportedModel:
            continue
        runs: dict[tuple[int | None, bool], Callable[..., Any]] = {}
        runs[None, False] = functools.partial(lens.measure, name, given)
        if spec.reads == "attention":
            runs[None, True] = functools.partial(mixlens.measure, name, recording)
        if spec.gives == "maps":
            runs[1, False] = functools.partial(lens.measure, name, given, targets=[-1])
        for (targets, recorded), run in runs.items():
            counts: dict[str, Any] = {"targets": targets, "texts": texts, "recorded": recorded}
            estimate = estimate_of(model, name, tokens, options=options, **counts)
            assert estimate.sure <= peak_bytes(functools.partial(run, **options)), (name, counts)


def test_a_gradient_of_generated_text_needs_no_attention_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = sized_llama(num_hidden_layers=2, max_position_embeddings=2048)
    lens = Lens(model)
    rows = lens.generate({"input_ids": torch.arange(2000)[None] % 199 + 1}, answer=[7])
    peak = peak_bytes(functools.partial(mixlens.measure, "gradient_norm", rows))
    whole = estimate_of(model, "attention", 2000)
    assert whole.least > 1.5 * peak
    for module in ("recorder", "measure"):
        monkeypatch.setattr(f"mixlens.measuring.{module}.available_to", lambda _: int(1.5 * peak))
    mixlens.measure("gradient_norm", rows)


def test_layers_that_are_not_named_are_not_sure() -> None:
    model = sized_llama(num_hidden_layers=8)
    lens, given = Lens(model, memory_budget=2**20), models.tokens(model, 64)
    options: dict[str, Any] = {"layers": [-1], "word": 7, "position": 1}
    estimate = estimate_of(model, "deep_lift", 64, layers=1, options=options)
    run = functools.partial(lens.measure, "deep_lift", given, **options)
    run()
    assert estimate.sure <= peak_bytes(run)


def test_the_memory_advice_names_the_size_of_a_short_text() -> None:
    """A block of a short text is small."""
    estimate = estimate_of(sized_llama(num_hidden_layers=2), "alti", 10)
    assert estimate.needed < 8 * 2**20
    assert re.search(r"takes about [\d.]+ MiB beyond", memory_advice(estimate, GIB))


def _run_out_inside(model: Any) -> None:
    with open_session(model) as session:
        session.memory_advice = lambda: "inner"
        raise MemoryError


def test_memory_that_runs_out_in_a_session_is_reported_in_our_words() -> None:
    """With the advice of the innermost caller that has an estimate, and general advice without."""
    model = Lens.bundled().model
    with pytest.raises(OutOfMemory, match="Pass a shorter text"), open_session(model):
        raise torch.OutOfMemoryError("CUDA out of memory")
    with open_session(model) as session:
        session.memory_advice = lambda: "outer"
        with pytest.raises(OutOfMemory, match="inner"):
            _run_out_inside(model)
        with pytest.raises(OutOfMemory, match="outer"), open_session(model):
            raise MemoryError
    with pytest.raises(RuntimeError, match="a different error"), open_session(model):
        raise RuntimeError("a different error")


def test_every_session_needs_evaluation_mode() -> None:
    model = Lens.bundled().model.train()
    try:
        with pytest.raises(UnsupportedModel, match="training mode"), open_session(model):
            pass
    finally:
        model.eval()


def test_logits_of_tokens_that_are_not_read_are_not_sure() -> None:
    few, many = (sized_llama(num_hidden_layers=1) for _ in range(2))
    many.config.vocab_size = 10**6
    sure = {estimate_of(model, "gradient_norm", 64).sure for model in (few, many)}
    assert len(sure) == 1


def test_an_allocator_that_gives_up_is_reported_in_our_words() -> None:
    @register("greedy", Spec(summary="", citation="", use_when="", cost="", facts=Facts()))
    def greedy(recording: Recording, request: Request) -> Scores:
        return Scores(torch.empty(2**58))

    lens = Lens.bundled()
    try:
        with pytest.raises(OutOfMemory, match=r"memory ran out: greedy of \d+ tokens takes about"):
            lens.measure("greedy", "The dogs are old.")
        with pytest.raises(MemoryError):
            mixlens.measure("greedy", lens.record("The dogs are old."))
    finally:
        unregister("greedy")


@pytest.mark.parametrize(
    "ask",
    [
        lambda lens: lens.generate("The keys to the old cabinet", max_new_tokens=2),
        lambda lens: lens.generate("The keys to the old cabinet", answer=" are"),
        lambda lens: lens.context_cite("The dogs are old. The cat is here.", "Who is old?", " dog"),
    ],
)
def test_memory_that_runs_out_while_a_prompt_is_read_is_reported_too(
    ask: Callable[[Lens], Any],
) -> None:
    lens = Lens.bundled("causal")
    layer = lens.model.get_submodule("model.layers.1")
    layer.register_forward_pre_hook(lambda module, args: torch.empty(2**58) and None)
    with pytest.raises(OutOfMemory, match=r"memory ran out: a prompt of \d+ tokens takes") as said:
        ask(lens)
    assert "layer" not in str(said.value).partition("were free.")[2]  # nothing is measured yet


def test_a_text_that_cannot_fit_is_refused_before_the_model_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lens, text = Lens.bundled("causal"), "The dogs are old."
    calls: list[int] = []
    lens.model.register_forward_pre_hook(lambda module, args: calls.append(1))
    recording, rows = lens.record(text), lens.record(text, targets=[-1])
    calls.clear()
    free(monkeypatch, 1000)
    for refused in (
        lambda: lens.measure("attention", text),
        lambda: lens.record(text),
        lambda: lens.measure("attention", text, targets=[-1]),
        lambda: lens.rollout("attention", rows),
        lambda: mixlens.measure("value_zeroing", rows),
        lambda: mixlens.measure("value_zeroing", recording),
    ):
        with pytest.raises(OutOfMemory, match=r"needs about .*, but 0.977 KiB are free"):
            refused()
    assert not calls


def free(patch: pytest.MonkeyPatch, size: int) -> None:
    patch.setattr("mixlens.model.placement.available_memory", lambda device: size)


def test_the_estimate_is_that_of_the_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    lens, text = Lens.bundled("causal"), "The dogs are old, and the cat is young. " * 4
    generated = lens.generate(text, answer=" are old.")
    calls: list[int] = []
    lens.model.register_forward_pre_hook(lambda module, args: calls.append(1))
    free(monkeypatch, 500_000)
    asked: dict[str, dict[str, Any]] = {
        "decompx": {"targets": [-1]},
        "gradient_norm": {"position": -1},
    }
    for name, options in asked.items():
        with pytest.raises(OutOfMemory, match=rf"^{name} of \d+ tokens needs about") as error:
            lens.measure(name, text, **options)
        assert "One target" not in str(error.value)  # these have no rows of their own
    with pytest.raises(OutOfMemory, match=r"^decompx of \d+ tokens needs about"):
        mixlens.measure("decompx", generated)
    assert not calls
    lens.measure("attention", text)


def test_options_that_need_less_are_not_refused() -> None:
    model = sized_llama(num_hidden_layers=2)
    whole, followed_back = (
        estimate_of(model, "decompx_logit", 4000, options={"bias": bias})
        for bias in ("absdot", "none")
    )
    assert whole.sure > 4 * followed_back.sure


def test_a_measure_that_does_not_fit_is_left_out_of_a_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lens = Lens.bundled("causal")
    free(monkeypatch, 500_000)
    compared = lens.compare("The dogs are old. " * 8, -1, only=["attention", "decompx"])
    assert list(compared.scores) == ["attention"]
    assert "488 KiB are free" in compared.left_out["decompx"]


def test_a_batch_that_does_not_fit_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    lens = Lens.bundled("causal")
    texts = ["The dogs are old."] * 4 + ["The dogs are old. " * 20]
    one = estimate_of(lens.model, "attention_norm", 5).sure
    free(monkeypatch, 2 * one)
    made = lens.measure("attention_norm", texts, on_error="skip", batch_size=4)
    assert made.names == tuple(f"text {i}" for i in range(4))
    assert [name for name, _ in made.errors] == ["text 4"]
    assert "are free" in made.errors[0][1]


def test_memory_that_torch_may_not_reserve_is_not_free() -> None:
    """A device of 140 GiB of which torch holds three. On a GPU: benchmarks/out_of_memory.py."""
    free, whole, reserved = 136 * GIB, 140 * GIB, 3 * GIB
    assert memory.within_share(free, whole, reserved, 1.0) == free
    assert memory.within_share(free, whole, reserved, 0.05) == 4 * GIB
    assert memory.within_share(free, whole, reserved, 0.01) == 0


def test_free_memory_and_speed_are_positive() -> None:
    cpu = torch.device("cpu")
    assert memory.available_memory(cpu) >= memory.free_memory(cpu) > 0
    assert products_per_second(cpu, torch.float32) > 1e6
    assert format_bytes(3 * GIB) == "3 GiB"
