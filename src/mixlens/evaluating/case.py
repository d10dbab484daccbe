"""A case: one example recorded by a model, with what every measure says about it, computed once.

* An agreement example becomes a text with a mask in the target's place, or for a causal model the
  text before it; the model is asked for the target against the foil, and the row of interest is
  that of the mask, or of the last token.
* A labelled or plain text is recorded as it is; the row of interest is that of [CLS], or
  the last one of a causal model. The explained output is the class, or the word, that the model
  itself predicts.
* An aligned pair is given to an encoder-decoder model word by word, so that pieces are known to
  belong to words; see `_parallel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from mixlens.datasets.examples import Agreement, Aligned, Example, Span
from mixlens.errors import InvalidInput, MissingTokenizer
from mixlens.maps.one_row import layer_rows, target_row
from mixlens.measures import list_measures, spec_of
from mixlens.measuring.measure import measure as measured
from mixlens.text.tokens import cls_position

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording
    from mixlens.text.tokens import TokenRow

_CAUSAL: WeakKeyDictionary[Lens, bool] = WeakKeyDictionary()


class Case:
    """One example under one model."""

    def __init__(
        self,
        lens: Lens,
        example: Example,
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.lens = lens
        self.example = example
        quick = {name: dict(spec.quick) for name, spec in list_measures().items() if spec.quick}
        self.options: dict[str, Mapping[str, Any]] = {  # by measure
            **quick,
            **_erasure(lens),
            **(options or {}),
        }
        self._maps: dict[tuple[str, str], MixingMaps] = {}
        self._others: dict[Lens, Case] = {}

    def under(self, lens: Lens) -> Case:
        """The same example under a different model, remembered, so that all measures share its
        recording.
        """
        if lens not in self._others:
            self._others[lens] = Case(lens, self.example, options=self.options)
        return self._others[lens]

    def release_recordings(self) -> None:
        """Frees what the model was recorded with; what measures said of it stays."""
        vars(self).pop("recording", None)
        for case in self._others.values():
            case.release_recordings()

    @property
    def bytes_of_maps(self) -> int:
        """How much memory that takes."""
        own = sum(maps.scores.nbytes * (1 + len(maps.measured)) for maps in self._maps.values())
        return own + sum(case.bytes_of_maps for case in self._others.values())

    @cached_property
    def given(self) -> Any:
        """What is recorded: a text, a pair of texts, or a dict of tensors."""
        example = self.example
        if isinstance(example, Agreement):
            start, stop = example.place
            if self.causal:
                if not example.text[:start].strip():
                    raise InvalidInput(
                        "the target is the first word: a causal model has nothing to predict it"
                        " from"
                    )
                return example.text[:start].rstrip()
            return example.text[:start] + self._mask + example.text[stop:]
        if isinstance(example, Aligned):
            from mixlens.evaluating.parallel import word_inputs

            return word_inputs(self.lens, example).tensors
        return example.text if example.pair is None else (example.text, example.pair)

    @cached_property
    def recording(self) -> Recording:
        """The text, recorded once."""
        recording = self.lens.record(self.given)
        if len(recording.structure.stacks) > 1 and not isinstance(self.example, Aligned):
            raise InvalidInput(
                f"{self.example.kind} examples have one row of tokens, and this model has"
                f" {len(recording.structure.stacks)} stacks of layers (encoder and decoder): it can"
                " be judged on aligned pairs only"
            )
        return recording

    @cached_property
    def causal(self) -> bool:
        """Does the model see only what is before a token? Asked of the model itself, once."""
        if self.lens.tokenizer is None:
            raise MissingTokenizer(
                "evaluations read texts, and the model came without a tokenizer: give it one"
            )
        if self.lens not in _CAUSAL:
            structure = self.lens.record(self.example.text).structure
            _CAUSAL[self.lens] = bool(structure.stacks[-1].layers[0].sites[0].causal)
        return _CAUSAL[self.lens]

    @property
    def _mask(self) -> str:
        mask = getattr(self.lens.tokenizer, "mask_token", None)
        if mask is None:
            raise InvalidInput(
                "the tokenizer has no mask token, and the model is not causal: it cannot be asked"
                " for a word"
            )
        return str(mask)

    # --------------------------------------------------------------------------- places in the text

    @cached_property
    def row(self) -> TokenRow:
        """The tokens that are sources and targets."""
        return self.recording.tokens[self.recording.structure.stacks[-1].name][0]

    @cached_property
    def target(self) -> int:
        """The position whose row is of interest."""
        if isinstance(self.example, Agreement) and not self.causal:
            tokens = self.tokens_of(
                (self.example.place[0], self.example.place[0] + len(self._mask))
            )
            if len(tokens) != 1:
                raise InvalidInput(f"the mask became {len(tokens)} tokens, not one")
            return tokens[0]
        if self.causal:
            return len(self.row) - 1
        return cls_position(self.lens.tokenizer, self.row.labels)

    @cached_property
    def cues(self) -> tuple[tuple[int, ...], ...]:
        """The tokens of each cue."""
        if not isinstance(self.example, Agreement):
            raise InvalidInput(f"{self.example.kind} examples have no cues")
        if not self.example.cues:
            raise InvalidInput("the example names no cue")
        (start, stop), places = self.example.place, []
        for first, last in self.example.cues:
            if first < stop and start < last:
                raise InvalidInput("a cue overlaps the target")
            if self.causal and first > start:
                raise InvalidInput(
                    "a cue comes after the target, where a causal model cannot see it"
                )
            shift = len(self._mask) - (stop - start) if first >= stop else 0
            tokens = self.tokens_of((first + shift, last + shift))
            if not tokens:
                raise InvalidInput(f"no token is part of the cue {self.example.text[first:last]!r}")
            places.append(tokens)
        return tuple(places)

    def tokens_of(self, span: Span) -> tuple[int, ...]:
        """The tokens that are on these characters of the recorded text."""
        if self.row.offsets is None:
            raise InvalidInput(
                "places in the text need a fast tokenizer, which says where each token is"
            )
        return tuple(i for i, (a, b) in enumerate(self.row.offsets) if a < span[1] and span[0] < b)

    @cached_property
    def explain(self) -> dict[str, Any]:
        """Which output measures explain: options of every measure that explains one."""
        if isinstance(self.example, Agreement):
            return {"word": self.example.target, "foil": self.example.foil, "position": self.target}
        return {}

    # --------------------------------------------------------------------------------------- scores

    def maps(self, measure: str, **options: Any) -> MixingMaps:
        """The maps of a measure, remembered."""
        key = (measure, repr(sorted(options.items())))
        if key not in self._maps:
            chosen = {**self.options.get(measure, {}), **options}
            if spec_of(measure).explains_output:
                chosen = {**self.explain, **chosen}
            elif isinstance(self.example, Aligned):
                chosen.setdefault("site", "cross")
            maps = measured(measure, self.recording, **chosen)
            assert not isinstance(maps, list)
            self._maps[key] = maps
        return self._maps[key]

    def target_row(
        self, measure: str, aggregate: str | int = "rollout", **options: Any
    ) -> np.ndarray:
        """What the measure says about the target, one share for each source; see
        `mixlens.maps.one_row`.
        """
        return target_row(self.maps(measure, **options), spec_of(measure), self.target, aggregate)

    def layer_rows(self, measure: str, **options: Any) -> np.ndarray:
        """The same for each layer: [layer, source]."""
        return layer_rows(self.maps(measure, **options), spec_of(measure), self.target)


def _erasure(lens: Lens) -> dict[str, dict[str, Any]]:
    """A tokenizer without a mask and an unknown token leaves nothing to put in a token's place but
    a zero embedding.
    """
    names = (getattr(lens.tokenizer, f"{name}_token_id", None) for name in ("mask", "unk"))
    return (
        {}
        if any(isinstance(name, int) for name in names)
        else {"blank_out": {"replacement": "zero"}}
    )


def cases(lens: Lens, examples: Iterable[Example], **options: Any) -> Iterator[Case]:
    """A case for each example, one at a time."""
    for example in examples:
        yield Case(lens, example, **options)
