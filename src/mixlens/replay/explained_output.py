"""The model output that a gradient or an erasure measure explains: one number per text, such as the
probability of a class or of a word.

* A classifier: the class `label` (name or number), optionally contrasted with a class `foil`.
* A masked language model: the `word` at a `position`, optionally contrasted with a word `foil`.
* A causal or encoder-decoder language model: the next `word` after `position` (default: after the
  last token).

By default, the model's own prediction is explained: the most probable class, or the most probable
word at the only mask token or after the last token. If a continuation of the prompt was generated,
this is the generated token; if there are several generated tokens, pass `position`.

`of="probability"` is the probability as the model's own API computes it
(`mixlens.replay.probabilities`). With a foil, it is the probability if the model had to choose
between the word or class and the foil. `of="logit"` is the logit, or with a foil the difference of
the two logits. Pass a list to set an option for each text of a batch.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mixlens.contracts import AttentionKind
from mixlens.errors import InvalidInput, NonFiniteActivations
from mixlens.model.loading import require_head
from mixlens.replay.intervention import token_input
from mixlens.replay.probabilities import Link, find_link, to_probabilities
from mixlens.text.encoding import token_names
from mixlens.text.tokens import resolve_positions, whole_number, whole_numbers
from mixlens.text.vocabulary import (
    label_id,
    label_name,
    predicts_classes,
    special_id,
    word_id,
    word_name,
)

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


Named = str | int | list[str | int] | None
Place = int | list[int] | None

NO_OUTPUT = (
    "This recording has no model output, because it was made for a measure that needs none. "
    "Record the text with lens.record(text)."
)


@dataclass(frozen=True)
class Explained:
    """The model output to explain, as one number for each text."""

    chosen: Int[Tensor, " batch"]
    foils: Int[Tensor, " batch"] | None
    positions: Int[Tensor, " batch"] | None  # None if the model has one vector of logits per text
    of: str
    names: tuple[str, ...]
    link: Link | None  # function from logits to probabilities; None if no probability is needed

    def __call__(self, output: Any, texts: Int[Tensor, " copies"]) -> Float[Tensor, " copies"]:
        """Compute the explained number from a model's output. `texts` contains, for each copy, the
        index of its text in the batch.
        """
        logits = logits_of(output)
        texts = texts.to(logits.device)
        if self.positions is not None:
            logits = self.logits_at(logits, texts, self.positions[texts][:, None])[:, 0]
        logits = logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits
        if self.foils is not None:
            logits = logits.gather(1, torch.stack([self.chosen[texts], self.foils[texts]], 1))
            if self.of == "logit":
                return logits[:, 0] - logits[:, 1]
            return torch.softmax(logits, -1)[:, 0]
        if self.link is not None:
            logits = to_probabilities(logits, self.link)
        return logits.gather(1, self.chosen[texts][:, None])[:, 0]

    @property
    def places_read(self) -> Int[Tensor, "batch place"] | None:
        """Return the positions whose logits are read, or None if the model has one vector of logits
        per text.
        """
        return None if self.positions is None else self.positions[:, None]

    @property
    def terms(self) -> tuple[Int[Tensor, "batch place term"], Float[Tensor, "batch place term"]]:
        """Return the indices of the logits that are summed at each position, and the weight of each
        logit.
        """
        outputs = [self.chosen] if self.foils is None else [self.chosen, self.foils]
        indices = torch.stack(outputs, 1)[:, None]
        signs = torch.tensor([1.0, -1.0][: len(outputs)], device=indices.device)
        return indices, signs.expand(indices.shape)

    @property
    def read(self) -> Int[Tensor, " position"] | None:
        """Return the positions whose logits are read in at least one text, in ascending order."""
        places = self.places_read
        return None if places is None else torch.unique(places)

    def logits_at(
        self,
        logits: Float[Tensor, "copies position word"],
        texts: Int[Tensor, " copies"],
        places: Int[Tensor, "copies place"],
    ) -> Float[Tensor, "copies place word"]:
        """Return the logits of each copy at the positions `places`."""
        positions = self.read
        if positions is not None and logits.shape[1] == len(positions):  # as in `only_what_is_read`
            places = torch.searchsorted(positions.to(places.device), places)
        return logits[torch.arange(len(texts), device=texts.device)[:, None], places]

    def only_what_is_read(self, model: nn.Module) -> dict[str, Tensor]:
        """Return model inputs that restrict the logits to the explained positions, to save memory.

        The result is empty if the model does not accept `logits_to_keep`.
        """
        positions = self.read
        if positions is None or "logits_to_keep" not in inspect.signature(model.forward).parameters:
            return {}
        return {"logits_to_keep": positions}


def no_logits(output: Any, *, or_embedding: bool = False) -> str | None:
    """Return the reason why no prediction can be explained, or None.

    Set `or_embedding` if the measure could explain an embedding instead.
    """
    if isinstance(getattr(output, "logits", None), Tensor):
        return None
    if output is None:
        return NO_OUTPUT
    reason = (
        "this model returns no logits, so there is no prediction to explain. Use a "
        "checkpoint with a head for words or classes"
    )
    if not or_embedding:
        return reason
    return f"{reason}. For an encoder of texts, pass of=embedding or of=similarity."


def logits_of(output: Any) -> Tensor:
    """Return the logits of a model's output, or raise `InvalidInput` if there are none."""
    reason = no_logits(output)
    if reason is not None:
        raise InvalidInput(reason)
    logits: Tensor = output.logits
    return logits


def select_explained(
    recording: Recording,
    *,
    label: Named = None,
    word: Named = None,
    foil: Named = None,
    position: Place = None,
    of: str = "probability",
) -> Explained:
    """Return the output that the options select. The default is the model's own prediction."""
    if of not in ("probability", "logit"):
        raise InvalidInput(
            f"Unknown of={of!r}. Choose probability, logit, similarity or embedding."
        )
    logits = logits_of(recording.output)
    require_head(recording.model)
    link = find_link(recording.model, recording.output) if of == "probability" else None
    if link == "sigmoid" and foil is not None:
        raise InvalidInput(
            "A foil needs exclusive classes, but problem_type is multi_label_classification. "
            "Pass of='logit', or drop the foil."
        )
    per_text = len(logits) == recording.batch  # several codebooks have a vector of logits each
    if logits.dim() == 2 and per_text:
        return _of_class(recording, logits, label, word, foil, position, of, link)
    if logits.dim() == 3 and per_text:
        return _of_token(recording, logits, label, word, foil, position, of, link)
    raise InvalidInput(
        f"Logits of shape {tuple(logits.shape)} for {recording.batch} texts belong neither to "
        "whole texts nor to tokens. Use a model with a head for words or classes."
    )


def _of_class(
    recording: Recording,
    logits: Tensor,
    label: Named,
    word: Named,
    foil: Named,
    position: Place,
    of: str,
    link: Link | None,
) -> Explained:
    if word is not None or position is not None:
        raise InvalidInput(
            "This model predicts a class of the whole text. Pass `label` instead of `word` "
            "or `position`."
        )
    outputs = _ids(recording, label, logits, label_id)
    foils = None if foil is None else _ids(recording, foil, logits, label_id)
    _require_different(outputs, foils)
    names = [label_name(recording, int(i)) for i in outputs]
    if foils is not None:
        names = [
            f"{name} vs {label_name(recording, int(i))}"
            for name, i in zip(names, foils, strict=True)
        ]
    return Explained(outputs, foils, None, of, tuple(names), link)


def _of_token(
    recording: Recording,
    logits: Tensor,
    label: Named,
    word: Named,
    foil: Named,
    position: Place,
    of: str,
    link: Link | None,
) -> Explained:
    places = _positions(recording, logits, position)
    at_place = recording.token_logits(logits, places)
    tagged = predicts_classes(recording, logits)
    if label is not None and not tagged:
        raise InvalidInput(
            "This model predicts words, not classes. Pass `word` (and `foil`) instead of `label`."
        )
    if word is not None and tagged:
        raise InvalidInput(
            "This model predicts a class for each token. Pass `label` instead of `word`."
        )
    if word is None and not tagged and recording.produced is not None:
        places_of_texts = zip(recording.produced, places.tolist(), strict=True)
        word = [text.ids[place] for text, place in places_of_texts]
    find, name = (label_id, label_name) if tagged else (_predicted_word_id, word_name)
    outputs = _ids(recording, label if tagged else word, at_place, find)
    foils = None if foil is None else _ids(recording, foil, at_place, find)
    _require_different(outputs, foils)
    names = []
    for text in range(recording.batch):
        against = "" if foils is None else f" vs {name(recording, int(foils[text]))}"
        names.append(f"{name(recording, int(outputs[text]))}{against} at {int(places[text])}")
    return Explained(outputs, foils, places, of, tuple(names), link)


def _require_different(outputs: Tensor, foils: Tensor | None) -> None:
    if foils is not None and bool((outputs == foils).any()):
        raise InvalidInput(
            "The foil is the same as the explained output, so their difference is zero. Pass a "
            "different foil."
        )


def _positions(recording: Recording, logits: Tensor, position: Any) -> Int[Tensor, " batch"]:
    stack = recording.structure.calls[-1][0]
    lengths = recording.lengths[stack.name]
    shift = int(logits.shape[1]) - recording.tokens_of(stack)
    if shift and recording.logits_at is None:
        raise InvalidInput(
            f"The logits have {int(logits.shape[1])} positions, but the last layer has "
            f"{int(logits.shape[1]) - shift} tokens. Use a model with one logit per token."
        )
    if position is not None:
        by_text = whole_numbers(_per_row(position, recording.batch), "positions") or []
        try:
            places = [
                resolve_positions([p], length)[0]
                for p, length in zip(by_text, lengths, strict=True)
            ]
        except IndexError as error:
            raise InvalidInput(f"position: {error}") from error
    elif recording.produced is not None:
        places = _only_produced(recording, lengths)
    elif stack.layers[0].sites[0].causal:
        places = [length - 1 for length in lengths]
    elif predicts_classes(recording, logits):
        raise InvalidInput(
            "This model predicts a class for each token. Pass the token's index as `position`."
        )
    else:
        places = [_mask_position(recording, text, length) for text, length in enumerate(lengths)]
    return torch.tensor(places, device=logits.device)


def _only_produced(recording: Recording, lengths: Sequence[int]) -> list[int]:
    """Return, for each text, the position that produced its only generated token. Raise an error if
    there are several.
    """
    by_text = recording.targets or [range(length) for length in lengths]
    if any(len(places) > 1 for places in by_text):
        raise InvalidInput(
            f"The model produced {len(by_text[0])} tokens, but only one can be explained. Pass the "
            f"position that produced it ({by_text[0][0]} to {by_text[0][-1]}) as `position`."
        )
    return [places[0] for places in by_text]


def _mask_position(recording: Recording, text: int, length: int) -> int:
    mask = special_id(recording, "mask")
    if mask is None:
        raise InvalidInput(
            "The mask token is unknown without a tokenizer. Pass its index as `position`."
        )
    stack = recording.structure.calls[-1][0]
    site = next(
        name
        for name, place in recording.structure.sites.items()
        if place.stack is stack and place.kind is AttentionKind.SELF
    )
    ids = token_input(recording, site)[1][text, :length]
    places = (ids == mask).nonzero()[:, 0].tolist()
    if len(places) != 1:
        raise InvalidInput(
            f"The text has {len(places)} mask tokens, not one. Pass the index of the token to "
            "explain as `position`."
        )
    return int(places[0])


def _per_row(value: Any, batch: int) -> list[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        if len(value) != batch:
            raise InvalidInput(
                f"{len(value)} values do not match {batch} texts. Pass one value per text."
            )
        return list(value)
    return [value] * batch


def _ids(
    recording: Recording, names_or_ids: Any, logits: Float[Tensor, "batch outputs"], find: Any
) -> Int[Tensor, " batch"]:
    if bool(logits.isnan().any()):
        raise NonFiniteActivations("The model's logits are NaN. Check the weights of its head.")
    predicted, outputs = logits.argmax(-1), int(logits.shape[-1])
    ids = [
        int(predicted[text]) if name is None else find(recording, _name_or_number(name), outputs)
        for text, name in enumerate(_per_row(names_or_ids, recording.batch))
    ]
    return torch.tensor(ids, device=logits.device)


def _name_or_number(value: Any) -> str | int:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidInput(f"{value!r} is not a word or a class. Pass a name or a number.")
    return int(value)


def _predicted_word_id(recording: Recording, word: str | int, outputs: int) -> int:
    return word_id(recording.tokenizer, word, outputs)


def predict_top(
    recording: Recording, top: int = 5, position: int | None = None
) -> list[tuple[str, float]]:
    """Return the most likely words or classes and their probabilities, for a recording of one
    text.
    """
    top = whole_number(top, "top")
    if top < 1:
        raise InvalidInput(f"top={top} is out of range. Pass at least 1.")
    if recording.batch > 1:
        raise InvalidInput(f"predictions() takes one text, got {recording.batch}. Pass one text.")
    logits = logits_of(recording.output)
    where = select_explained(recording, position=position, of="logit").positions
    position_logits = logits[0] if where is None else logits[0, int(where[0])]
    link = find_link(recording.model, recording.output)
    best = to_probabilities(position_logits.float(), link).topk(min(top, position_logits.shape[-1]))
    places = best.indices.tolist()
    if predicts_classes(recording, logits):
        names = [label_name(recording, place) for place in places]
    elif recording.tokenizer is None:
        names = [str(place) for place in places]
    else:
        words = token_names(recording.tokenizer, places)
        names = [word.lstrip("Ġ▁") for word in words]
    return list(zip(names, best.values.tolist(), strict=True))
