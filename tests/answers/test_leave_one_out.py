"""Leave-one-out and ARC-JSD against stored numbers, and against loops over the native model."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

from mixlens import CannotWrite, EmptyInput, InputTooLong, InvalidInput, Lens, UnsupportedModel
from mixlens.answers.leave_one_out import divergence
from mixlens.answers.passage_scores import PassageScores
from mixlens.answers.prefix_reuse import KeysAndValues
from tests import reference
from tests.answers import models
from tests.measures import models as random_models

PROMPT = "The keys are on the table. The dogs sleep.\n\nA man near the doors sings! It rains."
ANSWER = " The keys are on the table."


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal", dtype=torch.float64)


def _native(model: Any, ids: list[int], answer: list[int]) -> torch.Tensor:
    """Log-probability of every token of the answer, each by its own forward pass."""
    logs = []
    for token in answer:
        with torch.no_grad():
            words = model(input_ids=torch.tensor([ids])).logits[0, -1]
        logs.append(torch.log_softmax(words.double(), -1)[token])
        ids = [*ids, token]
    return torch.stack(logs)


@pytest.mark.smoke
@pytest.mark.parametrize("reuse", [True, False])
def test_stored_numbers(reuse: bool) -> None:
    """Of the authors' function in float64, and by formula."""
    numbers = reference.arrays("arc_jsd/llama_n12.npz")
    count, ids = int(numbers["prompt_length"]), numbers["input_ids"].tolist()
    named = {f"source {i}": tuple(span) for i, span in enumerate(numbers["sources"].tolist())}
    lens = Lens(models.arc_jsd())
    given: Any = ({"input_ids": [ids[:count]]}, named)
    how: Any = {"answer": ids[count:], "reuse": reuse}
    dropped = lens.leave_one_out(*given, **how)
    assert dropped.notes["reused_prefix"] == reuse
    expected = numbers["leave_one_out/log_probability_drop_ours"]
    assert dropped.scores == pytest.approx(expected, abs=1e-10)
    released = lens.leave_one_out(*given, **how, score="arc_jsd", variant="released")
    assert released.scores == pytest.approx(numbers["arc_jsd/released"], abs=1e-10)
    true = lens.leave_one_out(*given, **how, score="arc_jsd")
    assert true.scores == pytest.approx(numbers["arc_jsd/jensen_shannon_ours"], abs=1e-10)


def test_divergence_of_sharp_distributions() -> None:
    numbers = reference.arrays("arc_jsd/llama_n12.npz")
    full, without = (
        torch.from_numpy(numbers[name]) * float(numbers["sharp/factor"])
        for name in ("logits_full", "logits_without")
    )
    true = [float(divergence(full, other).sum()) for other in without]
    assert true == pytest.approx(numbers["sharp/jensen_shannon_ours"], abs=1e-10)
    released = [float(divergence(full, other, "released").sum()) for other in without]
    assert released == pytest.approx(numbers["sharp/released"], abs=1e-9)
    apart = torch.tensor([[0.0, -800.0]])
    assert float(divergence(apart, apart.flip(1))) == pytest.approx(np.log(2))


def test_scores_are_those_of_the_definition(lens: Lens) -> None:
    """Prompts cut by hand, every token of the answer by its own pass."""
    scores = lens.leave_one_out(PROMPT, answer=ANSWER)
    parts = ["The keys are on the table.", "The dogs sleep.", "A man near the doors sings!"]
    assert list(scores.texts) == [*parts, "It rains."]
    ids = lens.tokenizer(PROMPT)["input_ids"]
    answer = lens.tokenizer(PROMPT + ANSWER)["input_ids"][len(ids) :]
    offsets = lens.tokenizer(PROMPT, return_offsets_mapping=True)["offset_mapping"]
    full = _native(lens.model, ids, answer)
    for number, text in enumerate(scores.texts):
        start = PROMPT.index(text)
        inside = range(start, start + len(text))
        rest = [
            token
            for token, (first, stop) in zip(ids, offsets, strict=True)
            if first == stop or stop - 1 not in inside
        ]
        expected = (full - _native(lens.model, rest, answer)).numpy()
        assert scores.token_scores[number] == pytest.approx(expected, abs=1e-10)
    assert scores.log_probability == pytest.approx(float(full.sum()), abs=1e-10)
    assert scores.passes == 5


def _causal(kind: str) -> Any:
    sizes = random_models._CAUSAL | {"num_hidden_layers": 3}
    made = {
        "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**sizes, sliding_window=4)),
        "gemma3": lambda: hf.Gemma3ForCausalLM(
            hf.Gemma3TextConfig(
                **sizes,
                head_dim=4,
                sliding_window=4,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            )
        ),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, n_positions=40)
        ),
        "bloom": lambda: hf.BloomForCausalLM(
            hf.BloomConfig(vocab_size=50, hidden_size=16, n_layer=2, n_head=4)
        ),
        "opt": lambda: hf.OPTForCausalLM(
            hf.OPTConfig(
                vocab_size=50,
                hidden_size=16,
                word_embed_proj_dim=16,
                num_hidden_layers=2,
                num_attention_heads=4,
                ffn_dim=24,
                max_position_embeddings=40,
            )
        ),
        "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**sizes, num_local_experts=3)),
        "mamba": lambda: hf.MambaForCausalLM(
            hf.MambaConfig(vocab_size=50, hidden_size=16, state_size=4, num_hidden_layers=2)
        ),
        "dynamic": lambda: hf.LlamaForCausalLM(
            hf.LlamaConfig(
                **sizes | {"max_position_embeddings": 8},
                rope_parameters={"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0},
            )
        ),
    }
    return random_models.randomised(made[kind]())


@pytest.mark.parametrize(
    ("kind", "reused"),
    [
        ("mistral", True),
        ("gemma3", True),
        ("gpt2", True),
        ("bloom", True),
        ("opt", True),
        ("mixtral", True),
        ("mamba", False),
        ("dynamic", False),
    ],
)
def test_reuse_changes_nothing(kind: str, reused: bool) -> None:
    """Windows, position tables, ALiBi and experts; without keys and values of every token, prompts
    run as a whole.
    """
    model = _causal(kind)
    ids = random_models.inputs(kind, 12)["input_ids"].tolist()
    named: Any = {"a": (0, 2), "b": (4, 7), "c": (10, 12)}
    answer = [7] if kind == "dynamic" else [7, 30, 9]
    how: Any = {"answer": answer, "batch_size": 2}
    fast = Lens(model).leave_one_out({"input_ids": ids}, named, **how)
    assert fast.notes["reused_prefix"] is reused
    plain = Lens(model).leave_one_out({"input_ids": ids}, named, **how, reuse=False)
    assert fast.token_scores == pytest.approx(plain.token_scores, abs=1e-7)  # norms are in float32
    if kind == "mixtral":
        return  # its grouped products do not run in float64
    full = _native(model, ids[0], answer)
    for number, (first, stop) in enumerate(named.values()):
        rest = [token for place, token in enumerate(ids[0]) if not first <= place < stop]
        expected = (full - _native(_causal(kind), rest, answer)).numpy()
        assert plain.token_scores[number] == pytest.approx(expected, abs=1e-6)


def test_only_tokens_behind_the_passage_run_again(lens: Lens) -> None:
    model, seen = lens.model, list[int]()
    embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
    ids = list(range(20, 40))
    known = KeysAndValues(model, ids, 2)
    handle = embedding.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[1]))
    try:
        known.read([*ids[:10], *ids[15:]], 2)
        known.read(ids[:10], 2)
    finally:
        handle.remove()
    assert seen == [5, 2]


def test_encoder_and_decoder() -> None:
    """Tokens leave the encoder's input; unequal prompts of one batch change nothing."""
    torch.manual_seed(0)
    base: Any = random_models.build("bart")
    model: Any = hf.BartForConditionalGeneration(base.config).eval().double()
    ids, answer, named = [5, 6, 7, 8, 9, 2], [4, 9, 2], {"a": (0, 1), "b": (2, 5)}
    made = Lens(model).leave_one_out({"input_ids": [ids]}, named, answer=answer)

    def run(given: list[int]) -> torch.Tensor:
        begun = torch.tensor([[2, *answer[:-1]]])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([given]), decoder_input_ids=begun).logits[0]
        return torch.log_softmax(logits, -1)[[0, 1, 2], answer]

    expected = torch.stack([run(ids) - run([6, 7, 8, 9, 2]), run(ids) - run([5, 6, 2])])
    assert made.token_scores == pytest.approx(expected.numpy(), abs=1e-10)
    assert not made.notes["reused_prefix"]


def test_recordings_and_chats(lens: Lens) -> None:
    recording = lens.generate(PROMPT, answer=ANSWER)
    again = lens.leave_one_out(recording)
    direct = lens.leave_one_out(PROMPT, answer=ANSWER)
    assert again.segments == direct.segments
    assert again.answer == direct.answer == ANSWER
    assert again.token_scores == pytest.approx(direct.token_scores, abs=1e-12)
    with pytest.raises(InvalidInput, match="has no answer"):
        lens.leave_one_out(lens.record(PROMPT))
    with pytest.raises(InvalidInput, match="has an answer"):
        lens.leave_one_out(recording, answer=" No.")


def test_template_text_of_a_chat_stays(lens: Lens) -> None:
    chat = Lens.bundled("causal", dtype=torch.float64)
    chat.tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}"
        "[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}[answer]"
    )
    messages: Any = [
        {"role": "system", "content": "Be brief. Be kind."},
        {"role": "user", "content": "The dogs bark. Who barks?"},
    ]
    made = chat.leave_one_out(messages, answer=" The dogs")
    assert made.texts == ("Be brief.", "Be kind.", "The dogs bark.", "Who barks?")
    turns = chat.leave_one_out(messages, None, answer=" The dogs")
    assert turns.segments == ("system", "user")
    written = "[system] Be brief. Be kind.\n[user] The dogs bark. Who barks?\n[answer]"
    plain = lens.leave_one_out(written, {"one": "Be brief."}, answer=" The dogs")
    assert made.scores[0] == pytest.approx(plain.scores[0], abs=1e-10)


def test_hierarchical_search(lens: Lens) -> None:
    """Sentences of the best paragraph alone, with the scores that they have anyway."""
    every = lens.leave_one_out(PROMPT, answer=ANSWER)
    calls: list[tuple[int, int]] = []
    made = lens.leave_one_out(
        PROMPT,
        answer=ANSWER,
        within="paragraphs",
        best=1,
        progress=lambda done, total: calls.append((done, total)),
    )
    assert made.within is not None
    assert made.within.segments == ("paragraph 1", "paragraph 2")
    best = int(made.within.scores.argmax())
    assert made.segments == every.segments[2 * best : 2 * best + 2]
    assert made.scores == pytest.approx(every.scores[2 * best : 2 * best + 2], abs=1e-12)
    assert made.passes == 5
    assert calls[-1] == (5, 5)
    limited = lens.leave_one_out(PROMPT, answer=ANSWER, within="paragraphs", max_passes=6)
    assert limited.segments == made.segments  # the other paragraph does not fit
    with pytest.raises(InvalidInput, match="5 forward passes exceed max_passes=4"):
        lens.leave_one_out(PROMPT, answer=ANSWER, max_passes=4)
    with pytest.raises(InvalidInput, match="leaves no pass"):
        lens.leave_one_out(PROMPT, answer=ANSWER, within="paragraphs", max_passes=4)
    apart: dict[str, Any] = {"segments": {"a": "It rains."}, "within": {"b": "The dogs sleep."}}
    with pytest.raises(InvalidInput, match="No segment begins in 'b'"):
        lens.leave_one_out(PROMPT, answer=ANSWER, **apart)


def test_results_are_kept(lens: Lens, tmp_path: Path) -> None:
    made = lens.leave_one_out(PROMPT, answer=ANSWER, within="paragraphs")
    made.save(tmp_path / "scores.json")
    again = PassageScores.load(tmp_path / "scores.json")
    assert again == made
    assert again != replace(made, token_scores=-made.token_scores)
    assert again != replace(made, within=None)
    assert again != lens.knockout(PROMPT, answer=ANSWER, windows="all")
    assert again.within is not None
    assert (again.token_scores == made.token_scores).all()
    assert repr(again) == repr(made)
    assert "leave_one_out" in repr(made)
    for file in (tmp_path, tmp_path / "absent" / "scores.json"):
        with pytest.raises(CannotWrite):
            made.save(file)
    table = made.to_dataframe(by_token=True)
    assert len(table) == made.token_scores.size
    assert table["score"][1] == made.token_scores[0, 1]
    (tmp_path / "other.json").write_text('{"format": "other"}')
    for wrong in ("other.json", "absent.json"):
        with pytest.raises(InvalidInput, match="does not hold passage scores"):
            PassageScores.load(tmp_path / wrong)
    damages: tuple[Callable[[Any], Any], ...] = (
        lambda given: given["tokens"].pop(),
        lambda given: given["passages"].clear(),
        lambda given: given["passages"][0].update(tokens=1.0),
        lambda given: given["passages"][0]["tokens"].__setitem__(0, None),
        lambda given: given["passages"][0].update(segment=3),
    )
    for damage in damages:
        given = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
        damage(given)
        (tmp_path / "damaged.json").write_text(json.dumps(given))
        with pytest.raises(InvalidInput, match="does not hold passage scores"):
            PassageScores.load(tmp_path / "damaged.json")


def test_wrong_input_is_refused(lens: Lens) -> None:
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (PROMPT, {"segments": {"a": "keys", "b": "The keys"}}, "overlap"),
        (PROMPT + PROMPT, {"segments": {"a": "The dogs sleep."}}, "2 times in"),
        (PROMPT, {"segments": {"a": (70, 900)}}, "out of range"),
        (PROMPT, {"segments": {}}, "no named segments"),
        (PROMPT, {"score": "entropy"}, "score"),
        (PROMPT, {"variant": "released"}, "arc_jsd"),
        (PROMPT, {"score": "arc_jsd", "variant": "other"}, "variant"),
        (PROMPT, {"best": 2}, "within"),
        (PROMPT, {"within": "paragraphs", "best": 0}, "at least 1"),
        (PROMPT, {"max_passes": 1.5}, "whole number"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": {"a": (1, 4)}}, "outside the prompt"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": [(0, 2)]}, "Segments need names"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": 5}, "Segments need names"),
        (PROMPT, {"segments": 5}, "Segments need names"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": {"a": "x"}}, "range of tokens"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": {"a": (0, 2), "b": (1, 3)}}, "overlap"),
        ({"input_ids": [[5, 6, 7]]}, {"segments": {"a": (0, 3)}}, "whole prompt"),
    ]
    for prompt, wrong, match in cases:
        with pytest.raises(InvalidInput, match=match):
            lens.leave_one_out(prompt, **{"answer": [9], **wrong})
    with pytest.raises(EmptyInput, match="answer is empty"):
        lens.leave_one_out(PROMPT, answer="")
    with pytest.raises(InvalidInput, match="Begin the answer with a space"):
        lens.leave_one_out("The keys to the cab", answer="inet")
    with pytest.raises(InputTooLong):
        lens.leave_one_out(PROMPT * 200, answer=ANSWER)
    with pytest.raises(UnsupportedModel, match="is bidirectional"):
        Lens.bundled().leave_one_out(PROMPT, answer=ANSWER)


@pytest.mark.parametrize("call", ["leave_one_out", "knockout"])
def test_positions_of_token_ids_count_padding(call: str) -> None:
    lens = Lens.bundled("causal")
    ids = lens.tokenizer("The dogs bark. The cat sleeps.", return_tensors="pt")["input_ids"]
    pad, seen = torch.zeros(1, 3, dtype=torch.long), torch.ones_like(ids)
    plain: Any = getattr(lens, call)({"input_ids": ids}, {"x": (1, 4), "y": (5, 7)}, answer=[5, 6])
    for left, right in ((pad, pad[:, :0]), (pad[:, :0], pad), (pad, pad)):
        padded = {
            "input_ids": torch.cat([left, ids, right], 1),
            "attention_mask": torch.cat([left, seen, right], 1),
        }
        shift = left.shape[1]
        moved = {"x": (1 + shift, 4 + shift), "y": (5 + shift, 7 + shift)}
        made: Any = getattr(lens, call)(padded, moved, answer=[5, 6])
        np.testing.assert_array_equal(made.scores, plain.scores)
    with pytest.raises(InvalidInput, match="has only tokens that attention_mask hides"):
        getattr(lens, call)(padded, {"x": (0, 3)}, answer=[5, 6])
    with pytest.raises(InvalidInput, match="outside the prompt of 18 tokens"):
        getattr(lens, call)(padded, {"x": (0, 40)}, answer=[5, 6])
    holed = {"input_ids": ids, "attention_mask": seen.clone()}
    holed["attention_mask"][0, 2] = 0
    without = {"input_ids": torch.cat([ids[:, :2], ids[:, 3:]], 1)}
    one: Any = getattr(lens, call)(holed, {"x": (1, 4)}, answer=[5, 6])
    two: Any = getattr(lens, call)(without, {"x": (1, 3)}, answer=[5, 6])
    np.testing.assert_array_equal(one.scores, two.scores)
