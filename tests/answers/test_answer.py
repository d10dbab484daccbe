"""`lens.answer`: scores against loops over the native model, the parts of prompts, and errors."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import mixlens
from mixlens import Answer, EmptyInput, InputTooLong, InvalidInput, Lens
from mixlens.answers.answer_of_maps import answer_of_maps
from mixlens.answers.method_scores import scores_of_maps
from mixlens.answers.prompt_parts import read_prompt
from mixlens.maps import storage

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
DOCUMENTS = {
    "Tom": "Tom likes to play with his red ball. He is big.",
    "Lily": "Lily likes to play with her blue car.",
    "Ben": "Ben likes to play with his small dog.",
}
PROMPT = "\n".join([*DOCUMENTS.values(), "Lily likes to play with her"])
ANSWER = " blue car. She is happy."


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled("causal")


@pytest.fixture(scope="module")
def chat_lens() -> Lens:
    lens = Lens.bundled("causal")
    lens.tokenizer.chat_template = TEMPLATE
    return lens


@pytest.fixture(scope="module")
def answer(lens: Lens) -> Answer:
    methods = ["flow_routes", "attention", "leave_one_out", "context_cite"]
    return lens.answer(PROMPT, documents=DOCUMENTS, answer=ANSWER, methods=methods)


def _tokens_in(tokenizer: Any, text: str, start: int, stop: int) -> list[int]:
    """Tokens whose first visible character is in a range, without the first token of the text."""
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    places = []
    for token, (a, b) in enumerate(offsets):
        visible = [at for at in range(a, b) if not text[at].isspace()]
        if token and b > a and start <= (visible or [a])[0] < stop:
            places.append(token)
    return places


def test_attention_of_words_and_documents_is_that_of_the_native_model(
    lens: Lens, answer: Answer
) -> None:
    model: Any = hf.AutoModelForCausalLM.from_pretrained(
        "src/mixlens/bundled/causal", attn_implementation="eager", dtype=torch.float32
    )
    ids = lens.tokenizer(PROMPT + ANSWER, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        layers = model(ids, output_attentions=True).attentions
    weights = torch.stack(layers).mean((0, 2))[0].double().numpy()  # [target, source]
    first = len(lens.tokenizer(PROMPT)["input_ids"])
    for number, word in enumerate(answer.words):
        inside = _tokens_in(
            lens.tokenizer, PROMPT + ANSWER, len(PROMPT) + word.start, len(PROMPT) + word.end
        )
        rows = weights[[place - 1 for place in inside]]  # the positions that produce them
        assert inside == list(range(first + word.first, first + word.stop))
        for each in answer.top(word=number, method="attention"):
            start = PROMPT.index(DOCUMENTS[each.document])
            held = _tokens_in(lens.tokenizer, PROMPT, start, start + len(each.text))
            assert each.score == pytest.approx(rows[:, held].sum(1).mean(), abs=1e-5)


def test_scores_of_the_residual_stream_are_left_out(lens: Lens, answer: Answer) -> None:
    maps: Any = mixlens.measure("flow_routes", lens.generate(PROMPT, answer=ANSWER))
    rows = maps.scores.astype(np.float64)
    rows = (rows / rows.sum(-1, keepdims=True)).mean(0)
    for row, position in zip(rows, maps.target_positions, strict=True):
        row[position] = 0
        row /= row.sum()
    start = PROMPT.index(DOCUMENTS["Lily"])
    held = _tokens_in(lens.tokenizer, PROMPT, start, start + len(DOCUMENTS["Lily"]))
    scores = {each.document: each.score for each in answer.top()}
    assert scores["Lily"] == pytest.approx(rows[:, held].sum(1).mean(), abs=1e-5)
    second = answer.sentences[1]
    scores = {each.document: each.score for each in answer.top(sentence=1)}
    own = rows[second.first : second.stop, held].sum(1).mean()
    assert scores["Lily"] == pytest.approx(own, abs=1e-5)


def test_sentences_of_documents_add_up_to_documents(answer: Answer) -> None:
    for word in range(len(answer.words)):
        documents = {each.document: each.score for each in answer.top(word=word)}
        sums = dict.fromkeys(documents, 0.0)
        for each in answer.top(word=word, by="sentences"):
            sums[each.document] += each.score
        assert sums == pytest.approx(documents, abs=1e-6)
    assert sum(answer.shares(sentence=0).values()) == pytest.approx(1, abs=1e-5)
    assert len(answer.top(by="sentences")) == 4


def test_removal_methods_give_the_numbers_of_their_own_calls(lens: Lens, answer: Answer) -> None:
    recording = lens.generate(PROMPT, answer=ANSWER)
    alone = dict(lens.leave_one_out(recording, segments=DOCUMENTS).top())
    ours = {each.document: each.score for each in answer.top(method="leave_one_out")}
    assert ours == pytest.approx(alone)
    context = "\n".join(DOCUMENTS.values())
    cited = lens.context_cite(
        context, PROMPT.split("\n")[-1], ANSWER, DOCUMENTS, template="{context}\n{query}"
    )
    ours = {each.document: each.score for each in answer.top(method="context_cite")}
    # the blank in front of a document that is left out goes with it in both
    assert sorted(ours, key=lambda name: -ours[name])[0] == cited.top()[0][0]
    with pytest.raises(InvalidInput, match="context_cite removed whole documents"):
        answer.top(by="sentences", method="context_cite")
    with pytest.raises(InvalidInput, match="scores only documents"):
        answer.shares(method="leave_one_out")


def test_saved_answers_are_the_same(answer: Answer, tmp_path: Path) -> None:
    answer.save(tmp_path / "answer.mixlens")
    again = mixlens.load(tmp_path / "answer.mixlens")
    assert isinstance(again, Answer)
    assert again == answer
    assert again.to_dataframe().equals(answer.to_dataframe())
    one = next(iter(answer.methods.values()))
    changed = replace(one, values=np.nextafter(one.values, 2))
    assert replace(answer, methods={**answer.methods, one.name: changed}) != answer
    assert replace(answer, has_sink=not answer.has_sink) != answer
    assert answer != 3
    assert str(again) == str(answer)
    assert again.provenance == answer.provenance
    table = answer.to_dataframe("sentences")
    assert set(table.part) == {"answer", "sentence", "word"}
    assert table[table.method == "flow_routes"].passage.nunique() == 4


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("parts", 0, 0), 3),
        (("parts", 0, 1), "poem"),
        (("words", 0, 3), "x"),
        (("words", 0, 4), 10**9),
        (("sources", "offsets"), None),
        (("sources", "segments"), [["other", 0, 10**9]]),
        (("sources", "segments"), []),
        (("sources", "segments", 0, 1), math.inf),
        (("sources", "text"), None),
        (("parts",), []),
        (("passages",), lambda passages: passages[2:]),
    ],
)
def test_damaged_answers_are_refused(
    answer: Answer, tmp_path: Path, place: tuple[Any, ...], value: Any
) -> None:
    file = tmp_path / "answer.mixlens"
    answer.save(file)
    arrays, about = storage.read(file, "answer")
    inner: Any = about
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value(inner[place[-1]]) if callable(value) else value
    storage.write(file, "answer", arrays, about)
    with pytest.raises(InvalidInput, match="cannot be read"):
        mixlens.load(file)


def test_marks_name_documents_and_the_question(lens: Lens) -> None:
    prompt = (
        "Read.\n=== document 1 ===\nTom has a ball.\n=== document 2 ===\nLily has a car.\n"
        "=== question ===\nWho has a car?"
    )
    answer = lens.answer(prompt, max_new_tokens=3)
    assert answer.documents == {
        "document 1": "Tom has a ball.\n",
        "document 2": "Lily has a car.\n",
    }
    assert [part.kind for part in answer.parts] == ["question", "document", "document", "question"]
    assert answer.method == "alti"
    assert not answer.uses_template
    assert "===" not in answer.prompt


def test_a_passed_document_may_have_the_name_of_a_question(lens: Lens) -> None:
    """A mark of this name ends the last document, but a dict names documents only."""
    documents = {"task": "Tom has a ball.", "Query": "Lily has a car."}
    answer = lens.answer("{documents}\nWho has a car?", documents=documents, answer=" Lily")
    assert answer.documents == documents
    kinds = [part.kind for part in answer.parts]  # the names of documents are not the question
    assert kinds == ["template", "document", "template", "document", "question"]
    names = [answer.prompt[part.start : part.stop].strip() for part in answer.parts[::2]]
    assert names == ["task:", "Query:", "Who has a car?"]
    same = {"a": "Write {documents} in the prompt.", "b": "Lily has a car."}
    assert lens.answer("{documents}\nWho?", documents=same, answer=" Lily").documents == same


@pytest.mark.parametrize("name", ["random", "decompx", "hidden_token_attribution"])
def test_measures_without_spans_are_means_over_tokens(lens: Lens, name: str) -> None:
    answer = lens.answer(PROMPT, documents=DOCUMENTS, answer=ANSWER * 3, methods=name)
    scores = answer.methods[name]
    assert scores.parts[-1] == pytest.approx(scores.values.mean(0), abs=1e-6)
    maps: Any = mixlens.measure(name, lens.generate(PROMPT, answer=ANSWER * 3))
    assert scores.values == pytest.approx(scores_of_maps(maps), abs=1e-6)


def test_a_chat_has_its_system_prompt_and_template(chat_lens: Lens) -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "{documents}\nWho has a car?"},
    ]
    answer = chat_lens.answer(
        messages, documents=["Tom has a ball.", "Lily has a car."], answer="Li"
    )
    kinds = {part.kind for part in answer.parts}
    assert kinds == {"system prompt", "earlier turns", "document", "question", "template"}
    assert list(answer.documents) == ["document 1", "document 2"]
    assert not answer.uses_template
    shares = answer.shares()
    assert list(shares)[:3] == ["documents", "question", "system prompt"]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-5)


def test_the_template_is_applied_to_a_text(chat_lens: Lens) -> None:
    answer = chat_lens.answer(PROMPT, documents=DOCUMENTS, answer="blue")
    assert answer.uses_template
    assert answer.prompt == f"<user>{PROMPT}</user>\n<assistant>"
    assert "mixlens wrote the prompt with the chat template" in str(answer)
    plain = chat_lens.answer(PROMPT, documents=DOCUMENTS, answer=" blue", chat_template=False)
    assert plain.prompt == PROMPT
    named = "=== a ===\nTom has a ball.\n=== question ===\nWho?"
    marked = chat_lens.answer([{"role": "user", "content": named}], answer="Tom")
    assert list(marked.documents) == ["a"]


def test_a_prompt_without_documents_is_one_document(lens: Lens) -> None:
    answer = lens.answer("Tom has a ball. Lily has a car.", answer=" Lily has", methods="alti")
    assert list(answer.documents) == ["prompt"]
    assert len(answer.citations(0)) <= 3
    removed = lens.answer(
        "Tom has a ball. Lily has a car.", answer=" Lily has", methods="leave_one_out"
    )
    assert removed.top(by="sentences")[0].text.startswith(("Tom", "Lily"))
    assert removed.top()[0].document == "prompt"


def _bart(lens: Lens) -> Any:
    torch.manual_seed(0)
    config = hf.BartConfig(
        vocab_size=len(lens.tokenizer) + 8,
        d_model=16,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        max_position_embeddings=128,
        init_std=0.3,
        decoder_start_token_id=1,
        eos_token_id=2,
        forced_eos_token_id=None,
    )
    return hf.BartForConditionalGeneration(config).eval()


def test_encoder_decoder_models_read_documents_by_cross_attention(lens: Lens) -> None:
    model = _bart(lens)
    ids = lens.tokenizer(" blue car")["input_ids"]
    both = Lens(model, lens.tokenizer)
    answer = both.answer(PROMPT, documents=DOCUMENTS, answer=ids, methods=["attention", "alti"])
    assert "own words" not in answer.shares()
    assert "first token" not in answer.shares()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(
            input_ids=torch.tensor([lens.tokenizer(PROMPT)["input_ids"]]),
            decoder_input_ids=torch.tensor([[1, *ids[:-1]]]),
            output_attentions=True,
        )
    weights = torch.stack(output.cross_attentions).mean((0, 2))[0].double().numpy()
    for each in answer.top():
        start = PROMPT.index(DOCUMENTS[each.document])
        offsets = lens.tokenizer(PROMPT, return_offsets_mapping=True)["offset_mapping"]
        held = _tokens_in(lens.tokenizer, PROMPT, start, start + len(each.text))
        held += [0] if start == 0 and offsets[0][1] > 0 else []
        assert each.score == pytest.approx(weights[:, held].sum(1).mean(), abs=1e-5)
    default = both.answer(PROMPT, documents=DOCUMENTS, answer=ids * 9)  # a long span
    assert default.method == "alti"
    recording = both.generate(PROMPT, answer=ids * 9)
    maps: Any = mixlens.measure("alti", recording, site="cross", span="sum")
    layers = maps.scores[:, 0] / maps.scores[:, 0].sum(1, keepdims=True)
    assert default.methods["alti"].parts[-1] == pytest.approx(layers.mean(0), abs=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"answer": ""}, "The answer is empty"),
        ({"answer": "  "}, "The answer is empty"),
        ({"documents": {"x": "not there"}}, "Document 'x' is not in the prompt"),
        ({"documents": {"x": "likes"}}, "Document 'x' is 4 times in the prompt"),
        ({"documents": {"x": " "}}, "Document 'x' is empty"),
        ({"documents": []}, "documents is empty"),
        ({"documents": "Tom"}, "documents of type str"),
        ({"prompt": "{documents} or {documents}?"}, "contains {documents} several times"),
        ({"documents": {"answer": "Tom"}}, "Reserved document name 'answer'"),
        ({"documents": ["Tom likes", "likes to play with his red"]}, "overlap"),
        ({"methods": "atention"}, "method 'atention'"),
        ({"methods": ["alti", "alti"]}, "Duplicate method 'alti'"),
        ({"methods": []}, "methods is empty"),
        ({"methods": 3}, "method 3"),
    ],
)
def test_wrong_arguments_are_explained(lens: Lens, given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        lens.answer(**{"prompt": PROMPT, "documents": DOCUMENTS, "answer": " blue", **given})


def test_wrong_prompts_are_explained(lens: Lens, answer: Answer) -> None:
    with pytest.raises(EmptyInput, match="The prompt is empty"):
        lens.answer(" ", answer=" a")
    with pytest.raises(InvalidInput, match="has no passages"):
        lens.answer({"input_ids": [[1]]}, answer=[1])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="merges with the end of the prompt"):
        lens.answer("Tom likes to pl", answer="ay with")
    with pytest.raises(InputTooLong, match=r"The longest is 'long' with \d+ tokens"):
        lens.answer("{documents}", documents={"a": "Tom.", "long": "dog " * 5000}, answer=" a")
    with pytest.raises(InvalidInput, match="no documents to put there"):
        lens.answer("{documents} Lily likes", answer=" a")
    wrong_parts: tuple[dict[str, Any], ...] = (
        {"word": "absent"}, {"sentence": 9}, {"sentence": 0, "word": 0}, {"by": "x"},
        {"count": 0}, {"count": 1.5}, {"count": "a"},
    )  # fmt: skip
    for wrong in wrong_parts:
        with pytest.raises(InvalidInput):
            answer.top(**wrong)
    with pytest.raises(InvalidInput, match="method 'alti'"):
        answer.top(method="alti")


def test_an_answer_of_special_tokens_is_empty(lens: Lens) -> None:
    end = lens.tokenizer.eos_token_id
    if end is None:
        pytest.skip("the tokenizer has no end token")
    with pytest.raises(EmptyInput, match="no words"):
        lens.answer(PROMPT, documents=DOCUMENTS, answer=[end])


def test_documents_with_the_name_of_a_turn_are_refused(chat_lens: Lens) -> None:
    messages = [{"role": "user", "content": "=== user ===\nTom.\n=== question ===\nWho?"}]
    with pytest.raises(InvalidInput, match="Duplicate document name 'user'"):
        read_prompt(chat_lens.tokenizer, messages, None, chat_template=True)


LONG = (
    " blue car. She likes to play with her blue car and with her small dog and she is very happy."
)


def test_long_sentences_add_the_vectors_of_their_tokens(lens: Lens) -> None:
    methods = ["flow_routes", "alti", "attention"]
    made = lens.answer(PROMPT, documents=DOCUMENTS, answer=LONG, methods=methods)
    recording = lens.generate(PROMPT, answer=LONG)
    places = list(recording.targets[0])  # type: ignore[index]
    short, long = made.sentences
    assert short.stop - short.first <= 16 < long.stop - long.first
    for name, own in made.methods.items():
        np.testing.assert_allclose(own.parts[0], own.values[: short.stop].mean(0), rtol=1e-6)
        for part, (first, stop) in ((1, (long.first, long.stop)), (2, (0, len(places)))):
            mean = own.values[first:stop].mean(0)
            if name == "attention":
                np.testing.assert_allclose(own.parts[part], mean, rtol=1e-6)
                continue
            maps: Any = mixlens.measure(name, recording, targets=places[first:stop], span="sum")
            row = maps.reading.of(maps.scores)[0].astype(np.float64)
            if name == "alti":  # the residual stream of the targets is theirs
                row[places[first:stop]] = 0
            np.testing.assert_allclose(own.parts[part], row / row.sum(), rtol=1e-4, atol=1e-7)
            assert np.abs(own.parts[part] - mean).max() > 1e-3


def test_an_output_is_explained_once_for_each_sentence(lens: Lens) -> None:
    names = ["gradient_x_input", "logit_update", "attention_gradient"]
    made = lens.answer(PROMPT, documents=DOCUMENTS, answer=ANSWER, methods=names)
    model: Any = lens.model
    ids = lens.tokenizer(PROMPT + ANSWER, return_tensors="pt")["input_ids"]
    first = len(lens.tokenizer(PROMPT)["input_ids"])
    spans = [(part.first, part.stop) for part in made.sentences]
    spans.append((0, len(made.target_row)))
    for number, (start, stop) in enumerate(spans):
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded).logits[0].log_softmax(-1)
        places = torch.arange(first + start, first + stop)
        (gradient,) = torch.autograd.grad(logits[places - 1, ids[0, places]].sum(), embedded)
        row = (gradient * embedded)[0].sum(-1).detach().double().numpy()
        own = made.methods["gradient_x_input"].parts[number]
        row = row[: len(own)]
        np.testing.assert_allclose(own, row / np.abs(row).sum(), atol=1e-5)
    for own in made.methods.values():
        assert own.values.shape == (len(made.target_row), len(made.source_row))
        np.testing.assert_array_equal(own.values[spans[1][0]], own.parts[1])
        assert np.abs(own.parts).sum(1) == pytest.approx(1, abs=1e-5)
    assert made.top(word="happy", method="logit_update") == made.top(
        sentence=1, method="logit_update"
    )


def test_a_chat_without_documents_ranks_its_turns(chat_lens: Lens) -> None:
    messages = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "Tom has a red ball. Lily has a blue car."},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "Who has a car?"},
    ]
    methods = ["attention", "leave_one_out"]
    answer = chat_lens.answer(messages, answer="Lily", methods=methods)
    turns = {"user 1": messages[1]["content"], "assistant": "I see.", "user 2": "Who has a car?"}
    assert answer.documents == turns
    for method in methods:
        assert {each.document for each in answer.top(method=method)} == set(turns)
    assert len(answer.top(by="sentences")) == 4
    assert "system prompt" in answer.shares()
    maps: Any = mixlens.measure("attention", chat_lens.generate(messages, answer="Lily"))
    again = answer_of_maps([maps])
    assert again is not None
    assert list(again.documents) == list(turns)


def test_paragraphs_are_between_documents_and_sentences(lens: Lens) -> None:
    body = "Tom has a ball. He is big.\n\nLily has a blue car."
    answer = lens.answer(f"{body}\nLily has a", documents={"all": body}, answer=" blue car.")
    ranked = {each.name: each for each in answer.top(by="paragraphs")}
    assert [ranked[f"all, paragraph {i}"].text for i in (1, 2)] == body.split("\n\n")
    sentences = {each.name: each.score for each in answer.top(by="sentences")}
    first = sentences["all, sentence 1"] + sentences["all, sentence 2"]
    assert ranked["all, paragraph 1"].score == pytest.approx(first, abs=1e-6)
    assert set(answer.to_dataframe("paragraphs").passage) == set(body.split("\n\n"))
    removed = lens.answer(body, answer=" blue car.", methods="leave_one_out")
    with pytest.raises(InvalidInput, match="removed whole sentences"):
        removed.top(by="paragraphs")
    assert len(removed.to_dataframe("paragraphs")) > 0


def test_shares_without_own_words_are_not_printed_as_zero(lens: Lens) -> None:
    long = " blue car. She is happy. Tom likes to play with his red ball and the small dog."
    methods = ["alti", "flow_routes"]
    answer = lens.answer(PROMPT, documents=DOCUMENTS, answer=long, methods=methods)
    assert "own words" not in answer.shares()
    assert answer.shares(method="flow_routes")["own words"] > 0
    assert answer.shares(sentence=1)["own words"] > 0
    assert "own words" in answer.shares(word=0)
    assert "Shares of all sources, without own words: documents" in str(answer)


def test_an_answer_without_citations_says_why(lens: Lens) -> None:
    answer = lens.answer(PROMPT, documents=DOCUMENTS, answer=" blue", methods="leave_one_out")
    answer.methods["leave_one_out"].parts[:] = -1
    assert "[1]" not in str(answer)
    assert "No passage has a positive score" in str(answer)


def test_a_prompt_without_documents_is_reported(lens: Lens) -> None:
    assert "The prompt marks no documents" in str(lens.answer(PROMPT, answer=" blue car."))
    marked = lens.answer(PROMPT, documents={"prompt": DOCUMENTS["Lily"]}, answer=" blue car.")
    assert "The prompt marks no documents" not in str(marked)


@pytest.mark.parametrize(("name", "near"), [("method", "methods"), ("document", "documents")])
def test_a_misspelt_argument_is_suggested(lens: Lens, name: str, near: str) -> None:
    options: dict[str, Any] = {name: "alti"}
    with pytest.raises(InvalidInput, match=f"Unknown option '{name}'. Did you mean {near}"):
        lens.answer(PROMPT, answer=" blue car.", **options)
