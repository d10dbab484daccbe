"""The model's most likely words at the mask or after the last token, or its most likely classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mixlens.errors import InvalidInput
from mixlens.replay.explained_output import explained, logits_of
from mixlens.replay.probabilities import find_link, to_probabilities
from mixlens.text.encoding import token_names
from mixlens.text.vocabulary import label_name, predicts_classes

if TYPE_CHECKING:
    from mixlens.recording.recording import Recording


def predicted(
    recording: Recording, top: int = 5, position: int | None = None
) -> list[tuple[str, float]]:
    """Return the most likely words or classes and their probabilities, for a recording of one
    text.
    """
    if top < 1:
        raise InvalidInput(f"top={top} is out of range. Pass at least 1.")
    if recording.batch > 1:
        raise InvalidInput(f"predictions() takes one text, got {recording.batch}. Pass one text.")
    logits = logits_of(recording.output)
    where = explained(recording, position=position, of="logit").positions
    row = logits[0] if where is None else logits[0, int(where[0])]
    link = find_link(recording.model, recording.output)
    best = to_probabilities(row.float(), link).topk(min(top, row.shape[-1]))
    places = best.indices.tolist()
    if predicts_classes(recording, logits):
        names = [label_name(recording, place) for place in places]
    elif recording.tokenizer is None:
        names = [str(place) for place in places]
    else:
        words = token_names(recording.tokenizer, places)
        names = [word.lstrip("Ġ▁") for word in words]
    return list(zip(names, best.values.tolist(), strict=True))
