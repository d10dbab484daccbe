from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mixlens.contracts import AttentionKind, Facts, Request, Scores, Spec
from mixlens.errors import InvalidInput
from mixlens.maps.mixing_maps import MixingMaps
from mixlens.measuring.measured_batch import MeasuredBatch, maps_of_text
from mixlens.text.tokens import TokenRow

ROWS = [TokenRow(("[CLS]", "the", "hat", "[SEP]")), TokenRow(("[CLS]", "hat", "[SEP]"))]
SPEC = Spec(
    summary="s",
    citation="Someone 2020",
    use_when="u",
    cost="c",
    facts=Facts(rows_sum_to_one=True),
    rollout_residual=0.25,
    rollout_normalised=False,
)


def recording(sources: list[TokenRow] = ROWS) -> Any:
    """Two rows of 4 and 3 real tokens."""
    model: Any = nn.Linear(1, 1).half()
    model.config = SimpleNamespace(_name_or_path="some/model", _commit_hash="abc")
    return SimpleNamespace(
        model=model,
        batch=2,
        named_targets=lambda site, row: ROWS[row],
        is_kept=True,
        not_cut=None,
        source_tokens=lambda site, row: sources[row],
        structure=SimpleNamespace(
            site=lambda name: SimpleNamespace(numbers=tuple(range(8))),
            stack_of=lambda site: "stack",
        ),
        last_stack="stack",
        produced=None,
    )


def request(
    layers: tuple[int, ...] = (0, 1), targets: Any = None, kind: AttentionKind = AttentionKind.SELF
) -> Request:
    return Request(site="encoder", kind=kind, layers=layers, targets=targets, per_head=False)


def of_row(
    row: int,
    scores: Scores,
    made: Request | None = None,
    sources: list[TokenRow] = ROWS,
    **options: Any,
) -> MixingMaps:
    batch = MeasuredBatch(
        name="some_measure",
        spec=SPEC,
        recording=recording(sources),
        request=made or request(),
        scores=scores,
        options=options,
    )
    return maps_of_text(batch, row)


# ----------------------------------------------------------------------------------- from a measure


def test_padding_is_cut_from_targets_and_sources_and_from_nothing_else() -> None:
    values = torch.arange(2 * 2 * 5 * 4 * 4, dtype=torch.float64).reshape(2, 2, 5, 4, 4)
    maps = of_row(1, Scores(values))
    np.testing.assert_array_equal(maps.scores, values[:, 1, :, :3, :3].numpy())
    assert maps.scores.dtype == np.float64
    assert maps.data.dims == ("layer", "head", "target", "source")
    assert maps.tokens == maps.source_tokens == ("[CLS]", "hat", "[SEP]")
    assert of_row(0, Scores(values)).scores.shape == (2, 5, 4, 4)


def test_half_precision_is_widened_exactly() -> None:
    values = torch.rand(2, 2, 4, 4).bfloat16()
    maps = of_row(0, Scores(values))
    assert maps.scores.dtype == np.float32
    np.testing.assert_array_equal(maps.scores, values[:, 0].float().numpy())


def test_chosen_targets_keep_their_positions_and_labels() -> None:
    values = torch.rand(1, 2, 2, 4)
    maps = of_row(1, Scores(values), request(layers=(5,), targets=((3, 0), (2, 0))))
    assert maps.tokens == ("[SEP]", "[CLS]")
    assert maps.data.coords["target"].values.tolist() == [2, 0]
    assert maps.data.coords["target_token"].values.tolist() == ["[SEP]", "[CLS]"]
    assert maps.data.coords["layer"].values.tolist() == [5]
    np.testing.assert_array_equal(maps.scores, values[:, 1, :, :3].numpy())
    assert float(maps.data.sel(layer=5, target=0, source=1)) == float(values[0, 1, 1, 1])


def test_cross_attention_has_the_encoders_tokens_as_sources() -> None:
    sources = [TokenRow(tuple("abcde")), TokenRow(tuple("ab"))]
    maps = of_row(1, Scores(torch.rand(2, 2, 4, 5)), request(kind=AttentionKind.CROSS), sources)
    assert maps.scores.shape == (2, 3, 2)
    assert maps.source_tokens == ("a", "b")
    assert maps.provenance["kind"] == AttentionKind.CROSS


def test_explained_outputs_are_targets_of_their_own() -> None:
    values = torch.rand(1, 2, 1, 4)
    maps = of_row(
        1, Scores(values, layers=(0,), target_labels=("are", "is"), facts=Facts(signed=True))
    )
    assert maps.tokens == ("is",)
    assert maps.layers == (0,)
    assert maps.facts == Facts(signed=True, same_tokens=False)
    assert maps.scores.shape == (1, 1, 3)
    words = of_row(
        1,
        Scores(values, layers=(0,), target_labels=("are", "is")),
        sources=[ROWS[0], TokenRow(("a@@", "b", "c"))],
    ).words()
    assert (words.tokens, words.source_tokens) == (("is",), ("ab", "c"))
    with pytest.raises(InvalidInput, match="different tokens"):
        maps.rollout()


def test_extras_are_cut_by_the_names_of_their_axes() -> None:
    extras = {
        "null_attention": torch.rand(2, 2, 6, 4, 4),
        "rank": torch.arange(24).reshape(2, 2, 6),
        "mixing_ratio": torch.rand(2, 2, 4),
        "total": torch.rand(2, 2),
    }
    dims = {
        "null_attention": ("head", "target", "source"),
        "rank": ("head",),
        "mixing_ratio": ("target",),
    }
    maps = of_row(1, Scores(torch.rand(2, 2, 4, 4), extras, dims))
    assert maps.extras["null_attention"].dims == ("layer", "head", "target", "source")
    np.testing.assert_array_equal(
        maps.extras["null_attention"], extras["null_attention"][:, 1, :, :3, :3]
    )
    assert maps.extras["rank"].values.tolist() == extras["rank"][:, 1].tolist()
    assert maps.extras["rank"].dtype == np.int64
    assert maps.extras["mixing_ratio"].coords["target_token"].values.tolist() == [
        "[CLS]",
        "hat",
        "[SEP]",
    ]
    assert maps.extras["total"].dims == ("layer",)
    part = maps.at(layers=[1], targets=[2])
    np.testing.assert_array_equal(
        part.extras["null_attention"], maps.extras["null_attention"][1:, :, 2:]
    )
    np.testing.assert_array_equal(part.extras["rank"], maps.extras["rank"][1:])
    assert not maps.normalised().extras  # they were measured next to other numbers


def test_provenance_tells_what_made_the_numbers() -> None:
    maps = of_row(
        0, Scores(torch.rand(2, 2, 4, 4)), distance=("cosine",), device=torch.device("cpu")
    )
    about = maps.provenance
    assert (about["measure"], about["citation"], about["site"]) == (
        "some_measure",
        "Someone 2020",
        "encoder",
    )
    assert (about["model"], about["name"], about["revision"], about["dtype"]) == (
        "Linear",
        "some/model",
        "abc",
        "float16",
    )
    assert about["options"] == {"distance": ["cosine"], "device": "cpu"}
    assert about["versions"].keys() == {"mixlens", "torch", "transformers"}
    assert (maps.rollout_residual, maps.rollout_normalised) == (0.25, False)
    steps = maps.normalised().rollout(residual=0).provenance["steps"]
    assert steps == ["normalised()", "rollout(residual=0, normalise=False)"]
    assert maps.provenance["steps"] == []


def test_maps_do_not_keep_or_change_the_numbers_they_came_from() -> None:
    values = torch.rand(2, 2, 4, 4)
    maps = of_row(0, Scores(values))
    before = maps.scores.copy()
    values.zero_()
    np.testing.assert_array_equal(maps.scores, before)
    with pytest.raises(ValueError, match="read-only"):
        maps.scores[:] = 0
    assert np.shares_memory(maps.scores, maps.data.values)


# -------------------------------------------------------------------------------------- of an array


def test_a_known_measure_brings_its_facts_and_its_rollout() -> None:
    maps = MixingMaps.of(np.eye(2)[None], measure="attention")
    assert (maps.rollout_residual, maps.facts.rows_sum_to_one) == (0.5, True)
    assert MixingMaps.of(np.eye(2)[None], measure="mine").rollout_residual is None


@pytest.mark.parametrize("shape", [(3,), (3, 3), (1, 2, 4), (1, 1, 1, 3, 3)])
def test_arrays_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="cores"):
        MixingMaps.of(np.zeros(shape), tokens=["a", "b", "c"], source_tokens=["a", "b", "c"])


def test_scores_in_other_forms() -> None:
    square = np.arange(4.0).reshape(1, 2, 2)
    tensor = torch.tensor(square, requires_grad=True)
    for form in (tensor, tensor.bfloat16(), square.tolist(), tensor.half() * 1):
        np.testing.assert_array_equal(MixingMaps.of(form).scores, square)
    wrong: tuple[Any, ...] = (
        [[1.0], [1.0, 2.0]],
        [[[1.0, 2.0], [1.0]]],
        [tensor[0]],
        3,
        "text",
        None,
        {},
        [[["a"]]],
    )
    for other in wrong:
        with pytest.raises(InvalidInput):
            MixingMaps.of(other)
    with pytest.raises(InvalidInput, match="Tokens are not strings"):
        MixingMaps.of(square, tokens=5)  # type: ignore[arg-type]


def test_repr_shows_what_and_how_much() -> None:
    shown = repr(
        MixingMaps.of(np.ones((1, 9, 9)), tokens=list("abcdefghi"), measure="mine").normalised()
    )
    assert "mine → normalised()" in shown
    assert "1 layer × 9 targets × 9 sources" in shown
    assert "a b c d e f g h …" in shown


# ------------------------------------------------------------------------------------ normalisation


def test_normalised_by_hand() -> None:
    maps = MixingMaps.of([[[1.0, 3.0], [0.0, 0.0]]])
    np.testing.assert_array_equal(maps.normalised().scores, [[[0.25, 0.75], [0, 0]]])
    assert not maps.normalised().facts.rows_sum_to_one  # a row of zeros does not
    assert maps.at(targets=[0]).normalised().facts.rows_sum_to_one


def test_signed_scores_are_normalised_by_their_sizes_or_not_at_all() -> None:
    maps = MixingMaps.of([[[1.0, -3.0], [2.0, -2.0]]], facts=Facts(signed=True))
    with pytest.raises(InvalidInput, match=r"absolute=True"):
        maps.normalised()
    shares = maps.normalised(absolute=True)
    np.testing.assert_array_equal(shares.scores, [[[0.25, 0.75], [0.5, 0.5]]])
    assert shares.facts == Facts(rows_sum_to_one=True)


@settings(deadline=None)
@given(
    st.integers(0, 1000),
    st.integers(1, 6),
    st.sampled_from([np.float32, np.float64]),
    st.floats(1e-20, 1e20),
)
def test_normalised_is_idempotent(seed: int, tokens: int, dtype: type, scale: float) -> None:
    raw: Any = (scale * np.random.default_rng(seed).random((2, 3, tokens, tokens))).astype(dtype)
    once = MixingMaps.of(raw).normalised()
    assert once.scores.dtype == dtype
    np.testing.assert_allclose(once.scores.sum(-1), 1, rtol=1e-6)
    np.testing.assert_allclose(once.normalised().scores, once.scores, rtol=1e-6)


# --------------------------------------------------------------------------------------------- rows


def test_top_sources_by_layer_number() -> None:
    maps = MixingMaps.of(
        np.array([[[1, 2, 3], [3, 1, 2], [2, 3, 1]], [[5, 5, 9], [0, 0, 0], [7, 8, 6]]]),
        tokens=["a", "b", "c"],
    )
    last = maps.row("a").top(2, layer=-1)
    assert last == [("c", 2, 9.0), ("a", 0, 5.0)]  # equal scores: the earlier one
    assert maps.row(-1).top(1, layer=0) == [("b", 1, 3.0)]
    assert len(maps.row(0).top(50)) == 3
    later = maps.at(layers=[1])
    assert later.row(2).top(1, layer=1)[0].token == "b"
    with pytest.raises(InvalidInput, match="Layer 0 is not in these maps"):
        later.row(2).top(1, layer=0)
    with pytest.raises(InvalidInput, match="at least 1"):
        maps.row(0).top(0)


def test_a_label_must_name_one_target() -> None:
    maps = MixingMaps.of(np.ones((1, 4, 4)), tokens=["Ġthe", "Ġhat", "the", "Ġhat"])
    assert maps.row("the").target == 2  # the label itself comes before the label without its mark
    with pytest.raises(InvalidInput, match="positions 1, 3"):
        maps.row("hat")
    assert maps.at(targets=[3]).row("hat").target == 3  # only one of them is there
    with pytest.raises(InvalidInput, match="Unknown token 'cat'"):
        maps.row("cat")
    with pytest.raises(InvalidInput, match="was not measured"):
        maps.at(targets=[3]).row(0)
    with pytest.raises(InvalidInput, match="4 tokens"):
        maps.row(4)


def test_heads() -> None:
    raw = np.random.default_rng(0).random((2, 3, 4, 4))
    maps = MixingMaps.of(raw, facts=Facts(rows_sum_to_one=True))
    np.testing.assert_array_equal(maps.head(-1).scores, raw[:, 2])
    np.testing.assert_allclose(maps.heads().scores, raw.mean(1))
    assert maps.heads().facts.rows_sum_to_one
    assert not maps.heads("sum").facts.rows_sum_to_one
    assert maps.row(0).top(1, head=1)[0].position == int(raw[1, 1, 0].argmax())
    with pytest.raises(InvalidInput, match="Select one with head="):
        maps.row(0).top(1)
    with pytest.raises(InvalidInput, match="0–2"):
        maps.head(3)
    with pytest.raises(InvalidInput, match="per_head=True"):
        maps.heads().head(0)
    with pytest.raises(InvalidInput, match="per_head=True"):
        maps.heads().row(0).top(1, head=0)


def test_mean_and_last_layer() -> None:
    raw = np.random.default_rng(0).random((3, 2, 2))
    maps = MixingMaps.of(raw)
    np.testing.assert_allclose(maps.mean().scores, raw.mean(0, keepdims=True))
    np.testing.assert_array_equal(maps.last().scores, raw[2:])
    assert maps.last().layers == maps.mean().layers == (2,)


# ------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize("heads", [None, 2])
def test_every_score_is_in_the_table_under_its_labels(heads: int | None) -> None:
    shape = (2, 3, 4) if heads is None else (2, heads, 3, 4)
    maps = MixingMaps.of(
        np.random.default_rng(0).random(shape), tokens=list("abc"), source_tokens=list("wxyz")
    ).at(layers=[1, 0], targets=[2, 0])
    table = maps.to_dataframe()
    head = [] if heads is None else ["head"]
    assert list(table.columns) == [
        "layer",
        *head,
        "target",
        "target_token",
        "source",
        "source_token",
        "score",
    ]
    assert len(table) == maps.scores.size
    for line in table.sample(8, random_state=0).to_dict("records"):
        where = {name: line[name] for name in ("layer", *head, "target", "source")}
        assert float(maps.data.sel(where)) == line["score"]
        assert ("abc"[line["target"]], "wxyz"[line["source"]]) == (
            line["target_token"],
            line["source_token"],
        )
