from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers.processors import TemplateProcessing

from mixlens import Lens
from mixlens.datasets.examples import Agreement, Example, Labelled
from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.evaluating import case as _case
from mixlens.evaluating.case import Case
from mixlens.evaluations import accuracy
from mixlens.text.tokens import cls_position
from tests.evaluations.sentences import agreement, cases, lens

TEXT = ("The keys to the old cabinet are on the table .", "are", "is", "keys")


def test_a_masked_model_predicts_at_the_mask() -> None:
    case = Case(lens(), agreement(*TEXT))
    assert case.given == "The keys to the old cabinet [MASK] on the table ."
    assert case.row.labels[case.target] == "[MASK]"
    assert [case.row.labels[i] for i in case.cues[0]] == ["keys"]
    assert case.explain == {"word": "are", "foil": "is", "position": case.target}


def test_a_causal_model_predicts_after_the_preceding_text() -> None:
    case = Case(lens("causal"), agreement(*TEXT))
    assert case.given == "The keys to the old cabinet"
    assert case.target == len(case.row) - 1
    assert "".join(case.row.labels[i] for i in case.cues[0]) == "Ġkeys"


def test_a_cue_behind_the_mask_is_found_where_the_mask_moved_it() -> None:
    text = "There are some keys on the table ."
    at = text.index("keys")
    example = Agreement(name="x", text=text, place=(6, 9), foil="is", cues=((at, at + 4),))
    case = Case(lens(), example)
    assert [case.row.labels[i] for i in case.cues[0]] == ["keys"]
    with pytest.raises(InvalidInput, match="after the target"):
        _ = Case(lens("causal"), example).cues


def test_maps_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counting(name: str, *args: Any, **options: Any) -> Any:
        calls.append(name)
        return original(name, *args, **options)

    original = getattr(_case, "measured")  # noqa: B009 - imported there, not its own
    monkeypatch.setattr(_case, "measured", counting)
    case = Case(lens(), agreement(*TEXT))
    for _ in range(2):
        case.target_row("alti")
        case.layer_rows("alti")
        case.maps("blank_out", signed=True)
    assert calls == ["alti", "blank_out"]


def test_rows_are_shares() -> None:
    case = cases()[0]
    for measure in ("alti", "gradient_x_input", "value_zeroing"):
        assert np.abs(case.target_row(measure)).sum() == pytest.approx(1)
        assert np.abs(case.layer_rows(measure)).sum(-1) == pytest.approx(
            np.ones(len(case.layer_rows(measure)))
        )


def test_output_measures_explain_the_target_against_its_foil() -> None:
    case = cases()[0]
    maps = lens().measure("blank_out", case.given, word="are", foil="is", position=case.target)
    assert case.maps("blank_out").scores == pytest.approx(maps.scores, abs=1e-6)


def test_under_another_model() -> None:
    case, other = Case(lens(), agreement(*TEXT)), lens("causal")
    assert case.under(other) is case.under(other)
    assert case.under(other).lens is other
    assert case.under(other).example is case.example


def test_misuse_is_named() -> None:
    text = "The keys are old ."
    with pytest.raises(InvalidInput, match="overlaps"):
        _ = Case(
            lens(), Agreement(name="x", text=text, place=(9, 12), foil="is", cues=((8, 10),))
        ).cues
    with pytest.raises(InvalidInput, match="has no cue"):
        _ = Case(lens(), Agreement(name="x", text=text, place=(9, 12), foil="is")).cues
    with pytest.raises(InvalidInput, match="have no cues"):
        _ = Case(lens(), Labelled(name="x", text=text, label="1")).cues
    with pytest.raises(InvalidInput, match=r"cue ' ' contains no token"):
        _ = Case(
            lens(), Agreement(name="x", text=text, place=(9, 12), foil="is", cues=((3, 4),))
        ).cues
    unmasked = copy.deepcopy(lens().tokenizer)
    unmasked.mask_token = None
    with pytest.raises(InvalidInput, match="no mask token and the model is not causal"):
        _ = Case(Lens(lens().model, unmasked), agreement(*TEXT)).given
    with pytest.raises(InvalidInput, match="examples have no right answer"):
        accuracy.observe(Case(lens(), Example(name="x", text=text)))
    with pytest.raises(InvalidInput, match="first word"):
        _ = Case(lens("causal"), Agreement(name="x", text=text, place=(0, 3), foil="a")).given
    with pytest.raises(InvalidInput, match="Unknown measure 'atention'"):
        cases()[0].maps("atention")
    with pytest.raises(MissingTokenizer):
        _ = Case(Lens(lens().model), Example(name="x", text=text)).causal


def test_an_encoder_decoder_is_refused_but_for_aligned_pairs() -> None:
    torch.manual_seed(0)
    config = hf.BartConfig(
        vocab_size=9000,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=40,
    )
    case = Case(
        Lens(hf.BartForConditionalGeneration(config).eval(), lens().tokenizer),
        Example(name="x", text="The keys are old ."),
    )
    with pytest.raises(InvalidInput, match="aligned pairs"):
        _ = case.row


@pytest.mark.parametrize(
    ("labels", "position"),
    [
        (("[CLS]", "a", "[CLS]"), 0),
        (("a", "b", "[SEP]", "[CLS]"), 3),  # as in XLNet
        (("a", "b"), 0),
    ],
)
def test_the_place_of_cls_is_found_by_its_token(labels: tuple[str, ...], position: int) -> None:
    assert cls_position(lens().tokenizer, labels) == position
    assert cls_position(None, labels) == 0


def test_the_row_of_a_classified_text_is_that_of_its_cls() -> None:
    tokenizer = copy.deepcopy(lens().tokenizer)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A [SEP] [CLS]",
        special_tokens=[(t, tokenizer.convert_tokens_to_ids(t)) for t in ("[SEP]", "[CLS]")],
    )
    text = Labelled(name="x", text="It rains .", label="0")
    case = Case(Lens(lens().model, tokenizer), text)
    assert case.row.labels[case.target] == "[CLS]"
    assert case.target == len(case.row) - 1
