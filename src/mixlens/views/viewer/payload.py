"""Build the payload of the viewer: a JSON object with maps, a comparison, an answer or a ranking.

docs/viewer.md describes the object. The functions of this module return payloads that work in every
host of the viewer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import mixlens
from mixlens.answers.answer_of_maps import answer_of_maps
from mixlens.errors import InvalidInput
from mixlens.maps.one_row import roll_out_absolute
from mixlens.maps.provenance import plain
from mixlens.maps.rollout import collapse_of
from mixlens.maps.tables import well_formed
from mixlens.measures import list_measures
from mixlens.text.tokens import Segment, TokenRow
from mixlens.views.viewer import packing
from mixlens.views.viewer.answer_block import answer_block, table_of
from mixlens.views.viewer.packing import Room
from mixlens.views.viewer.text import text_of

if TYPE_CHECKING:
    from mixlens.answers.answer import Answer
    from mixlens.answers.method_scores import MethodScores
    from mixlens.maps.mixing_maps import MixingMaps

FORMAT = {"format": "mixlens", "version": 1}

_MASKS = ("[MASK]", "<mask>")
_ANSWER_MAPS = 1_800_000  # characters of the tokens' scores in the page of an answer
_ANSWER_ROOM = 1_200_000  # characters of the answer in a page of maps
_ROLLOUT_WORK = 2e11  # most multiplications of a page: some seconds


def payload_of(
    maps: MixingMaps | Sequence[MixingMaps],
    *,
    target: int | None = None,
    title: str | None = None,
    image: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    room: int | None = None,
) -> dict[str, Any]:
    """Return maps of one or several measures, usually of the same text, as a payload.

    `target` is the position that is shown first. By default, it is the mask token, or else the last
    token that is not special. Images and audio of a lens are included. For other maps, pass `image`
    as {"src": data URI, "rows": …, "columns": …, "first": position of the first patch}, or pass
    `seconds`, the duration of one source. The payload includes as much as fits into `room`
    characters (default: 5 MB). See docs/viewer.md.
    """
    all_maps = [maps] if not isinstance(maps, Sequence) else list(maps)
    if not all_maps:
        raise InvalidInput("The list of maps is empty. Pass at least one.")
    for each in all_maps:
        if not hasattr(each, "target_row"):
            raise InvalidInput(
                f"{each!r:.80} is not a MixingMaps object. Pass maps from `Lens.measure`."
            )
    token_rows: list[TokenRow] = []
    entries = _entries(all_maps, token_rows, packing.ALL_BYTES if room is None else room)
    texts = [text_of(tokens) for tokens in token_rows]
    sources = texts[entries[0]["sources"]]
    picture = _picture(token_rows)
    if seconds is not None:
        sources["seconds"] = seconds
        sources["shown"] = [f"{i * seconds:.2f} s" for i in range(len(sources["shown"]))]
    if image is not None:
        _name_patches(sources["shown"], image)
    answer = answer_of_maps(all_maps)
    generated = {} if answer is None else {"answer": answer_block(answer, _ANSWER_ROOM)}
    view = {"view": "answer"} if generated and target is None else {}
    return {
        **FORMAT,
        "mixlens": mixlens.__version__,
        "title": title or _title(all_maps[0]),
        "texts": texts,
        "maps": entries,
        "image": picture if image is None else {"text": entries[0]["sources"], **image},
        "images": _pictures(token_rows),
        "start": {"target": _first_target(all_maps[0]) if target is None else target, **view},
        **generated,
    }


def comparison_payload(
    score_rows: Mapping[str, np.ndarray],
    sources: TokenRow,
    target_token: str,
    *,
    own_source: int | None,
    aggregate: str,
    by_layer: Mapping[str, np.ndarray] | None = None,
    provenance: Mapping[str, Mapping[str, Any]] | None = None,
    left_out: Mapping[str, str] | None = None,
    warnings: Mapping[str, str] | None = None,
    cue: int | None = None,
) -> dict[str, Any]:
    """Return the payload of a comparison: the scores of every measure for one target.

    `by_layer` adds the scores of each layer [layer, source]. `own_source` is the position of the
    target among the sources, or None if the target is not a source. The page sorts measures by the
    rank of the source `cue`.
    """
    has_own_text = own_source is None
    texts = [text_of(sources)] + ([text_of(TokenRow((target_token,)))] if has_own_text else [])
    entries = []
    for name, values in score_rows.items():
        layers = None if by_layer is None else by_layer.get(name)
        entries.append(
            {
                **_about(name, (provenance or {}).get(name, {"measure": name, "steps": []})),
                "targets": int(has_own_text),
                "sources": 0,
                "target_positions": [own_source or 0],
                "layers": [] if layers is None else list(range(len(layers))),
                "signed": bool((values < 0).any()),
                "reaches_input": False,
                "own_share": _holds_residual(name),
                "reading": "all",
                "scores": None if layers is None else packing.whole(layers[:, None]),
                "joined": {
                    "how": aggregate,
                    "residual": 0,
                    "own_share": _holds_residual(name),
                    "warnings": [(warnings or {}).get(name)],
                    "scores": packing.whole(values[None, None]),
                },
            }
        )
    return {
        **FORMAT,
        "mixlens": mixlens.__version__,
        "title": f"Sources of {target_token}",
        "texts": texts,
        "maps": entries,
        "image": _picture([sources]),
        "images": _pictures([sources]),
        "left_out": dict(left_out or {}),
        "start": {"target": own_source or 0, "view": "compare", "cue": cue},
    }


def answer_payload(answer: Answer) -> dict[str, Any]:
    """Return the payload of an answer with its documents.

    The other views of the page show the tokens of the answer.
    """
    room = _ANSWER_MAPS // len(answer.methods)
    layer_methods = [
        method_scores for method_scores in answer.methods.values() if not method_scores.removes
    ]
    return {
        **FORMAT,
        "mixlens": mixlens.__version__,
        "title": _short_title(answer.text),
        "texts": [text_of(_with_parts(answer)), text_of(answer.target_row)],
        "maps": [_answer_entry(answer, scores, room) for scores in layer_methods],
        "image": _picture([answer.source_row]),
        "images": _pictures([answer.source_row]),
        "start": {"target": 0, "view": "answer"},
        "answer": answer_block(answer),
    }


def ranking_payload(ranking: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a ranking. `ranking` is the result of `Ranking.to_dict`."""
    return {
        **FORMAT,
        "mixlens": mixlens.__version__,
        "title": "Which measure to trust",
        "texts": [],
        "maps": [],
        "ranking": dict(ranking),
        "start": {"view": "ranking"},
    }


def _with_parts(answer: Answer) -> TokenRow:
    """Return the source tokens, divided into segments.

    Documents are segments with their own names, and other parts of the prompt are named by their
    kinds.
    """
    documents = list(answer.documents)
    names = [
        documents[owner] if owner >= 0 else kind
        for owner, kind in zip(answer.owners["documents"], answer.kinds, strict=True)
    ]
    starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    stops = [*starts[1:], len(names)]
    segments = (
        Segment(names[start], start, stop) for start, stop in zip(starts, stops, strict=True)
    )
    return replace(answer.source_row, segments=tuple(segments))


def _answer_entry(answer: Answer, scores: MethodScores, room: int) -> dict[str, Any]:
    """Return the token scores of an answer in the form of a payload's `maps` entry."""
    spec = list_measures().get(scores.name)
    table = table_of(scores.values.astype(np.float64), room)
    return {
        "measure": scores.name,
        "summary": "" if spec is None else spec.summary,
        "citation": "" if spec is None else spec.citation,
        "provenance": {**answer.provenance, "measure": scores.name, "steps": []},
        "targets": 1,
        "sources": 0,
        "target_positions": None,
        "layers": [],
        "signed": bool((scores.values < 0).any()),
        "reaches_input": False,
        "own_share": False,
        "reading": "all",
        "scores": None,
        "joined": {
            "how": scores.reading,
            "residual": 0,
            "own_share": False,
            "warnings": [None],
            "scores": table["shares"],
            "totals": table["totals"],
        },
        "notes": [],
    }


# ------------------------------------------------------------------------------------- the entries


def _entries(
    all_maps: Sequence[MixingMaps], texts: list[TokenRow], room: int
) -> list[dict[str, Any]]:
    """Return one payload entry for each measure.

    The per-layer and per-head maps of a measure share an entry.
    """
    merged: dict[str, list[MixingMaps | None]] = {}
    for maps in all_maps:
        key = repr({k: v for k, v in maps.provenance.items() if k != "versions"})
        key += repr((maps.layers, maps.target_positions))
        pair = merged.setdefault(key, [None, None])
        pair[int(maps.per_head)] = maps
    pairs = [(whole, heads) for whole, heads in merged.values()]
    budget = Room(pairs, room)
    return [_entry(layers, heads, texts, budget) for layers, heads in pairs]


def _entry(
    layers: MixingMaps | None, heads: MixingMaps | None, texts: list[TokenRow], budget: Room
) -> dict[str, Any]:
    notes = []
    if layers is None:
        assert heads is not None
        layers = heads.heads("mean")
        notes.append("A layer is the mean of its heads.")
    packed_heads = None if heads is None else budget.packed_heads(heads.scores)
    if heads is not None and packed_heads is None:
        notes.append(
            "Single heads are left out, because with them the page would be larger than "
            f"{budget.megabytes} MB. Measure fewer layers or targets to see them."
        )
    elif packed_heads is not None and "kept" in packed_heads:
        notes.append(
            f"Single heads are reduced to the {packed_heads['kept']} largest entries of each "
            "row and column."
        )
    aggregated, reason = _aggregate_layers(layers)
    notes += [reason] if reason else []
    if aggregated is not None and len(aggregated.layers) > 1 and not budget.rollouts:
        aggregated = aggregated.last()
        notes.append(
            "Only the rollout to the last layer is included, because with the others the "
            f"page would be larger than {budget.megabytes} MB."
        )
    positions = list(layers.target_positions)
    every = positions == list(range(len(layers.target_row)))
    return {
        **_about(str(layers.provenance.get("measure")), layers.provenance),
        "targets": _index(layers.target_row, texts),
        "sources": _index(layers.source_row, texts),
        "target_positions": None if every else positions,
        "layers": list(layers.layers),
        "signed": layers.facts.signed,
        "reaches_input": layers.facts.reaches_input or layers.facts.joined_by is not None,
        "own_share": layers.facts.residual_included,
        "reading": _first_depth(layers, aggregated),
        "warnings": _warnings(layers),
        "scores": budget.pack(layers.scores),
        "totals": packing.totals(layers.scores),
        "heads": packed_heads,
        "joined": None
        if aggregated is None
        else {
            "how": aggregated.provenance["steps"][-1],
            "residual": float(layers.rollout_residual or 0),
            "normalise": layers.rollout_normalised,
            "own_share": aggregated.facts.residual_included,
            "warnings": _warnings(aggregated),
            "scores": budget.pack(aggregated.scores),
            "totals": packing.totals(aggregated.scores),
        },
        "notes": notes,
    }


def _about(name: str, provenance: Mapping[str, Any]) -> dict[str, Any]:
    spec = list_measures().get(name)
    return {
        "measure": name,
        "summary": spec.summary if spec is not None else provenance.get("summary", ""),
        "citation": spec.citation if spec is not None else provenance.get("citation", ""),
        "explains_output": spec is not None and spec.explains_output,
        "provenance": plain(provenance),
    }


def _holds_residual(measure: str) -> bool:
    """Return whether the maps of this measure include the residual on the diagonal."""
    spec = list_measures().get(measure)
    return spec is not None and spec.facts.residual_included


def _first_depth(maps: MixingMaps, aggregated: MixingMaps | None) -> str | int:
    """Return the layer or aggregation that the page shows first."""
    how = maps.reading.how
    if how == "sum" and aggregated is not None:
        return "all"
    return "mean" if how == "mean" else 0 if how == "first" else len(maps.layers) - 1


def _warnings(maps: MixingMaps) -> list[str | None]:
    """Return a warning for each layer whose rollout has collapsed, and None for the others."""
    collapses = [collapse_of(maps, place) for place in range(len(maps.layers))]
    return [None if collapse is None else str(collapse) for collapse in collapses]


def _aggregate_layers(maps: MixingMaps) -> tuple[MixingMaps | None, str]:
    """Return the scores aggregated up to each layer, or the reason why they are not available.

    The scores are aggregated by rollout, or summed if the measure sums its layers.
    """
    if maps.reading.how == "sum" and len(maps.layers) > 1:
        summed = maps.reading.of(maps.scores)[None]
        return maps.derived(summed, "sum()", layers=maps.layers[-1:]), ""
    if len(maps.layers) * len(maps.source_row) ** 3 > _ROLLOUT_WORK:
        return None, "The text is too long for a rollout inside the page."
    try:
        return roll_out_absolute(maps), ""
    except InvalidInput:
        return None, ""  # some targets only, two stacks, or layers that are already aggregated


def _picture(texts: Sequence[TokenRow]) -> dict[str, Any] | None:
    """Return the only image of the texts, with the index of the text to which its patches belong.

    Return None if there are several images, or if the patches do not form a single grid.
    """
    pictures = [(i, each) for i, tokens in enumerate(texts) for each in tokens.pictures]
    if len({id(each) for _, each in pictures}) != 1 or not pictures[0][1].is_plain:
        return None
    text, picture = pictures[0]
    first, row_count, columns, *_ = picture.grids[0]
    return {"text": text, "src": picture.src, "rows": row_count, "columns": columns, "first": first}


def _pictures(texts: Sequence[TokenRow]) -> list[dict[str, Any]]:
    """Return all images of the texts, with the grids of patches of each image."""
    return [
        {
            "text": text,
            "name": picture.name,
            "src": picture.src,
            "grids": [grid._asdict() for grid in picture.grids],
        }
        for text, tokens in enumerate(texts)
        for picture in tokens.pictures
    ]


def _name_patches(token_texts: list[str], image: Mapping[str, Any]) -> None:
    rows, columns, first = image["rows"], image["columns"], image["first"]
    if first + rows * columns > len(token_texts):
        raise InvalidInput(
            f"{rows} × {columns} patches from position {first} exceed the {len(token_texts)} "
            "sources. Check `image`."
        )
    for patch in range(rows * columns):
        token_texts[first + patch] = f"row {patch // columns}, column {patch % columns}"


def _index(tokens: TokenRow, texts: list[TokenRow]) -> int:
    if tokens not in texts:
        texts.append(tokens)
    return texts.index(tokens)


def _title(maps: MixingMaps) -> str:
    return _short_title(maps.target_row.text or " ".join(maps.tokens))


def _short_title(text: str) -> str:
    title = well_formed(" ".join(text.split()))
    return title if len(title) <= 80 else title[:79] + "…"


def _first_target(maps: MixingMaps) -> int:
    """Return the target that is shown first.

    This is the mask token if there is one. Otherwise, it is the last word for a bidirectional
    model, the first token for an image model (it usually represents the whole image), and the last
    token for all other models.
    """
    positions, target_row = maps.target_positions, maps.target_row
    grid = target_row.pictures[0].grids[0] if target_row.pictures else None
    if grid is not None and 0 < grid.first == len(target_row) - grid.rows * grid.columns:
        return positions[0]
    masks = [at for at in positions if target_row.labels[at] in _MASKS]
    special = target_row.special or (False,) * len(target_row)
    tokens = [at for at in positions if not special[at]]
    words = [at for at in tokens if any(letter.isalnum() for letter in target_row.labels[at])]
    last = tokens if _is_causal(maps) else words or tokens
    return (masks or last[-1:] or list(positions[-1:]) or [0])[0]


def _is_causal(maps: MixingMaps) -> bool:
    """Return whether the first token does not attend to later tokens."""
    first = maps.scores[..., :1, 1:]
    return maps.facts.same_tokens and maps.target_positions[:1] == (0,) and not first.any()
