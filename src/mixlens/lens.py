"""Lens: a model and its tokenizer, the front door."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, overload

import torch

from mixlens.errors import InvalidInput, UnsupportedModel
from mixlens.loading import loaded, quiet_loading
from mixlens.precision import matmul_precision
from mixlens.recording.calls import Inputs, batch_size
from mixlens.recording.inputs import (
    Prepared,
    Text,
    is_padded_sound,
    is_pair,
    prepared,
    row_lengths,
    unpadded_row,
)
from mixlens.recording.model_structure import ModelStructure, model_structure
from mixlens.recording.recording import Recording, recorded
from mixlens.recording.stand_in import stand_in_inputs
from mixlens.recording.verification import Report, report
from mixlens.tokens import TokenRow

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

    from mixlens.comparison import Comparison
    from mixlens.maps import MixingMaps

BUNDLED = ("masked", "causal")


class Lens:
    """Records a transformers model and measures how its tokens mix.

    The model must be in eval mode; it is left exactly as it was. Without a tokenizer, inputs are
    dicts of tensors.
    """

    def __init__(
        self, model: nn.Module, tokenizer: Any = None, *, memory_budget: int | None = None
    ) -> None:
        if not hasattr(model, "config") or not callable(getattr(model, "forward", None)):
            raise InvalidInput(f"a transformers model is needed, not {type(model).__name__}")
        self.model, self.tokenizer, self.memory_budget = model, tokenizer, memory_budget

    @classmethod
    def from_pretrained(cls, name: str, *, tokenizer: Any = None, **options: Any) -> Lens:
        """Loads a model and its tokenizer by hub name or folder; `options` go to `from_pretrained`.

        The class is the one that the checkpoint names (masked LM, causal LM, classifier ...), else
        the bare model. Code from the checkpoint is run only with `trust_remote_code=True`.
        """
        model, found = loaded(name, tokenizer, options)
        return cls(model, found)

    @classmethod
    def bundled(cls, name: str = "masked", **options: Any) -> Lens:
        """A small model that ships with the package: "masked" (BERT) or "causal" (Llama)."""
        if name not in BUNDLED:
            raise InvalidInput(
                f"there is no bundled model {name!r}; choose one of: {', '.join(BUNDLED)}"
            )
        folder = resources.files("mixlens") / "bundled" / name
        options.setdefault("dtype", torch.float32)
        with quiet_loading():
            lens = cls.from_pretrained(os.fspath(folder), **options)  # type: ignore[call-overload]
        config: Any = lens.model.config
        config._name_or_path = (  # not where this machine happens to keep it
            f"mixlens/bundled/{name}"
        )
        return lens

    # ------------------------------------------------------------------------------------ recording

    def record(
        self, given: Text | Sequence[Text] | Mapping[str, Any], *, memory_budget: int | None = None
    ) -> Recording:
        """One verified forward pass of a text, a list of texts, or a dict of input tensors.

        `memory_budget` (bytes; default: a quarter of what is free) bounds what is kept beside the
        layers' inputs and outputs.
        """
        self._require_eval()
        ready = prepared(self.model, self.tokenizer, given)
        structure = self._structure(ready.tensors)
        return self._recorded(structure, ready, memory_budget)

    def verify(self, given: Text | Sequence[Text] | Mapping[str, Any] | None = None) -> Report:
        """Takes the model apart on this input and compares every part with what the model computes;
        see `Report`.
        """
        from mixlens.measures import names, refusal

        recording = self.record(self._default_input() if given is None else given)
        refusals = {}
        for name in names():
            reasons = [refusal(name, recording.structure, site) for site in recording.sites]
            refusals[name] = None if None in reasons else reasons[0]
        return report(recording, refusals)

    def _default_input(self) -> Any:
        takes_text = getattr(self.model, "main_input_name", "input_ids") == "input_ids"
        if self.tokenizer is None or not takes_text or hasattr(self.model.config, "vision_config"):
            return stand_in_inputs(self.model)
        translated = getattr(self.model.config, "is_encoder_decoder", False)
        return (_DEFAULT_TEXT, _DEFAULT_TARGET) if translated else _DEFAULT_TEXT

    def _require_eval(self) -> None:
        if any(module.training for module in self.model.modules()):
            raise UnsupportedModel(
                "the model is in training mode, where dropout makes every run different: call"
                " model.eval() first"
            )

    def _structure(self, tensors: Inputs) -> ModelStructure:
        return model_structure(self.model, tensors)

    def _recorded(
        self, structure: ModelStructure, ready: Prepared, memory_budget: int | None
    ) -> Recording:
        budget = self.memory_budget if memory_budget is None else memory_budget
        if budget is None:
            budget = free_memory(next(self.model.parameters()).device) // 4
        recording = recorded(
            self.model, structure, ready.tensors, lengths={}, tokens={}, memory_budget=budget
        )
        rows = _token_rows(recording, ready)
        recording.tokens, recording.tokenizer = rows, self.tokenizer
        recording.lengths = {name: [len(row) for row in found] for name, found in rows.items()}
        return recording

    # ------------------------------------------------------------------------------------- measures

    @overload
    def measure(self, name: str, given: Text, **chosen: Any) -> MixingMaps: ...

    @overload
    def measure(
        self, name: str, given: list[Text] | list[str] | list[tuple[str, str]], **chosen: Any
    ) -> list[MixingMaps]: ...

    @overload
    def measure(
        self, name: str, given: Mapping[str, Any], **chosen: Any
    ) -> MixingMaps | list[MixingMaps]: ...

    def measure(
        self,
        name: str,
        given: Text | Sequence[Text] | Mapping[str, Any],
        *,
        site: str | None = None,
        layers: Sequence[int] | None = None,
        targets: Sequence[int | str] | None = None,
        per_head: bool = False,
        precision: str | None = None,
        **options: Any,
    ) -> MixingMaps | list[MixingMaps]:
        """Scores of one measure: `MixingMaps` for one text (or a dict with one row), a list of them
        for several.

        `precision`: float32, tf32 or bf16 for the products of this call, the recording's included;
        by default torch's own setting.
        """
        with matmul_precision(precision):
            return self._measured(
                name,
                given,
                {"site": site, "layers": layers, "targets": targets, "per_head": per_head},
                options,
            )

    def _measured(
        self,
        name: str,
        given: Text | Sequence[Text] | Mapping[str, Any],
        chosen: dict[str, Any],
        options: dict[str, Any],
    ) -> MixingMaps | list[MixingMaps]:
        from mixlens.measures import measure

        chosen = {**chosen, **options}
        if isinstance(given, str) or is_pair(given):
            return measure(name, self.record(given), **chosen)
        if isinstance(given, Mapping):
            if not is_padded_sound(given):
                return measure(name, self.record(given), **chosen)
            rows = range(len(given["attention_mask"]))
            parts: list[tuple[list[int], Any]] = [([row], unpadded_row(given, row)) for row in rows]
        else:
            parts = _batches(given)
        found: dict[int, MixingMaps] = {}
        count = sum(len(rows) for rows, _ in parts)
        for members, part in parts:
            # An option may be a list with one entry for each text.
            own: dict[str, Any] = {
                key: (
                    [value[row] for row in members]
                    if key in options and isinstance(value, (list, tuple)) and len(value) == count
                    else value
                )
                for key, value in chosen.items()
            }
            maps = measure(name, self.record(part), **own)
            found.update(zip(members, maps if isinstance(maps, list) else [maps], strict=True))
        return [found[row] for row in range(len(found))]

    def compare(
        self,
        given: Text | Mapping[str, Any],
        target: int | str | None = None,
        *,
        site: str | None = None,
        aggregate: str | int = "mean",
        only: Sequence[str] | None = None,
        words: bool = False,
        explain: Mapping[str, Any] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Comparison:
        """Every measure that applies, side by side for one target, from one recording.

        Default target: the mask, else the last token.
        """
        from mixlens.comparison import comparison

        recording = self.record(given)
        if target is None:
            labels = recording.target_tokens(site, 0).labels
            mask = getattr(self.tokenizer, "mask_token", None)
            target = labels.index(mask) if labels.count(mask) == 1 else len(labels) - 1
        return comparison(
            recording,
            target,
            site=site,
            aggregate=aggregate,
            only=only,
            words=words,
            explain=explain,
            options=options,
        )

    def predictions(self, text: Text, *, top: int = 5) -> list[tuple[str, float]]:
        """The model's likeliest words at the [MASK], or after the last token, with their
        probabilities.
        """
        from mixlens.predictions import predicted_words

        return predicted_words(self.record(text), top)

    def identifiability(
        self, given: Text | Mapping[str, Any], *, site: str | None = None
    ) -> xr.Dataset | list[xr.Dataset]:
        """How far the attention weights of each head are determined by what they do; see
        `mixlens.identifiability`.
        """
        from mixlens.identifiability.attention import identifiability

        return identifiability(self.record(given), site=site)


# The longest text of a batch times its rows: about 16,000 tokens of English.
_BATCH_CHARACTERS = 65_536


def _batches(texts: Any) -> list[tuple[list[int], list[Text]]]:
    """Texts of like length together, with their places: what is recorded at once."""
    if isinstance(texts, (int, float, torch.Tensor)):
        raise InvalidInput(
            "a text, a list of texts or a dict of input tensors is needed, not"
            f" {type(texts).__name__}"
        )
    texts = list(texts)
    order = sorted(range(len(texts)), key=lambda i: len(str(texts[i])))
    parts, start = [], 0
    while start < len(order):
        stop = start + 1
        while (
            stop < len(order)
            and (stop + 1 - start) * len(str(texts[order[stop]])) <= _BATCH_CHARACTERS
        ):
            stop += 1
        parts.append((order[start:stop], [texts[i] for i in order[start:stop]]))
        start = stop
    return parts or [([], texts)]


_DEFAULT_TARGET = "Les clefs de la vieille armoire sont sur la table."
_DEFAULT_TEXT = (
    "The keys to the old cabinet near the door are on the kitchen table, and nobody has touched"
    " them since."
)


def free_memory(device: torch.device) -> int:
    """Bytes that can still be allocated."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):  # not on every system
        return 2**31


def _token_rows(recording: Recording, ready: Prepared) -> dict[str, list[TokenRow]]:
    """The tokens of every stack: of the text where they fit its length, else numbers (patches,
    frames).
    """
    found = {}
    for stack in recording.structure.stacks:
        width = int(recording._layers[stack.name][0]._call.hidden_in.shape[1])
        rows = None
        for prefix, candidates in (("decoder_", ready.decoder_rows), ("", ready.rows)):
            wide = ready.tensors.get(prefix + "input_ids")
            if candidates is not None and wide is not None and wide.shape[1] == width:
                if prefix == "" or stack.has_cross or len(recording.structure.stacks) == 1:
                    rows = list(candidates)
                    break
        if rows is None:
            lengths = row_lengths(ready.tensors)
            mask = ready.tensors.get("attention_mask")
            fits = lengths is not None and mask is not None and mask.shape[1] == width
            counts = (
                lengths if fits and lengths is not None else [width] * batch_size(ready.tensors)
            )
            rows = [TokenRow.numbered(count) for count in counts]
        found[stack.name] = rows
    return found
