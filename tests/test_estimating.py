"""What a measure will need, said before it runs, and our own error when memory runs out."""

from __future__ import annotations

import functools
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
from mixlens.errors import OutOfMemory
from mixlens.estimating import estimate_of, products_per_second, require_room, spelled
from mixlens.measures import list_measures, register, unregister
from mixlens.recording import memory
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


def test_what_cannot_fit_says_what_would() -> None:
    model = llama()
    whole = estimate_of(model, "value_zeroing", 131_072)
    assert whole.least > 1000 * GIB  # the weights of one layer: 32 heads of 131,072 squared
    with pytest.raises(OutOfMemory, match=r"needs at least .* TiB, and 100 GiB are free") as error:
        require_room(whole, 100 * GIB)
    assert "one target at a time (targets=[-1]) takes about" in str(error.value).lower()
    require_room(estimate_of(model, "value_zeroing", 131_072, targets=1), 100 * GIB)
    require_room(estimate_of(model, "value_zeroing", 1024), 100 * GIB)
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
    for name, spec in list_measures().items():
        estimate = estimate_of(model, name, 128)
        assert estimate.needed > estimate.least > 0
        if name in ("attention", "attention_norm", "gradient_norm", "deep_lift"):
            used = peak_bytes(functools.partial(lens.measure, name, given, **spec.least))
            assert used <= estimate.needed, name


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
    lens = Lens.bundled()
    calls: list[int] = []
    lens.model.register_forward_pre_hook(lambda module, args: calls.append(1))
    monkeypatch.setattr("mixlens.recorder.available_memory", lambda device: 1000)
    with pytest.raises(OutOfMemory, match=r"e.03 bytes are free"):
        lens.measure("attention", "The dogs are old.")
    assert not calls


def test_what_torch_may_not_reserve_is_not_free() -> None:
    """A device of 140 GiB of which torch holds three. On a GPU: benchmarks/out_of_memory.py."""
    free, whole, reserved = 136 * GIB, 140 * GIB, 3 * GIB
    assert memory.within_share(free, whole, reserved, 1.0) == free
    assert memory.within_share(free, whole, reserved, 0.05) == 4 * GIB
    assert memory.within_share(free, whole, reserved, 0.01) == 0


def test_free_memory_and_speed_are_positive() -> None:
    cpu = torch.device("cpu")
    assert memory.available_memory(cpu) >= memory.free_memory(cpu) > 0
    assert products_per_second(cpu, torch.float32) > 1e6
    assert spelled(3 * GIB) == "3 GiB"
