"""ContextCite against the authors' package, and against its definition with loops."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from scipy.stats import spearmanr
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from mixlens import EmptyInput, InvalidInput, Lens, MissingTokenizer, UnsupportedModel
from mixlens.measuring.answer_odds import (
    answer_log_probabilities,
    answer_odds,
    log_odds,
    token_log_probabilities,
)
from mixlens.measuring.context_citing import ContextCitation, draw_masks, keep_segments
from mixlens.text.segments import spans_of
from tests import reference
from tests.measures import models

CONTEXT = "The keys are on the table. The dogs sleep.\nA man near the doors sings! It rains."
QUERY = "Where are the keys?"


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal", dtype=torch.float64)


@pytest.mark.smoke
def test_scores_are_those_of_the_authors_package() -> None:
    """context-cite 0.0.4 on the bundled model; it works in float32 and so does its LASSO."""
    theirs = json.loads((reference.FOLDER / "context_cite" / "numbers.json").read_text())
    lens = Lens.bundled("causal")
    lens.tokenizer.chat_template = theirs["chat_template"]
    made = lens.context_cite(theirs["context"], theirs["query"], **theirs["generation"])
    masks = ["".join(str(int(kept)) for kept in row) for row in made.kept]
    assert masks == theirs["masks"]
    assert made.answer == theirs["response"]
    assert np.abs(made.scores - theirs["scores"]).max() < 1e-3 * np.abs(theirs["scores"]).max()
    assert made.intercept == pytest.approx(theirs["intercept"], rel=1e-4)


def _log_odds(lens: Lens, prompt: str, answer: str) -> float:
    """One token after the other, each by its own forward pass."""
    ids = lens.tokenizer(prompt)["input_ids"]
    logs = 0.0
    for token in lens.tokenizer(prompt + answer)["input_ids"][len(ids) :]:
        with torch.no_grad():
            words = lens.model(input_ids=torch.tensor([ids])).logits[0, -1]
        logs += float(torch.log_softmax(words, -1)[token])
        ids.append(token)
    return logs - math.log(1 - math.exp(logs))


def test_scores_are_those_of_the_definition(lens: Lens) -> None:
    """A given answer: every prompt written out by hand, every token by its own pass."""
    answer = " The keys are on the table."
    made = lens.context_cite(CONTEXT, QUERY, answer, ablations=12, held_out=4, batch_size=5)
    parts = ["The keys are on the table.", "The dogs sleep.", "A man near the doors sings!"]
    parts.append("It rains.")
    blanks = ["", " ", "\n", " "]
    assert list(made.texts) == parts
    odds = []
    for kept in draw_masks(16, 4, 0):
        chosen = [number for number in range(4) if kept[number]]
        text = "".join(blanks[i] * (i != chosen[0]) + parts[i] for i in chosen)
        odds.append(_log_odds(lens, f"Context: {text}\n\nQuery: {QUERY}", answer))
    assert made.log_odds == pytest.approx(odds[:12], abs=1e-10)
    scaler = StandardScaler()
    columns = scaler.fit_transform(made.kept.astype(float))
    tokens = len(lens.tokenizer(QUERY + answer)["input_ids"]) - len(
        lens.tokenizer(QUERY)["input_ids"]
    )
    fitted = Lasso(alpha=0.01).fit(columns, np.array(odds[:12]) / tokens)
    assert made.scores == pytest.approx(fitted.coef_ * tokens / scaler.scale_, abs=1e-9)
    assert made.top(1)[0][1] == made.scores.max()
    assert list(made.to_dataframe()["score"]) == list(made.scores)


def test_a_surrogate_that_is_right_is_seen(lens: Lens) -> None:
    """The held-out correlation is that of ranks, on masks that were not fitted."""
    made = lens.context_cite(CONTEXT, QUERY, " The keys.", ablations=20, held_out=10, seed=3)
    kept = draw_masks(30, 4, 3)
    whole = [f"Context: {_kept(row)}\n\nQuery: {QUERY}" for row in kept[20:]]
    actual = [_log_odds(lens, prompt, " The keys.") for prompt in whole]
    predicted = kept[20:] @ made.scores + made.intercept
    assert made.correlation == pytest.approx(spearmanr(predicted, actual).statistic)
    assert f"{made.correlation:.2f}" in repr(made)
    assert not (draw_masks(30, 4, 0) == kept).all()


def _kept(row: np.ndarray) -> str:
    spans = [("", 0, 26), ("", 27, 42), ("", 43, 70), ("", 71, 80)]
    return keep_segments(CONTEXT, spans, list(row))


def test_segments_by_name_keep_the_text_between_them(lens: Lens) -> None:
    text = "First: the keys. Second: the dogs. End."
    spans = [("one", 7, 16), ("two", 25, 34)]
    assert keep_segments(text, spans, [True, True]) == text
    assert keep_segments(text, spans, [False, True]) == "First:  Second: the dogs. End."
    assert keep_segments("a. b. ", [("", 0, 2), ("", 3, 5)], [False, True]) == "b."
    named: dict[str, Any] = {"one": "the keys.", "two": (25, 34)}
    made = lens.context_cite(text, QUERY, " Here.", named, ablations=4, held_out=2)
    assert made.segments == ("one", "two")
    assert made.texts == ("the keys.", "the dogs.")


def test_encoder_and_decoder() -> None:
    """The context is the encoder's. Prompts of unequal length in one batch change nothing."""
    torch.manual_seed(0)
    base: Any = models.build("bart")
    model: Any = hf.BartForConditionalGeneration(base.config).eval().double()
    prompts = [[5, 6, 7, 2], [5, 2], [9, 8, 7, 6, 5, 2]]
    alone = [answer_odds(model, None, [prompt], [4, 9, 2])[0] for prompt in prompts]
    assert answer_odds(model, None, prompts, [4, 9, 2]) == pytest.approx(alone, abs=1e-10)
    with torch.no_grad():
        begun = {"decoder_input_ids": torch.tensor([[2, 4, 9]])}
        logits = model(input_ids=torch.tensor([prompts[0]]), **begun).logits[0]
    log = float(torch.log_softmax(logits, -1)[[0, 1, 2], [4, 9, 2]].sum())
    assert alone[0] == pytest.approx(log - math.log(1 - math.exp(log)), abs=1e-10)
    by_token = answer_log_probabilities(model, None, prompts, [4, 9, 2])
    assert by_token.shape == (3, 3)
    assert by_token[0].sum() == pytest.approx(log, abs=1e-10)


def test_experts_in_float64(lens: Lens) -> None:
    config = hf.MixtralConfig(
        **models._CAUSAL | {"vocab_size": len(lens.tokenizer), "max_position_embeddings": 256},
        num_local_experts=3,
    )
    cited = Lens(models.randomised(hf.MixtralForCausalLM(config)), lens.tokenizer)
    made = cited.context_cite(CONTEXT, QUERY, ablations=3, held_out=2, max_new_tokens=2)
    config._experts_implementation_internal = "eager"
    prompts = [f"Context: {_kept(row)}\n\nQuery: {QUERY}" for row in made.kept]
    odds = [_log_odds(cited, prompt, made.answer) for prompt in prompts]
    assert made.log_odds == pytest.approx(odds, abs=1e-9)


def test_frequencies_of_a_longer_prompt_do_not_stay(lens: Lens) -> None:
    """Dynamic NTK keeps the frequencies of the longest prompt that the model has read."""
    rotary = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    sizes = models._CAUSAL | {"vocab_size": len(lens.tokenizer), "max_position_embeddings": 6}

    def fresh() -> Lens:
        config = hf.LlamaConfig(**sizes, rope_parameters=rotary)
        return Lens(models.randomised(hf.LlamaForCausalLM(config)), lens.tokenizer)

    made = fresh().context_cite(CONTEXT, QUERY, [9], ablations=6, held_out=2)
    for kept, odds in zip(made.kept, made.log_odds, strict=True):
        ids = lens.tokenizer(f"Context: {_kept(kept)}\n\nQuery: {QUERY}")["input_ids"]
        with torch.no_grad():
            logits = fresh().model(input_ids=torch.tensor([ids])).logits[0]
        alone = log_odds(token_log_probabilities(logits[-1:], [9]))
        assert odds == pytest.approx(alone, abs=1e-10)


def test_certain_answers_stay_finite() -> None:
    """Where the package has log(0): P rounds to one."""
    logits = torch.zeros(2, 5)
    logits[:, 3] = 60
    odds = log_odds(token_log_probabilities(logits, [3, 3]).sum(keepdims=True))
    assert odds == pytest.approx(60 - math.log(4) - math.log(2), abs=1e-6)


def test_unsupported_contexts_raise(lens: Lens) -> None:
    masked = Lens.bundled()
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        masked.context_cite(CONTEXT, QUERY, " The keys.", ablations=4, held_out=2)
    with pytest.raises(EmptyInput, match="context is empty"):
        lens.context_cite(" ", QUERY)
    for wrong in ({"ablations": 1}, {"seed": -1}, {"held_out": True}, {"segments": "turns"}):
        with pytest.raises(InvalidInput):
            lens.context_cite(CONTEXT, QUERY, **wrong)
    with pytest.raises(InvalidInput, match="The context has no segments"):
        lens.context_cite(CONTEXT, QUERY, segments={})
    forms: tuple[Any, ...] = (["The keys"], [("a", 0)], None, 3)
    for form in forms:
        with pytest.raises(InvalidInput, match="Segments need names"):
            lens.context_cite(CONTEXT, QUERY, segments=form)
    places: tuple[Any, ...] = (7, ("a", "b"), (0, 1.5), (0, 4, 9))
    for place in places:
        with pytest.raises(InvalidInput, match="Pass its text"):
            lens.context_cite(CONTEXT, QUERY, segments={"a": place})
    with pytest.raises(InvalidInput, match="is empty or out of range"):
        lens.context_cite(CONTEXT, QUERY, segments=[("a", 3, 3)])
    with pytest.raises(MissingTokenizer, match="so it cannot read a context"):
        Lens(lens.model).context_cite(CONTEXT, QUERY)
    with pytest.raises(InvalidInput, match="Begin the answer with a space"):
        lens.context_cite(CONTEXT, "The keys to the cab", "inet", template="{context} {query}")
    with pytest.raises(InvalidInput, match=r"token id \d+ is outside the model.s vocabulary"):
        lens.context_cite(CONTEXT, QUERY, [len(lens.tokenizer) + 5])
    with pytest.raises(InvalidInput, match="template"):
        lens.context_cite(CONTEXT, QUERY, template="{query}")
    with pytest.raises(InvalidInput, match="template"):
        lens.context_cite(CONTEXT, QUERY, template="{context} {other}")


def test_hierarchical_search(tmp_path: Path) -> None:
    lens = Lens.bundled("causal")
    context = "Tom has a red ball. Tom is big.\n\nLily has a blue car. She is happy.\n\nBen sleeps."
    steps: list[tuple[int, int]] = []
    made = lens.context_cite(
        context,
        "Lily has a",
        " blue car.",
        template="{context}\n{query}",
        ablations=12,
        held_out=4,
        within="paragraphs",
        best=1,
        max_passes=32,
        progress=lambda done, total: steps.append((done, total)),
    )
    assert made.within is not None
    assert made.within.segments == ("paragraph 1", "paragraph 2", "paragraph 3")
    alone = lens.context_cite(
        context,
        "Lily has a",
        " blue car.",
        "paragraphs",
        template="{context}\n{query}",
        ablations=12,
        held_out=4,
    )
    np.testing.assert_array_equal(made.within.scores, alone.scores)
    best = made.within.top(1)[0][0]
    inside = {"paragraph 1": (1, 2), "paragraph 2": (3, 4), "paragraph 3": (5,)}[best]
    assert made.segments == tuple(f"sentence {number}" for number in inside)
    spans = [span for span in spans_of(context, "sentences") if span[0] in made.segments]
    fitted = lens.context_cite(
        context,
        "Lily has a",
        " blue car.",
        spans,
        template="{context}\n{query}",
        ablations=12,
        held_out=4,
    )
    np.testing.assert_array_equal(made.scores, fitted.scores)
    assert steps[-1][0] <= 32 == steps[-1][1]
    with pytest.raises(InvalidInput, match="192 forward passes exceed max_passes=100"):
        lens.context_cite(context, "q", " x", within="paragraphs", max_passes=100)
    with pytest.raises(InvalidInput, match="leaves no prompt if the whole context is left out"):
        lens.context_cite("The dogs bark.", "q", " x", template="{context}", ablations=8)
    with pytest.raises(InvalidInput, match="best=0 is out of range"):
        lens.context_cite(context, "q", " x", within="paragraphs", best=0)
    made.save(tmp_path / "citation.json")
    again = ContextCitation.load(tmp_path / "citation.json")
    for name in ("segments", "texts", "scores", "intercept", "correlation", "kept", "log_odds"):
        np.testing.assert_array_equal(getattr(again, name), getattr(made, name))
    assert again.within is not None
    assert again.within.top() == made.within.top()
    written = (tmp_path / "citation.json").read_text()
    (tmp_path / "damaged.json").write_text(written.replace('"kept": [', '"kept": [[true],', 1))
    with pytest.raises(InvalidInput, match="does not hold citations of a context"):
        ContextCitation.load(tmp_path / "damaged.json")
