"""Fuzz the public API: inputs and options of a lens, and words of a command."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from mixlens import Lens
from mixlens.measures import ready_measures
from tests.cli.running import run
from tests.fuzz.contents import PLAIN, TEXTS, VALUES, only_ours

TEXT = "The dogs [MASK] old."
MEASURES = ready_measures()
OPTIONS = sorted({option.name for spec in MEASURES.values() for option in spec.options})
CHEAP = sorted(set(MEASURES) - {"hidden_token_attribution", "deep_lift", "integrated_gradients"})


@cache
def _lens() -> Lens:
    return Lens.bundled()


SHAPES = st.lists(st.integers(0, 4), max_size=4)
NUMBERS = st.builds(
    lambda shape, low, kind: torch.full(shape, low).to(kind),
    SHAPES,
    st.sampled_from([-1, 0, 1, 2, 10**6]),
    st.sampled_from(
        [
            torch.int64,
            torch.int32,
            torch.uint8,
            torch.float32,
            torch.float16,
            torch.bool,
            torch.complex64,
        ]
    ),
)
KEYS = st.sampled_from(
    [
        "input_ids",
        "attention_mask",
        "token_type_ids",
        "position_ids",
        "inputs_embeds",
        "labels",
        "encoder_hidden_states",
        "encoder_attention_mask",
        "images",
        "text",
        "audio",
        "past_key_values",
        "use_cache",
        "return_dict",
        "output_attentions",
    ]
)
ROWS = st.lists(st.lists(st.integers(-1, 12), max_size=4) | st.integers(-1, 12) | PLAIN, max_size=3)
WHOLE = st.builds(
    lambda batch, width: torch.ones(batch, width, dtype=torch.int64),
    st.integers(1, 2),
    st.integers(1, 4),
)
TENSORS = NUMBERS | WHOLE | NUMBERS.map(lambda made: made.numpy()) | ROWS | PLAIN
INPUTS = (
    VALUES
    | TENSORS
    | st.lists(TEXTS | st.tuples(TEXTS, TEXTS), max_size=3)
    | st.tuples(TEXTS, TEXTS)
    | st.dictionaries(KEYS | TEXTS, TENSORS, max_size=3)
    | st.fixed_dictionaries({"input_ids": TENSORS}, optional={"attention_mask": TENSORS})
    | st.fixed_dictionaries(
        {"input_ids": WHOLE}, optional={"position_ids": WHOLE, "token_type_ids": TENSORS}
    )
    | st.sampled_from([b"bytes", object(), {1, 2}, range(3), np.zeros(3), torch.ones(1, 3).long()])
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "site": PLAIN | st.sampled_from(["encoder", "decoder", "cross"]),
        "layers": VALUES | st.integers(-7, 7) | st.lists(st.integers(-1, 6), max_size=3),
        "targets": VALUES
        | st.integers(-8, 8)
        | st.sampled_from(["dogs", "[MASK]", "the", "[CLS]"]),
        "per_head": PLAIN,
        "precision": PLAIN | st.sampled_from(["float32", "bf16"]),
        "on_error": PLAIN | st.sampled_from(["raise", "skip"]),
        "batch_size": PLAIN,
    },
)
WORDS = {
    "word": st.sampled_from(["are", "is", "zzzz"]) | PLAIN,
    "foil": st.sampled_from(["are", "is", "zzzz"]) | PLAIN,
    "of": PLAIN | st.sampled_from(["probability", "logit", "similarity", "embedding"]),
}
OWN = st.dictionaries(st.sampled_from(OPTIONS), PLAIN, max_size=2) | st.fixed_dictionaries(
    {}, optional={**WORDS, "steps": PLAIN}
)


@given(INPUTS, st.sampled_from(["attention", "value_zeroing", "gradient_norm"]))
@example({"input_ids": False}, "attention")
@example({"input_ids": torch.ones(1, 3).long(), "token_type_ids": True}, "attention")
@example({"input_ids": torch.ones(1, 3).long(), "attention_mask": torch.tensor(1)}, "attention")
@example({"input_ids": torch.ones(1, 2, 3).long()}, "attention")
@example({"attention_mask": torch.tensor([[False]]), "": torch.tensor(-1)}, "gradient_norm")
def inputs(given: Any, measure: str) -> None:
    """Anything as the text or the tensors of a lens."""
    with only_ours():
        _lens().measure(measure, given)


@given(st.sampled_from(CHEAP) | PLAIN, CHOICES, OWN)
@example("attention", {"targets": "the#" + "9" * 5000}, {})
@example("decompx_logit", {}, {"word": 0.0})
@example("gradient_norm", {}, {"word": False})
@example("blank_out", {}, {"foil": False})
@example("decompx_logit", {}, {"position": ""})
@example("blank_out", {}, {"position": 2.5})
def options(measure: Any, choices: dict[str, Any], own: dict[str, Any]) -> None:
    """Anything as a measure, as what is chosen of it, and as its options."""
    with only_ours():
        maps = _lens().measure(measure, TEXT, **{**own, **choices})
        assert np.isfinite(maps.scores).all()


@given(
    TEXTS | st.just(TEXT),
    st.fixed_dictionaries(
        {"only": st.lists(st.sampled_from(CHEAP[:6]), min_size=1, max_size=3) | VALUES},
        optional={
            "target": PLAIN | st.sampled_from(["dogs", "[MASK]", -1]),
            "aggregate": PLAIN | st.sampled_from(["mean", "rollout", "last", 3]),
            "words": st.booleans(),
            "explain": VALUES | st.fixed_dictionaries({}, optional=WORDS),
            "options": VALUES,
            "cue": PLAIN,
            "budget": PLAIN,
        },
    ),
)
@example(TEXT, {"only": True})
@example(TEXT, {"only": [["attention"]]})
@example(TEXT, {"only": ["attention"], "explain": [1]})
@example(TEXT, {"only": ["attention"], "options": {"attention": 1}})
@example(TEXT, {"only": ["attention"], "aggregate": None})
@example(TEXT, {"only": ["attention_gradient"], "explain": {"word": False}})
@example(TEXT, {"only": ["alti_logit"], "explain": {"word": 6.9e16}})
def comparisons(text: str, chosen: dict[str, Any]) -> None:
    """Anything that `compare` may be asked."""
    with only_ours():
        _lens().compare(text, **chosen)


ARGUMENTS = st.lists(
    st.one_of(
        TEXTS,
        st.just(TEXT),
        st.sampled_from(["map", "compare", "measures", "routes", "attention", "value_zeroing"]),
        st.tuples(
            st.sampled_from(
                [
                    "--measure",
                    "--layer",
                    "--target",
                    "--head",
                    "--top",
                    "--option",
                    "--site",
                    "--layers",
                    "--word",
                    "--foil",
                    "--cue",
                    "--budget",
                    "--segments",
                    "--answer",
                    "--dtype",
                    "--device",
                    "--measures",
                    "--prompt-file",
                    "--text-file",
                    "--html",
                ]
            ),
            TEXTS
            | st.sampled_from(
                [
                    "attention",
                    "dogs",
                    "1",
                    "-1",
                    "word=are",
                    "steps=-1",
                    "x=y",
                    "sentences",
                    "own",
                    "/dev/null",
                    "/",
                    "bf16",
                    "nan",
                ]
            ),
        ).map("\0".join),
        st.sampled_from(["--rollout", "--flow", "--json", "--words", "--no-sink", "--alignment"]),
    ),
    max_size=5,
).map(lambda parts: "\0".join(parts).split("\0"))


@given(st.sampled_from(["map", "compare", "routes", "measures"]), ARGUMENTS)
@example("map", [TEXT, "--target", "9" * 5000])
def commands(command: str, arguments: list[str]) -> None:
    """Any words behind a command: an answer, a line that says what is wrong, or a usage note."""
    if command == "compare" and "--measures" not in arguments:
        arguments = [*arguments, "--measures", "attention"]
    ran = run(command, *arguments)
    assert "unexpected error" not in ran.err, ran.err
    assert not re.search(r"^Traceback", ran.err, re.MULTILINE), ran.err
