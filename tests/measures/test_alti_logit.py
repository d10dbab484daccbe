"""ALTI-Logit and the logit updates against loops over the model's own modules, and against the
authors' numbers.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor

import mixlens
from mixlens import InvalidInput, Lens, UnsupportedModel
from mixlens.measures import refusal
from mixlens.recording.recording import Recording
from tests import reference
from tests.measures import models, oracles, test_gradients

MEASURES = ("alti_logit", "logit_update")


# ---------------------------------------------------------------------------- the authors' numbers


@pytest.fixture(scope="module")
def recorded() -> Recording:
    numbers = reference.arrays("alti_logit/alti_logit.npz")
    return Lens(reference.alti_logit()).record({"input_ids": reference.tokens(numbers["ids"])})


@pytest.mark.smoke
@pytest.mark.parametrize(("pair", "word", "foil"), [(0, 5, 9), (1, 17, 33)])
@pytest.mark.parametrize(
    ("measure", "key"),
    [("alti_logit", "logit_aff_x_j_alti"), ("logit_update", "logit_aff_x_j")],
)
def test_released_variant_is_the_authors_code(
    recorded: Recording, measure: str, key: str, pair: int, word: int, foil: int
) -> None:
    numbers = reference.arrays("alti_logit/alti_logit.npz")

    def made(**options: Any) -> np.ndarray:
        released = models.scores(measure, recorded, variant="released", word=word, **options)
        assert released.values.shape == (3, 1, 1, 7)
        array: np.ndarray = released.values[:, 0, 0].numpy()
        return array

    by_layer = numbers[f"pair{pair}_{key}"]
    np.testing.assert_allclose(made(), by_layer[0], atol=1e-10)
    contrast = made(foil=foil)
    np.testing.assert_allclose(contrast, numbers[f"pair{pair}_{key}_contrast_layers"], atol=1e-10)
    np.testing.assert_allclose(
        contrast.sum(0), numbers[f"pair{pair}_{key}_contrast_total"], atol=1e-10
    )
    total = made(foil=foil, initial=True).sum(0)
    np.testing.assert_allclose(
        total / np.abs(total).sum(), numbers[f"pair{pair}_{key}_scored"], atol=1e-10
    )


def test_the_clean_definition_is_that_of_our_oracle(recorded: Recording) -> None:
    expected = reference.arrays("alti_logit/ours_clean_variant.npz")["pair0_alti_logit"]
    for number, word in enumerate((5, 9)):
        made = models.scores("alti_logit", recorded, word=word).values[:, 0, 0].numpy()
        np.testing.assert_allclose(made, expected[number], atol=1e-12)


# ------------------------------------------------------------------------------------- the equation


def _sizes(**changes: Any) -> dict[str, Any]:
    return {**models._CAUSAL, **changes}


HEADS: dict[str, Any] = {
    "gpt2": lambda: hf.GPT2LMHeadModel(
        hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40)
    ),
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_sizes(attention_bias=True))),
    "gemma2": lambda: hf.Gemma2ForCausalLM(
        hf.Gemma2Config(
            **_sizes(head_dim=4, query_pre_attn_scalar=4),
            final_logit_softcapping=3.0,
            layer_types=["full_attention"] * 2,
        )
    ),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(
        hf.GPTNeoXConfig(**models._SIZES, max_position_embeddings=40)
    ),
    "granite": lambda: hf.GraniteForCausalLM(
        hf.GraniteConfig(**_sizes(residual_multiplier=0.3, logits_scaling=5.0))
    ),
    "cohere": lambda: hf.CohereForCausalLM(hf.CohereConfig(**_sizes(logit_scale=0.2))),
}
BASES = {"gpt2": "transformer", "gpt_neox": "gpt_neox"}


def build(name: str) -> Any:
    model = models.randomised(models._with_plain_norms(HEADS[name]()))
    model.config._attn_implementation = "eager"
    return model


def _direction(name: str, model: Any, state: Tensor, word: int) -> Tensor:
    """g with logit part = z . g, channel by channel."""
    base = getattr(model, BASES.get(name, "model"))
    row = model.lm_head.weight[word].detach()
    if name in BASES:
        norm = oracles._layer_norm(base.ln_f if name == "gpt2" else base.final_layer_norm)
    else:
        norm = oracles._rms(base.norm, plus=1.0 if name == "gemma2" else 0.0)
    columns = [norm.linear(unit) @ row / norm.sigma(state) for unit in torch.eye(16).double()]
    direction = torch.stack(columns)
    if name == "gemma2":  # the soft-cap by its chord
        uncapped = float(norm.linear(state) / norm.sigma(state) @ row)
        direction = direction * (3.0 * np.tanh(uncapped / 3.0) / uncapped)
    return direction


def expected(name: str, model: Any, given: dict[str, Any], place: int, word: int) -> Any:
    """Updates and ALTI-Logit of one word by layer, from the loops' blocks."""
    base = getattr(model, BASES.get(name, "model"))
    blocks = oracles.blocks_checked(name, base, given)
    last: list[Tensor] = []
    layers = base.h if name == "gpt2" else base.layers

    def keep(*call: Any) -> None:
        output = call[-1]
        last.append((output[0] if isinstance(output, tuple) else output).detach().reshape(-1, 16))

    handle = layers[-1].register_forward_hook(keep)
    with torch.no_grad():
        model(**given)
    handle.remove()
    direction = _direction(name, model, last[0][place], word)
    sources = blocks[0].shape[1]
    updates, carried, below = [], [], torch.eye(sources).double()
    for block in blocks:
        row = torch.zeros(sources).double()
        for j in range(sources):
            row[j] = block.branch_part(place, block.written(place, j)) @ direction
        updates.append(row)
        carried.append(row @ below)
        below = oracles.alti(block) @ below
    return {"logit_update": torch.stack(updates), "alti_logit": torch.stack(carried)}


@pytest.mark.parametrize("length", models.LENGTHS)
@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "gpt_neox"])
def test_agrees_with_the_loops(name: str, length: int) -> None:
    model, given = build(name), models.inputs(name, length)
    recording = Lens(model).record(given)
    for place in (length - 1, 1):
        loops = expected(name, model, given, place, 7)
        for measure in MEASURES:
            made = models.scores(measure, recording, word=7, position=place).values[:, 0, 0]
            torch.testing.assert_close(made, loops[measure], atol=1e-9, rtol=1e-8)
            assert not made[:, place + 1 :].any()


@pytest.mark.parametrize("name", HEADS)
def test_parts_add_up_to_the_logit(name: str) -> None:
    """Up to the final norm's shift, which a foil leaves in too."""
    model = build(name)
    recording = Lens(model).record(models.padded_inputs(name, [5, 8]))
    for row, length in enumerate([5, 8]):
        logit = recording.output.logits[row, length - 1, 7]
        if name in BASES:
            base = getattr(model, BASES[name])
            shift = (base.ln_f if name == "gpt2" else base.final_layer_norm).bias
            logit = logit - shift @ model.lm_head.weight[7]
        sums = []
        for measure in MEASURES:
            made = models.scores(measure, recording, word=7, initial=True)
            sums.append(made.values[:, row].sum((1, 2)))
            total = sums[-1].sum() + made.extras["unattributed"][:, row].sum()
            torch.testing.assert_close(total, logit.detach(), atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(sums[0], sums[1], atol=1e-9, rtol=1e-9)


def test_batches_layers_and_foils() -> None:
    model = build("gpt2")
    recording = Lens(model).record(models.padded_inputs("gpt2", [5, 8]))
    for measure in MEASURES:
        both = models.scores(measure, recording, word=7, foil=9).values
        word, foil = (models.scores(measure, recording, word=w).values for w in (7, 9))
        torch.testing.assert_close(both, word - foil, atol=1e-12, rtol=0)
        chosen = models.scores(measure, recording, word=7, layers=[1]).values
        torch.testing.assert_close(chosen, word[1:], atol=1e-12, rtol=0)
        for row, length in enumerate([5, 8]):
            alone = Lens(model).record(models.inputs("gpt2", length, seed=row))
            for variant in ("paper", "released"):
                one = models.scores(measure, alone, word=7, variant=variant).values
                here = models.scores(measure, recording, word=7, variant=variant).values
                torch.testing.assert_close(here[:, row, :, :length], one[:, 0], atol=1e-12, rtol=0)


def test_refusals() -> None:
    bert = hf.BertForMaskedLM(hf.BertConfig(**models._SIZES, max_position_embeddings=40))
    lens = Lens(models.randomised(bert))
    causal = Lens(build("gpt2")).record(models.inputs("gpt2", 4))
    for measure in MEASURES:
        with pytest.raises(UnsupportedModel, match="norm is applied to the stream itself"):
            lens.measure(measure, models.inputs("bert", 4), word=7, position=1)
        with pytest.raises(InvalidInput, match="cannot be decomposed additively"):
            models.scores(measure, causal, word=7, of="probability")
        with pytest.raises(InvalidInput, match="paper or released"):
            models.scores(measure, causal, word=7, variant="theirs")
        reason = refusal(measure, models.recording("bart", 4).structure, "decoder") or ""
        assert reason.endswith(". Use attention_gradient instead")  # decompx_logit is refused too


class _Bent(torch.nn.Module):
    """A head that adds the square of what its product makes."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.inner(hidden)
        return made + made.square()


def test_logits_that_are_not_a_sum_of_layers_raise() -> None:
    given = models.inputs("gpt2", 4)
    bent = copy.deepcopy(build("gpt2"))
    bent.lm_head = _Bent(bent.lm_head).eval()
    hooked = copy.deepcopy(build("gpt2"))
    hooked.transformer.h[1].register_forward_hook(lambda module, args, made: 2 * made)
    changed = Lens(build("gpt2")).record(given)
    changed.output.logits = changed.output.logits + 1
    for measure in MEASURES:
        with pytest.raises(UnsupportedModel, match="not a chain of products, norms"):
            models.scores(measure, Lens(bent).record(given), word=7)
        with pytest.raises(UnsupportedModel, match="some layers of this model are unsupported"):
            models.scores(measure, Lens(hooked).record(given), word=7)
        with pytest.raises(UnsupportedModel, match="text 0 differ from the logits that"):
            models.scores(measure, changed, word=7)


@pytest.mark.parametrize("measure", ["alti_logit", "logit_update", "decompx_logit"])
def test_logits_are_computed_where_they_are_read(measure: str) -> None:
    """`lens.measure` leaves out the logits of all other tokens: the scores are the same."""
    model = test_gradients.build("causal")
    lens, given = Lens(model), models.padded_inputs("causal", [5, 8])
    widths: list[int] = []
    seen = model.lm_head.register_forward_hook(lambda _m, _i, made: widths.append(made.shape[1]))
    asked: list[tuple[dict[str, Any], int]] = [
        ({"word": 7}, 2),
        ({"position": [2, -3]}, 2),
        ({"position": 1, "word": 7, "foil": 9}, 1),
    ]
    for options, read in asked:
        whole = mixlens.measure(measure, lens.record(given), **options)
        widths.clear()
        alone = lens.measure(measure, given, **options)
        assert widths[0] == read
        assert isinstance(whole, list)
        assert isinstance(alone, list)
        for one, other in zip(whole, alone, strict=True):
            np.testing.assert_allclose(one.scores, other.scores, rtol=0, atol=1e-12)
            assert one.tokens == other.tokens
    seen.remove()
