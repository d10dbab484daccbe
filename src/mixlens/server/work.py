"""Measure one text with every requested measure, as a payload for the viewer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch.nn.modules.module import register_module_forward_pre_hook

from mixlens.errors import InputTooLong, InvalidInput, MixlensError, list_reasons
from mixlens.measures import list_measures
from mixlens.measuring.measure import measure
from mixlens.server.api import Limits
from mixlens.text.encoding import tokenise_checked
from mixlens.views.viewer.packing import LIVE_BYTES
from mixlens.views.viewer.payload import payload_of

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.maps.mixing_maps import MixingMaps
    from mixlens.server.jobs import WebJob

FIRST_MEASURES = ("value_zeroing", "attention")
_FIRST_TEXT = "The keys to the old cabinet near the door {} on the kitchen table."
_FIRST_TARGET = "Les clefs de la vieille armoire sont sur la table."


def count_tokens(lens: Lens, text: str) -> int:
    """Return the number of tokens of a text, including special tokens."""
    return len(tokenise_checked(lens.tokenizer, text)["input_ids"])


def takes_pairs(lens: Lens) -> bool:
    """Return whether the model needs a source and a target text."""
    return bool(getattr(lens.model.config, "is_encoder_decoder", False))


def first_request(name: str, lens: Lens, measures: Collection[str]) -> dict[str, Any]:
    """Return the request that the page initially shows, with up to two measures."""
    usual = [measure for measure in FIRST_MEASURES if measure in measures] or list(measures)
    mask = getattr(lens.tokenizer, "mask_token", None)
    return {
        "model": name,
        "text": _FIRST_TEXT.format(mask or "are"),
        "target_text": _FIRST_TARGET if takes_pairs(lens) else None,
        "measures": usual[:2],
        "heads": False,
    }


@contextmanager
def stop_in_modules(job: WebJob) -> Iterator[None]:
    """Stop a job that was cancelled or runs too long, before the next module of the model runs.

    This works even inside a layer.
    """
    hook = register_module_forward_pre_hook(lambda module, _args: job.check())
    try:
        yield
    finally:
        hook.remove()


class Measuring:
    """Run jobs on the models that were loaded at the start."""

    def __init__(self, lenses: Mapping[str, Lens], limits: Limits) -> None:
        self._lenses, self._limits = lenses, limits

    def __call__(self, job: WebJob) -> bytes:
        """Run a job and return the payload as JSON."""
        lens, names = self._lenses[job.request["model"]], list(job.request["measures"])
        job.report(0.0, "reading the text")
        inputs = self._read_text(lens, job.request)
        maps: list[MixingMaps] = []
        left_out = {}
        with stop_in_modules(job):
            job.report(0.05, "running the model")
            recording = lens.record(inputs)
            for number, name in enumerate(names):
                job.report(0.1 + 0.8 * number / len(names), f"measuring {name}")
                try:
                    maps += self._measure(recording, name, job.request["heads"])
                except MixlensError as error:
                    left_out[name] = str(error)
        if not maps:
            raise InvalidInput(list_reasons(left_out))
        job.report(0.9, "packing the result")
        room = LIVE_BYTES if job.request["heads"] else None
        payload = {**payload_of(maps, room=room), "left_out": left_out}
        return json.dumps(payload, ensure_ascii=False, allow_nan=False).encode()

    def _read_text(self, lens: Lens, request: Mapping[str, Any]) -> str | tuple[str, str]:
        """Return the text or the pair of texts. Raise an error if a text is too long."""
        texts = [text for text in (request["text"], request["target_text"]) if text is not None]
        for text in texts:
            count = count_tokens(lens, text)
            if count > self._limits.tokens:
                raise InputTooLong(
                    f"{count} tokens are too many for this server. Shorten the text to"
                    f" {self._limits.tokens} tokens."
                )
        return texts[0] if len(texts) == 1 else (texts[0], texts[1])

    def _measure(self, recording: Any, name: str, heads: bool) -> list[MixingMaps]:
        both = (False, True) if heads and list_measures()[name].per_head else (False,)
        every = [measure(name, recording, per_head=each) for each in both]
        return [maps for maps in every if not isinstance(maps, list)]
