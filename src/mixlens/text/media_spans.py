"""Find the tokens of each image and audio clip of a prompt, and the placeholder that they replace.

A processor replaces each placeholder in the text ("<image>") with many tokens. Outside the
placeholders, the processor returns the same tokens as the tokenizer. Comparing the two sequences
therefore shows which tokens belong to which placeholder. If there is no text, each run of image or
audio tokens counts as one image or clip.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple

Place = tuple[int, int]
"""The character span of a token: the first character, and the one after the last."""


class MediaSpan(NamedTuple):
    """Stores the tokens of one image or audio clip, including tokens that the processor added
    around them.
    """

    kind: str  # "image" or "audio"
    number: int  # from 1, among those of its kind
    first: int
    stop: int
    placeholder: Place | None = None  # its characters in the text

    @property
    def name(self) -> str:
        """Return the name in labels and segments, such as "image 1"."""
        return f"{self.kind} {self.number}"


class Region(NamedTuple):
    """Stores a range of tokens that replace one placeholder or several adjacent placeholders."""

    first: int
    stop: int
    placeholders: tuple[Place, ...]


def find_regions(
    plain: Sequence[int], places: Sequence[Place], ids: Sequence[int], media: frozenset[int]
) -> tuple[list[Place], list[Region]]:
    """Return the character span of each token in `ids`, and the regions that contain tokens of
    `media`.

    `plain` are the tokens of the text before placeholders are replaced, and `places` their
    character spans.
    """
    starts, short = _without_runs(ids, media)
    matched = _match_tokens(plain, short)
    offsets: list[Place] = [(0, 0)] * len(ids)
    regions: list[Region] = []
    before, after = 0, 0  # tokens of the text and of the processor that are done
    for place, plain_place in [*enumerate(matched), (len(short), len(plain))]:
        is_word = plain_place is not None and (place == len(short) or short[place] not in media)
        if not is_word:
            continue
        assert plain_place is not None
        gap = range(after, place)
        if len(gap):
            first, replaced = starts[gap[0]], list(places[before:plain_place])
            has_media = any(short[each] in media for each in gap)
            if has_media and not replaced and before:  # the placeholder is the token before
                first, replaced = starts[gap[0] - 1], [places[before - 1]]
            end = places[before - 1][1] if before else 0
            span = (replaced[0][0], replaced[-1][1]) if replaced else (end, end)
            offsets[first : starts[place]] = [span] * (starts[place] - first)
            if has_media:
                regions.append(Region(first, starts[place], tuple(replaced)))
        if place < len(short):
            offsets[starts[place]] = places[plain_place]
        before, after = plain_place + 1, place + 1
    return offsets, regions


def _without_runs(ids: Sequence[int], media: frozenset[int]) -> tuple[list[int], list[int]]:
    """Collapse each run of the same media token into one token.

    Return the start positions of the remaining tokens with the total length appended, and the
    remaining tokens.
    """
    starts, short = list[int](), list[int]()
    for place, token in enumerate(ids):
        if token not in media or place == 0 or ids[place - 1] != token:
            starts.append(place)
            short.append(token)
    return [*starts, len(ids)], short


def _match_tokens(plain: Sequence[int], short: Sequence[int]) -> list[int | None]:
    """Return, for each token of the processor, the index of the same token in the text, or None if
    the processor added the token.
    """
    same = next(
        (i for i, (a, b) in enumerate(zip(plain, short, strict=False)) if a != b),
        min(len(plain), len(short)),
    )
    matched: list[int | None] = [*range(same), *[None] * (len(short) - same)]
    matcher = SequenceMatcher(None, plain[same:], short[same:], autojunk=False)
    for plain_place, place, size in matcher.get_matching_blocks():
        for step in range(size):
            matched[same + place + step] = same + plain_place + step
    return matched


def runs_of(ids: Sequence[int], media: frozenset[int]) -> list[Region]:
    """Return the runs of media tokens in a prompt whose text is unknown."""
    regions, place = [], 0
    for token, run in groupby(ids):
        stop = place + len(list(run))
        if token in media:
            regions.append(Region(place, stop, ()))
        place = stop
    return regions


def split_regions(
    regions: Sequence[Region], ids: Sequence[int], token: int, kind: str, counts: Sequence[int]
) -> list[MediaSpan]:
    """Return the span of each image (or audio clip) of one kind.

    `counts` contains the number of tokens of each image, if known. These numbers are needed to
    separate images that have no token in between.
    """
    kind_regions = [region for region in regions if token in ids[region.first : region.stop]]
    if len(counts) == len(kind_regions) or not counts:
        return [
            MediaSpan(kind, number, *_whole(region))
            for number, region in enumerate(kind_regions, 1)
        ]
    spans: list[MediaSpan] = []
    remaining = list(counts)
    for region in kind_regions:
        inside = [i for i in range(region.first, region.stop) if ids[i] == token]
        ends: list[int] = []
        while remaining and sum(ends) + remaining[0] <= len(inside):
            ends.append(remaining.pop(0))
        if sum(ends) != len(inside):
            return [MediaSpan(kind, n, *_whole(each)) for n, each in enumerate(kind_regions, 1)]
        spans += _parts(region, inside, ends, kind, len(spans))
    return spans


def _whole(region: Region) -> tuple[int, int, Place | None]:
    places = region.placeholders
    return region.first, region.stop, (places[0][0], places[-1][1]) if places else None


def _parts(
    region: Region, inside: Sequence[int], counts: Sequence[int], kind: str, before: int
) -> list[MediaSpan]:
    """Split a region into one span for each image.

    Tokens that the processor added belong to the following image, or to the last one.
    """
    spans, first, tokens_before = [], region.first, 0
    each_has_one = len(region.placeholders) == len(counts)
    for index, count in enumerate(counts):
        tokens_before += count
        stop = region.stop if index == len(counts) - 1 else inside[tokens_before - 1] + 1
        place = region.placeholders[index] if each_has_one else _whole(region)[2]
        spans.append(MediaSpan(kind, before + index + 1, first, stop, place))
        first = stop
    return spans


_IMAGE = ("image_token_id", "image_token_index")
_VIDEO = ("video_token_id", "video_token_index")
_AUDIO = ("audio_token_id", "audio_token_index")


def image_token(config: Any) -> int | None:
    """Return the id of the token that stands for a patch of an image, or None."""
    return _first(config, _IMAGE)


def video_token(config: Any) -> int | None:
    """Return the id of the token that stands for a patch of a video, or None."""
    return _first(config, _VIDEO)


def audio_token(config: Any) -> int | None:
    """Return the id of the token that stands for a frame of audio, or None."""
    return _first(config, _AUDIO)


def media_tokens(config: Any) -> frozenset[int]:
    """Return the ids of all tokens that stand for images, videos or audio."""
    token_ids = (image_token(config), video_token(config), audio_token(config))
    return frozenset(token for token in token_ids if token is not None)


def _first(config: Any, names: tuple[str, ...]) -> int | None:
    values = (getattr(config, name, None) for name in names)
    return next((token for token in values if isinstance(token, int)), None)
