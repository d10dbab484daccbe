"""Wrong arguments in Python, with the error messages, and unusual arguments that are valid.

`test_wrong_usage` lists the tests of files, folders and wrapped models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas
import pytest
import torch
import transformers as hf

import mixlens
from mixlens import EmptyInput, InvalidInput, Lens, MixingMaps, MixlensError, UnsupportedModel
from mixlens.benchmark import benchmark
from mixlens.errors import InputTooLong, MissingTokenizer, WrongKeys
from mixlens.maps.routes import routes
from mixlens.runs.batch import token_tags
from mixlens.runs.job import Job
from mixlens.text.tokens import TokenRow

TEXT = "The dogs near the river [MASK] old."
TWO_MASKS = "The dogs [MASK] [MASK]."
IDS = torch.arange(5, 15)[None]
JOB: dict[str, Any] = {"corpus": "a.txt", "out": "results", "measures": ("attention",)}


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def maps(lens: Lens) -> MixingMaps:
    return lens.measure("attention", TEXT)


TEXTS: list[tuple[Any, type[MixlensError], str]] = [
    ("", EmptyInput, "The text is empty"),
    ("   ", EmptyInput, "The text is empty"),
    ("\n\n", EmptyInput, "The text is empty"),
    ("dog " * 1000, InputTooLong, "input has 1002 tokens, but the model has 256 positions"),
    (3, InvalidInput, "int is not a text"),
    (2.5, InvalidInput, "float is not a text"),
    ([], EmptyInput, "No text was passed"),
    (["fine", ""], EmptyInput, "text 1: The text is empty"),
    ([None], InvalidInput, "NoneType"),
    ([["a"]], InvalidInput, "list is not a text"),
    ([1, 2, 3], InvalidInput, r"^every text: int is not a text.* Pass token ids as"),
    ({"text": "a dog"}, MissingTokenizer, "A dict with text needs the model's processor.*text"),
    ({"input_ids": IDS, "output_attentions": True}, WrongKeys, "Unknown input 'output_attentions'"),
    ({"input_ids": torch.zeros(0, 5).long()}, EmptyInput, r"empty \(shape \(0, 5\)\)"),
    ({"input_ids": torch.zeros(1, 0).long()}, EmptyInput, r"empty \(shape \(1, 0\)\)"),
    ({"input_ids": IDS, "attention_mask": 0 * IDS}, EmptyInput, "no real token"),
    ({"input_ids": "a dog"}, InvalidInput, "input_ids is str. Pass a tensor of numbers"),
    (
        pandas.DataFrame({"text": ["a dog"]}),
        InvalidInput,
        "Pass the column that contains the texts",
    ),
    (Path("words.txt"), InvalidInput, "PosixPath is not a text"),
    (
        {"input_ids": IDS, "attention_mask": torch.ones(1, 10, 10).tril().long()},
        InvalidInput,
        "BertForMaskedLM rejects this input",
    ),
]


@pytest.mark.parametrize(("given", "error", "words"), TEXTS)
def test_texts(lens: Lens, given: Any, error: type[MixlensError], words: str) -> None:
    with pytest.raises(error, match=words):
        lens.measure("attention", given)


ASKED: list[tuple[str, dict[str, Any], str]] = [
    ("foo", {}, "Unknown measure 'foo'. Run `mixlens measures`"),
    ("value_zeroin", {}, r"Did you mean value_zeroing\?"),
    ("ValueZeroing", {}, r"Did you mean value_zeroing\?"),
    (None, {}, "Unknown measure None"),  # type: ignore[list-item]
    ("attention", {"probes": 3}, "Unknown option 'probes'. attention has no options."),
    ("attention", {"text_target": "x"}, "Unknown option 'text_target'"),
    ("attention", {"precision": "fp8"}, "float32, tf32, bf16"),
    ("alti", {"per_head": True}, "only for whole layers"),
    ("integrated_gradients", {"steps": 0}, "is out of range"),
    ("integrated_gradients", {"steps": -5}, "is out of range"),
    ("hidden_token_attribution", {"probes": 0}, "Pass at least 2"),
    ("blank_out", {"word": "antidisestablishmentarianism"}, "split into: anti ##d"),
    ("blank_out", {"word": ""}, "'' is not one token .*no tokens at all"),
    ("blank_out", {"word": "are", "foil": "🤷"}, r"split into: \[UNK\]"),
    ("blank_out", {"word": "are", "position": 99}, "Token 99 is out of range .0–9"),
    ("blank_out", {"label": "x"}, "predicts words, not classes"),
    ("blank_out", {"of": "chance"}, "Choose probability, logit, similarity or embedding"),
    ("blank_out", {"position": [1, 2]}, "2 values do not match 1 texts"),
    ("blank_out", {"layers": [2]}, "no layers to choose from"),
    ("blank_out", {"word": False}, "False is not a word or a class"),
    ("blank_out", {"word": 1.5}, "1.5 is not a word or a class"),
    ("blank_out", {"position": 2.5}, "2.5 is not an integer"),
    ("blank_out", {"position": ""}, "'' is not an integer"),
    ("integrated_gradients", {"steps": True}, "steps=True is not a whole number"),
    ("integrated_gradients", {"steps": 10**20}, "Pass 1 to 1,000,000"),
]


@pytest.mark.parametrize(("measure", "options", "words"), ASKED)
def test_measures_and_options(
    lens: Lens, measure: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        lens.measure(measure, TEXT, **options)


USED: list[tuple[Callable[[Lens, MixingMaps], Any], str]] = [
    (lambda lens, maps: lens.measure("blank_out", TWO_MASKS), "2 mask tokens, not one"),
    (lambda lens, maps: lens.predictions("No mask."), "0 mask tokens, not one"),
    (lambda lens, maps: lens.compare([TEXT, TEXT]), "compare takes one text"),  # type: ignore[arg-type]
    (lambda lens, maps: Lens.bundled("bert"), "Unknown bundled model 'bert'. .*masked, causal"),
    (lambda lens, maps: Lens.bundled(dtype="float13"), "valid `torch.dtype`"),
    (lambda lens, maps: Job(corpus="a", out="b", measures=()), "No measure was passed"),
    (lambda lens, maps: Job(**JOB, keep="all of it"), "keep='all of it' is unknown"),
    (lambda lens, maps: Job(**JOB, targets="some"), "Unknown targets 'some'"),
    (lambda lens, maps: Job(**JOB, targets="column"), "belong together"),
    (lambda lens, maps: maps.row(99), "has 10 tokens"),
    (lambda lens, maps: maps.row(3).top(-3), "at least 1"),
    (lambda lens, maps: maps.row(3).top(3, layer=44), "Layer 44 is not in these maps"),
    (lambda lens, maps: maps.words(sources="median"), "Unknown reduction 'median'"),
    (lambda lens, maps: maps.rollout(residual=5.0), r"in \[0, 1\]"),
    (
        lambda lens, maps: lens.measure("attention", TEXT, per_head=True).heads("median"),
        "Heads cannot be merged by 'median'",
    ),
    (lambda lens, maps: token_tags(TokenRow(("a",)), ["NOUN"]), "Use a fast tokenizer"),
    (lambda lens, maps: maps.rollout(residual="half"), r"in \[0, 1\]"),  # type: ignore[arg-type]
    (lambda lens, maps: maps.row(3).top("3"), "at least 1"),  # type: ignore[arg-type]
    (lambda lens, maps: maps.to_html("/no/such/page.html"), "Folder /no/such of"),
    (lambda lens, maps: mixlens.load(None), "NoneType"),  # type: ignore[arg-type]
    (lambda lens, maps: mixlens.datasets.read(5), "int is not a"),  # type: ignore[arg-type]
    (
        lambda lens, maps: lens.compare(TEXT, only=["attention"], budget=-1),
        "budget=-1 is",
    ),
    (lambda lens, maps: lens.record(TEXT, memory_budget=-1), "memory_budget=-1 is not"),
    (lambda lens, maps: lens.record(TEXT, memory_budget="1GB"), "memory_budget='1GB'"),  # type: ignore[arg-type]
    (lambda lens, maps: Lens(lens.model, "bert"), "str is not a tokenizer"),
    (lambda lens, maps: mixlens.measure("attention", TEXT), "is not a recording"),  # type: ignore[arg-type]
    (lambda lens, maps: mixlens.measure(lens.record(TEXT), "alti"), "Pass the name of a measure"),  # type: ignore[arg-type]
    (
        lambda lens, maps: mixlens.alternative_attention(lens.record(TEXT), 0, 0, "dogs"),  # type: ignore[arg-type]
        "target 'dogs' is out of range",
    ),
    (
        lambda lens, maps: mixlens.alternative_attention(lens.record(TEXT), 0, 0, 1, starts=0),
        "starts=0",
    ),
    (lambda lens, maps: benchmark(lens, "agreement"), "with mixlens.datasets.read"),  # type: ignore[arg-type]
    (lambda lens, maps: MixingMaps.of([[["a"]]]), "dtype <U1. Pass real numbers"),
    (lambda lens, maps: MixingMaps.of(np.ones((1, 1, 1)), tokens=[5]), "Tokens are not strings"),  # type: ignore[list-item]
    (lambda lens, maps: maps.rollout().rollout(), "already aggregated"),
    (lambda lens, maps: maps.at(layers=[1, 1]).rollout(), "needs every layer from 0 on"),
    (lambda lens, maps: MixingMaps.of(np.ones((2, 3))), r"shape \(2, 3\)"),
    (lambda lens, maps: MixingMaps.of(np.ones((1, 2, 2)), tokens=["a"]), "do not fit"),
    (lambda lens, maps: MixingMaps.of(np.full((1, 2, 2), np.nan)), "NaN or infinity"),
    (lambda lens, maps: MixingMaps.of(np.ones((1, 2, 2))).segments("words"), "one of: sentences"),
    (lambda lens, maps: maps.segments("sentences").segments(), "already summed by segment"),
    (lambda lens, maps: lens.rollout("attention", lens.record(TEXT)), "No targets were passed"),
    (
        lambda lens, maps: lens.rollout("attention", lens.record([TEXT, TEXT]), [1]),
        "one text at a time",
    ),
    (lambda lens, maps: lens.record([TEXT, (TEXT, TEXT)]), "Pass only pairs or only single texts"),
    (
        lambda lens, maps: Lens(lens.model.get_submodule("bert"), lens.tokenizer).measure(
            "gradient_norm", TEXT, of="similarity", to=["a", "b"], pooling="mean"
        ),
        "has 2 texts, but the batch has 1",
    ),
    (
        lambda lens, maps: Lens(lens.model.get_submodule("bert"), lens.tokenizer).compare(
            TEXT, 3, only=["gradient_norm"]
        ),
        "No measure applies: gradient_norm: .*a checkpoint with a head",
    ),
]


@pytest.mark.parametrize(("use", "words"), USED)
def test_uses(
    lens: Lens, maps: MixingMaps, use: Callable[[Lens, MixingMaps], Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        use(lens, maps)


def _train(model: Any) -> None:
    model.train()


def _train_one_layer(model: Any) -> None:
    model.bert.encoder.layer[2].train()


@pytest.mark.parametrize("change", [_train, _train_one_layer])
def test_models_in_training(change: Callable[[Any], None]) -> None:
    lens = Lens.bundled()
    change(lens.model)
    with pytest.raises(UnsupportedModel, match=r"training mode.*model.eval\(\)"):
        lens.measure("attention", TEXT)


def test_a_model_without_numbers(lens: Lens) -> None:
    with torch.device("meta"):
        model = hf.BertForMaskedLM(lens.model.config).eval()
    with pytest.raises(UnsupportedModel, match=r"without numbers. Load them"):
        Lens(model, lens.tokenizer).measure("attention", TEXT)


def test_a_text_without_a_tokenizer(lens: Lens) -> None:
    with pytest.raises(MissingTokenizer, match="no tokenizer, so it cannot read a text"):
        Lens(lens.model).measure("attention", TEXT)
    words = lens.predictions(TEXT, position=6)
    ids = {"input_ids": lens.tokenizer(TEXT, return_tensors="pt")["input_ids"]}
    numbers: Any = Lens(lens.model).predictions(ids, position=6)  # type: ignore[arg-type]
    assert lens.tokenizer.convert_ids_to_tokens([int(n) for n, _ in numbers]) == [
        word for word, _ in words
    ]


def _double(module: Any, given: Any, output: Any) -> Any:
    return 2 * output if torch.is_tensor(output) else (2 * output[0], *output[1:])


def test_a_layer_that_a_hook_changes_is_left_out(lens: Lens) -> None:
    """What it does cannot be taken apart. The other layers are as they are."""
    changed = Lens.bundled()
    model: Any = changed.model
    model.bert.encoder.layer[1].register_forward_hook(_double)
    measured = changed.measure("value_zeroing", TEXT)
    assert measured.layers == (0, 2, 3, 4, 5)
    with pytest.raises(InvalidInput, match="aggregation needs every layer"):
        measured.rollout()


def test_layers_are_not_joined_without_the_last_one() -> None:
    lens = Lens.bundled()
    model: Any = lens.model
    model.bert.encoder.layer[-1].register_forward_hook(_double)
    with pytest.warns(UserWarning, match="not measured"):
        recording = lens.record(TEXT)
    for join in (lambda: lens.rollout("alti", recording, [1]), lambda: routes(recording)):
        with pytest.raises(UnsupportedModel, match="needs all layers"):
            join()


@pytest.mark.parametrize("number", [0, 3, -1])
def test_hops_need_every_layer(number: int) -> None:
    lens = Lens.bundled("causal")
    model: Any = lens.model
    model.model.layers[number].register_forward_hook(_double)
    with (
        pytest.warns(UserWarning, match="not measured"),
        pytest.raises(UnsupportedModel, match="needs all layers"),
    ):
        lens.hops("The dogs are old. So they", answer=[5, 6], reasoning=[3, 4])


_WEIGHED: dict[str, Any] = {"targets": [2, 3], "span": "mean"}


@pytest.mark.parametrize(
    "ask",
    [
        lambda lens: lens.measure("alti", TEXT, targets={3, 2}, span="mean", weights=[1, 2]),
        lambda lens: lens.measure("alti", TEXT, **_WEIGHED, weights={1.0, 2.0}),
        lambda lens: lens.rollout("alti", TEXT, {3, 2}, span="mean", weights=[1, 2]),
        lambda lens: lens.measure("attention", TEXT, layers={1, 0}),
        lambda lens: lens.record(TEXT, targets=frozenset({1, 2})),
        lambda lens: lens.measure("attention", TEXT).at(targets={1, 2}),
        lambda lens: Lens.bundled("causal").generate(TEXT, answer=cast(Any, {45, 9})),
        lambda lens: Lens.bundled("causal").measure(
            "gradient_x_input", TEXT, answer=(2, 4), weights={1.0, 2.0}
        ),
        lambda lens: Lens.bundled("causal").measure("gradient_x_input", TEXT, answer={2, 4}),
    ],
)
def test_sets_are_refused_where_the_order_matters(lens: Lens, ask: Callable[[Lens], Any]) -> None:
    with pytest.raises(InvalidInput, match=r"is a set|is not a list of numbers|is not an answer"):
        ask(lens)


_WRONG_TYPES: list[tuple[Callable[[Any, Any], Any], str]] = [
    (lambda lens, maps: lens.measure(["alti"], TEXT), "Unknown measure"),
    (lambda lens, maps: lens.measure("alti", TEXT, precision=["tf32"]), "Unknown precision"),
    (lambda lens, maps: lens.measure("attention", TEXT, per_head=[0]), "Pass True or False"),
    (lambda lens, maps: lens.predictions(TEXT, top="3"), "'3' is not an integer"),
    (lambda lens, maps: lens.routes(TEXT, threshold={}), "out of range"),
    (lambda lens, maps: lens.routes(TEXT).save([1.5]), "is not a path"),
    (lambda lens, maps: lens.answer(torch.tensor(1)), "is not a prompt"),
    (lambda lens, maps: lens.compare(TEXT, only=["alti"]).plot(most=(1, 2)), "not an integer"),
    (lambda lens, maps: lens.compare(TEXT, only=["alti"]).plot(["x"]), "Unknown kind of figure"),
    (lambda lens, maps: maps.plot(["x"]), "Unknown kind of figure"),
    (lambda lens, maps: maps.plot(layer=(1, 1)), "not an integer"),
    (lambda lens, maps: maps.flow(layers=0.5), "not an integer"),
    (lambda lens, maps: maps.flow(layers=np.array([])), "is empty"),
    (lambda lens, maps: maps.flow(targets=[[1]]), "is not a token"),
    (lambda lens, maps: maps.spans(targets=[1, 2]), "is not a span"),
    (lambda lens, maps: maps.spans(sources=torch.tensor([1, 2])), "is not a span"),
    (lambda lens, maps: maps.spans(sources=[(0, 1, 2)]), "is not a span"),
    (lambda lens, maps: maps.segments(np.array([1, 2])), "no named segments|segments|names"),
    (lambda lens, maps: mixlens.attention_bounds(maps, 0, 0, 1), "is not a recording"),
    (
        lambda lens, maps: mixlens.alternative_attention(
            lens.record(TEXT), 0, 0, 1, starts=cast(Any, [1])
        ),
        "not an integer",
    ),
]


@pytest.mark.parametrize(("ask", "message"), _WRONG_TYPES)
def test_values_of_other_types(
    lens: Lens, maps: MixingMaps, ask: Callable[[Lens, Any], Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        ask(lens, maps)


def test_heads_are_whole_numbers(lens: Lens) -> None:
    maps: Any = lens.measure("attention", TEXT, per_head=True)
    for head in ([1], "1", 0.5, True, torch.tensor([True, False])):
        with pytest.raises(InvalidInput, match="not an integer"):
            maps.head(head)


def test_tables_of_labels_with_lone_surrogates() -> None:
    """Files and hand-made labels may have them; pandas stores text as UTF-8."""
    maps = MixingMaps.of(np.eye(2)[None], ["a", "b\ud83d"])
    table = maps.to_dataframe()
    assert list(table["source_token"]) == ["a", "b?", "a", "b?"]
    assert list(table["score"]) == [1, 0, 0, 1]
    assert table["score"].dtype == float
    assert table["layer"].dtype == int


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("שלום عالم", ("[CLS]", "[UNK]", "[UNK]", "[SEP]")),
        ("😀 is here", ("[CLS]", "[UNK]", "is", "here", "[SEP]")),
        ("a\0b", ("[CLS]", "ab", "[SEP]")),
        ("a\u200bb", ("[CLS]", "ab", "[SEP]")),
        ("e\u0301 dog", ("[CLS]", "e", "dog", "[SEP]")),
        ("\x1b[31mred", ("[CLS]", "[", "31", "##m", "##red", "[SEP]")),
    ],
)
def test_odd_characters_are_what_the_tokenizer_makes_of_them(
    lens: Lens, text: str, tokens: tuple[str, ...]
) -> None:
    assert lens.measure("attention", text).tokens == tokens


def test_the_same_input_in_every_form(lens: Lens, maps: MixingMaps) -> None:
    encoded: Any = lens.tokenizer(TEXT, return_tensors="pt")
    ids = encoded["input_ids"]
    for given in (
        encoded,
        lens.tokenizer(TEXT),
        {"input_ids": ids.numpy()},
        {"input_ids": ids.tolist()},
        {"input_ids": ids[0]},
        {"input_ids": ids, "labels": ids},
        {"input_ids": ids, "attention_mask": torch.ones_like(ids).half()},
        {"inputs_embeds": lens.model.get_input_embeddings()(ids)},  # type: ignore[operator]
    ):
        assert np.allclose(lens.measure("attention", given).scores, maps.scores, atol=1e-6)


def test_settings_of_the_process_change_nothing(lens: Lens, maps: MixingMaps) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert np.allclose(lens.measure("attention", TEXT).scores, maps.scores, atol=1e-6)
    finally:
        torch.set_default_dtype(torch.float32)
    expected = lens.measure("gradient_norm", TEXT).scores
    frozen = Lens.bundled()
    frozen.model.requires_grad_(False)
    saving = Lens.bundled()
    model: Any = saving.model
    model.gradient_checkpointing_enable()
    with torch.no_grad():
        for each in (lens, frozen, saving):
            assert np.allclose(each.measure("gradient_norm", TEXT).scores, expected, atol=1e-6)


def test_a_recording_made_in_inference_mode_is_used_outside(lens: Lens) -> None:
    with torch.inference_mode():
        recording = lens.record(TEXT)
    made = mixlens.measure("hidden_token_attribution", recording, probes=2, layers=[0])
    assert np.isfinite(made.scores).all()


@pytest.mark.parametrize(
    ("scores", "tokens", "words"),
    [
        (np.ma.masked_array(np.ones((1, 2, 2)), mask=np.eye(2) > 0), None, "scores are masked"),
        (np.ones((0, 2, 2)), None, "Scores are empty"),
        (np.ones((1, 2, 2)), {"a", "b"}, "a set, which has no order"),
    ],
)
def test_scores_and_tokens_that_are_ambiguous(scores: Any, tokens: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        MixingMaps.of(scores, tokens)


def test_pages_with_numbers_and_names_that_json_does_not_have(tmp_path: Path) -> None:
    origin = {"options": {"bar": float("inf"), "name": "\ud800"}}
    made = MixingMaps.of(np.ones((1, 2, 2)), ["a", "b"], provenance=origin)
    made.to_html(tmp_path / "page.html")
    assert (
        "Infinity" not in (tmp_path / "page.html").read_text(encoding="utf-8").split("</script>")[0]
    )


def test_a_path_that_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        mixlens.load(str(tmp_path / "\ud800"))
