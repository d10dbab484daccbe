"""Record one example with a model, and cache the maps of each measure.

* An agreement example becomes a text with a mask in place of the target or, for a causal model, the
  text before the target. The model chooses between target and foil. The target position is the
  mask, or the last token.
* A labelled or plain text is recorded unchanged. The target position is [CLS], or the last token of
  a causal model. The explained output is the class or word that the model predicts.
* An aligned pair is tokenised word by word for an encoder-decoder model, so that the word of every
  piece is known; see `parallel`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from mixlens.datasets.examples import Agreement, Aligned, EvidencePrompt, Example, Span
from mixlens.errors import InvalidInput, MissingTokenizer, MixlensError
from mixlens.maps.one_row import layer_rows, target_row
from mixlens.measures import ready_measures, refusal, scores_layers, spec_of
from mixlens.measuring.measure import measure as measured
from mixlens.measuring.measure import measure_together
from mixlens.text.tokens import cls_position

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.recording.recording import Recording
    from mixlens.text.tokens import TokenRow

_CAUSAL: WeakKeyDictionary[Lens, bool] = WeakKeyDictionary()


class Case:
    """An example and a model, with the cached recording and the cached maps of every measure."""

    def __init__(
        self,
        lens: Lens,
        example: Example,
        *,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        pass_measures: Sequence[str] = (),
    ) -> None:
        self.lens = lens
        self.example = example
        # Measures that share a pass, if a few targets are recorded.
        self.pass_measures = pass_measures
        quick = {name: dict(spec.quick) for name, spec in ready_measures().items() if spec.quick}
        self.options: dict[str, Mapping[str, Any]] = {  # cached maps by measure
            **quick,
            **_erasure(lens),
            **(options or {}),
        }
        self._maps: dict[tuple[str, str], MixingMaps] = {}
        self._other_cases: dict[Lens, Case] = {}

    def under(self, lens: Lens) -> Case:
        """Return a case with the same example and a different model.

        The case is cached, so that all measures share one recording.
        """
        if lens not in self._other_cases:
            self._other_cases[lens] = Case(lens, self.example, options=self.options)
        return self._other_cases[lens]

    def release_recordings(self) -> None:
        """Free the recordings and keep the maps."""
        vars(self).pop("recording", None)
        for case in self._other_cases.values():
            case.release_recordings()

    @property
    def bytes_of_maps(self) -> int:
        """Return the number of bytes that the cached maps take up."""
        cached_bytes = sum(
            maps.scores.nbytes * (1 + len(maps.measured)) for maps in self._maps.values()
        )
        return cached_bytes + sum(case.bytes_of_maps for case in self._other_cases.values())

    @cached_property
    def given(self) -> Any:
        """Return the input to record: a text, a pair of texts, or a dict of tensors."""
        example = self.example
        if isinstance(example, Agreement):
            start, stop = example.place
            if self.causal:
                if not example.text[:start].strip():
                    raise InvalidInput(
                        "The target is the first word, so a causal model has no context to "
                        "predict it from. Use a longer text."
                    )
                return example.text[:start].rstrip()
            return example.text[:start] + self._mask + example.text[stop:]
        if isinstance(example, Aligned):
            from mixlens.evaluating.parallel import word_inputs

            return word_inputs(self.lens, example).tensors
        return example.text if example.pair is None else (example.text, example.pair)

    @cached_property
    def recording(self) -> Recording:
        """Record the example on first access, and return the cached recording afterwards.

        A prompt with known evidence is recorded together with its answer.
        """
        if isinstance(self.example, EvidencePrompt):
            return self.lens.generate(self.example.text, answer=self.example.answer)
        recording = self.lens.record(self.given)
        if len(recording.structure.stacks) > 1 and not isinstance(self.example, Aligned):
            raise InvalidInput(
                f"{self.example.kind} examples have one sequence, but this model has "
                f"{len(recording.structure.stacks)} stacks of layers (encoder and decoder). "
                "Use aligned pairs."
            )
        return recording

    @cached_property
    def causal(self) -> bool:
        """Return whether the model is causal. The result is cached for every lens."""
        if self.lens.tokenizer is None:
            raise MissingTokenizer("Evaluations on texts need a tokenizer. Add one to the model.")
        if self.lens not in _CAUSAL:
            structure = self.lens.record(self.example.text).structure
            _CAUSAL[self.lens] = bool(structure.stacks[-1].layers[0].sites[0].causal)
        return _CAUSAL[self.lens]

    @property
    def _mask(self) -> str:
        mask = getattr(self.lens.tokenizer, "mask_token", None)
        if mask is None:
            raise InvalidInput(
                "The tokenizer has no mask token and the model is not causal, so it cannot "
                "predict a word. Use a masked or causal language model."
            )
        return str(mask)

    # --------------------------------------------------------------------------- places in the text

    @cached_property
    def row(self) -> TokenRow:
        """Return the tokens of the text, which are both sources and targets."""
        return self.recording.tokens[self.recording.structure.stacks[-1].name][0]

    @cached_property
    def target(self) -> int:
        """Return the target position."""
        if isinstance(self.example, Agreement) and not self.causal:
            tokens = self.tokens_of(
                (self.example.place[0], self.example.place[0] + len(self._mask))
            )
            if len(tokens) != 1:
                raise InvalidInput(
                    f"The mask was tokenised as {len(tokens)} tokens instead of one. Use a "
                    "tokenizer with a mask token."
                )
            return tokens[0]
        if self.causal:
            return len(self.row) - 1
        return cls_position(self.lens.tokenizer, self.row.labels)

    @cached_property
    def cues(self) -> tuple[tuple[int, ...], ...]:
        """Return the token indices of each cue."""
        if not isinstance(self.example, Agreement):
            raise InvalidInput(f"{self.example.kind} examples have no cues. Use agreement data.")
        if not self.example.cues:
            raise InvalidInput("The example has no cue. Use data with cues.")
        (start, stop), places = self.example.place, []
        for first, last in self.example.cues:
            if first < stop and start < last:
                raise InvalidInput("A cue overlaps the target. Correct the example.")
            if self.causal and first > start:
                raise InvalidInput(
                    "A cue comes after the target, where a causal model cannot see it. Use a "
                    "masked model, or skip the example."
                )
            shift = len(self._mask) - (stop - start) if first >= stop else 0
            tokens = self.tokens_of((first + shift, last + shift))
            if not tokens:
                raise InvalidInput(
                    f"The cue {self.example.text[first:last]!r} contains no token. Check its span."
                )
            places.append(tokens)
        return tuple(places)

    def tokens_of(self, span: Span) -> tuple[int, ...]:
        """Return the indices of the tokens that overlap a character span of the recorded text."""
        if self.row.offsets is None:
            raise InvalidInput(
                "The tokenizer has no offset mapping, which character spans need. Use a fast "
                "tokenizer (tokenizer.json)."
            )
        return tuple(i for i, (a, b) in enumerate(self.row.offsets) if a < span[1] and span[0] < b)

    @cached_property
    def explain(self) -> dict[str, Any]:
        """Return the options that make output measures explain the target against its foil.

        Examples without a foil have no such options.
        """
        if isinstance(self.example, Agreement):
            return {"word": self.example.target, "foil": self.example.foil, "position": self.target}
        return {}

    # --------------------------------------------------------------------------------------- scores

    def maps(self, measure: str, **options: Any) -> MixingMaps:
        """Return the maps of a measure with these options. The maps are cached."""
        key = (measure, repr(sorted(options.items())))
        if key not in self._maps:
            settings = {**self.options.get(measure, {}), **options}
            if spec_of(measure).explains_output:
                settings = {**self.explain, **settings}
            elif isinstance(self.example, Aligned):
                settings.setdefault("site", "cross")
            group = self._sharing(measure, options)
            if not group or not self._measure_together([measure, *group], options):
                maps = measured(measure, self.recording, **settings)
                assert not isinstance(maps, list)
                self._maps[key] = maps
        return self._maps[key]

    def _sharing(self, measure: str, options: Mapping[str, Any]) -> list[str]:
        """Return the other measures that can be scored with `measure` in one forward pass, with the
        same options.
        """
        if (
            not self.pass_measures
            or self.recording.is_kept
            or not _scores_one_target(measure)
            or not options.keys() <= {"span", "targets", "layers"}
        ):
            return []
        structure, site = self.recording.structure, self.recording.site
        return [
            name
            for name in self.pass_measures
            if name != measure
            and _scores_one_target(name)
            and (name, repr(sorted(options.items()))) not in self._maps
            and refusal(name, structure, site) is None
        ]

    def _measure_together(self, measures: Sequence[str], options: Mapping[str, Any]) -> bool:
        """Score several measures in one forward pass, and cache their maps.

        Return False if one of the measures cannot be computed.
        """
        try:
            by_name = measure_together(
                {name: self.options.get(name, {}) for name in measures}, self.recording, **options
            )
        except MixlensError:
            return False
        for name, maps in by_name.items():
            assert not isinstance(maps, list)
            self._maps[name, repr(sorted(options.items()))] = maps
        return True

    def target_row(
        self, measure: str, aggregate: str | int = "rollout", **options: Any
    ) -> np.ndarray:
        """Return the target's normalised score for each source; see `mixlens.maps.one_row`."""
        return target_row(self.maps(measure, **options), spec_of(measure), self.target, aggregate)

    def layer_rows(self, measure: str, **options: Any) -> np.ndarray:
        """Return the target's score for each source in each layer, [layer, source]."""
        return layer_rows(self.maps(measure, **options), spec_of(measure), self.target)


def _scores_one_target(measure: str) -> bool:
    """Return whether a measure can score one target in one layer without scoring all other
    targets.
    """
    return scores_layers(measure) and spec_of(measure).row_by_row


def _erasure(lens: Lens) -> dict[str, dict[str, Any]]:
    """Return the options of `blank_out` for this tokenizer.

    Without a mask token or an unknown token, `blank_out` replaces tokens by a zero embedding.
    """
    names = (getattr(lens.tokenizer, f"{name}_token_id", None) for name in ("mask", "unk"))
    return (
        {}
        if any(isinstance(name, int) for name in names)
        else {"blank_out": {"replacement": "zero"}}
    )


def cases(lens: Lens, examples: Iterable[Example], **options: Any) -> Iterator[Case]:
    """Yield a case for each example."""
    for example in examples:
        yield Case(lens, example, **options)
