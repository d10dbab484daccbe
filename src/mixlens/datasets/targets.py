"""Read agreement examples with the fields `text`, `target`, `foil` and optionally `cue`.

* `text` contains [MASK] (or <mask>) in place of the target, or the target itself. If the target
  occurs more than once, `position` selects one: the index of its first character, from 0, or a
  span.
* `cue` is a word of the text, or a character span `first:after-last` (JSON: [first, after last]).
  Several cues are a JSON list, or are separated by semicolons in a table. Spans count the
  characters of `text` as written.
* `label` (such as singular or plural) and `group` are optional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mixlens.datasets.examples import Agreement, Span
from mixlens.datasets.places import check_word_span, whole_words
from mixlens.errors import InvalidInput

MASKS = ("[MASK]", "<mask>")
_SPAN = re.compile(r"(\d+):(\d+)")


def recognises(fields: Mapping[str, Any]) -> bool:
    """Return whether a record has a text, a target and a foil."""
    return {"text", "target", "foil"} <= fields.keys()


def agreement(name: str, fields: Mapping[str, Any]) -> Agreement:
    """Return the example of one record."""
    text, target, foil = (_word(fields, key) for key in ("text", "target", "foil"))
    if target == foil:
        raise InvalidInput(f"target and foil are the same word {target!r}")
    target_span = _target_place(text, target, fields.get("position"))
    cues = [_cue(text, cue, target_span) for cue in _list_cues(fields.get("cue"))]
    longer = len(target) - (target_span[1] - target_span[0])  # span of the mask
    return Agreement(
        name=name,
        text=text[: target_span[0]] + target + text[target_span[1] :],
        group=_optional(fields, "group"),
        place=(target_span[0], target_span[0] + len(target)),
        foil=foil,
        cues=tuple(
            (first + longer, last + longer) if first >= target_span[1] else (first, last)
            for first, last in cues
        ),
        label=_optional(fields, "label"),
    )


def _target_place(text: str, target: str, position: Any) -> Span:
    """Return the span of the mask, or of the target."""
    masks = [span for mask in MASKS for span in _all(text, mask)]
    if len(masks) > 1:
        raise InvalidInput(f"the text has {len(masks)} masks; write one per example")
    if position in (None, ""):
        return masks[0] if masks else _only_place(text, target)
    span = _position(position, target)
    if masks:
        if span[0] != masks[0][0]:
            raise InvalidInput(f"position {span[0]} is not the position of the mask, {masks[0][0]}")
        return masks[0]
    if text[slice(*span)] != target:
        raise InvalidInput(
            f"position {span[0]} holds {text[slice(*span)]!r}, not the target {target!r}"
        )
    return check_word_span(text, span, "target")


def _only_place(text: str, target: str) -> Span:
    """Return the span of a target that occurs exactly once in the text. Otherwise, raise an
    error.
    """
    places = whole_words(text, target)
    if len(places) != 1:
        times = (
            f"occurs {len(places)} times in the text: put [MASK] in its place, or add its position"
            if places
            else "is not in the text"
        )
        raise InvalidInput(f"the target {target!r} {times}")
    return places[0]


def _position(position: Any, target: str) -> Span:
    span = _span(position)
    if span is None and str(position).strip().isdecimal():
        span = (int(position), int(position) + len(target))
    if span is None:
        raise InvalidInput(f"position {position!r} is neither a number nor a span")
    return span


def _cue(text: str, cue: Any, target: Span) -> Span:
    """Return the span of the cue."""
    span = _span(cue)
    if span is not None:
        span = check_word_span(text, span, "cue")
    elif isinstance(cue, str) and cue.strip():
        places = [place for place in whole_words(text, cue.strip()) if place != target]
        if len(places) != 1:
            raise InvalidInput(
                f"the cue {cue.strip()!r} occurs {len(places)} times in the text; write its "
                "span as first:after-last"
            )
        span = places[0]
    else:
        raise InvalidInput(f"the cue {cue!r} is neither a word nor a span")
    if span[0] < target[1] and target[0] < span[1]:
        raise InvalidInput(f"the cue {text[slice(*span)]!r} overlaps the target")
    return span


def _list_cues(cues: Any) -> list[Any]:
    """Return the cues as a list, even if the record contains a single cue."""
    if cues in (None, "", []):
        return []
    if isinstance(cues, str):
        return [cue for cue in cues.split(";") if cue.strip()]
    if not isinstance(cues, list):
        raise InvalidInput(f"the cue {cues!r} is not a word, a span or a list of them")
    return [cues] if _span(cues) else cues


def _span(value: Any) -> Span | None:
    """Return the span if a value is one (first:after-last, or a list of two numbers), else None."""
    if isinstance(value, str) and (match := _SPAN.fullmatch(value.strip())):
        return int(match[1]), int(match[2])
    if (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(number, int) for number in value)
    ):
        return value[0], value[1]
    return None


def _all(text: str, part: str) -> list[Span]:
    return [match.span() for match in re.finditer(re.escape(part), text)]


def _word(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInput(f"{key} is missing")
    return value if key == "text" else value.strip()


def _optional(fields: Mapping[str, Any], key: str) -> str | None:
    value = fields.get(key)
    return None if value in (None, "") else str(value)
