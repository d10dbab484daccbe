"""Run shortened prompts on cached keys and values of the tokens before the removed passage.

In a causal model, the states of the tokens before a removed passage do not change. mixlens
therefore re-runs only the tokens after the passage, on keys and values cached from one pass over
the whole prompt. This saves about half of the work if the passages have equal lengths.
`AnswerPasses` verifies the cache on the prompt itself: running the answer on cached keys and values
must give the same logits as a pass without a cache. mixlens runs every shortened prompt from its
first token if the logits differ by more than rounding error, if the model does not keep keys and
values for every token (state-space models), or if its rotary frequencies depend on the length.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from mixlens.answers.answered_prompt import AnsweredPrompt
from mixlens.kernels.differences import difference, rounding
from mixlens.measuring.answer_odds import read_answers
from mixlens.model.placement import entry_device, raise_if_out_of_memory
from mixlens.model.restore_model import restore_on_exit
from mixlens.model.rotary import depends_on_length
from mixlens.replay.explained_output import logits_of
from mixlens.text.input_checks import takes_decoder_ids

Item = TypeVar("Item")


class KeysAndValues:
    """The keys and values of a text in every layer, and the logits of its last tokens."""

    def __init__(self, model: nn.Module, ids: Sequence[int], last: int) -> None:
        from transformers import DynamicCache

        self.model, self.ids = model, list(ids)
        cache: Any = DynamicCache()
        self.logits = self._run(self.ids, cache, 0, last)
        self._layers: list[tuple[Tensor, Tensor]] = [
            (layer.keys, layer.values) for layer in cache.layers
        ]
        if not self._layers or any(
            keys is None or keys.dim() != 4 or keys.shape[2] != len(ids) for keys, _ in self._layers
        ):
            raise TypeError("the cache does not hold keys of every token")

    def first(self, count: int, copies: int = 1) -> Any:
        """Return a cache of the first `count` tokens, repeated for `copies` copies of the text."""
        from transformers import DynamicCache

        cache = DynamicCache()
        if count:
            for number, layer in enumerate(self._layers):
                keys, values = (part[:, :, :count].expand(copies, -1, -1, -1) for part in layer)
                cache.update(keys, values, number)
        return cache

    def read(self, ids: Sequence[int], last: int) -> Tensor:
        """Return the logits [position, vocabulary] of the last tokens of another text.

        Only the tokens after the prefix that both texts share run through the model.
        """
        pairs = zip(ids, self.ids, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        same = min(same, len(ids) - last)
        return self._run(ids[same:], self.first(same), same, last)

    @torch.no_grad()
    def _run(self, ids: Sequence[int], cache: Any, before: int, last: int) -> Tensor:
        return run_on_cache(self.model, torch.tensor([list(ids)]), cache, before, last)[0]


def run_on_cache(model: nn.Module, ids: Tensor, cache: Any, before: int, last: int) -> Tensor:
    """Return the logits [text, position, vocabulary] of the last tokens, using a cached prefix."""
    device = entry_device(model)
    ids = ids.to(device)
    attention_mask = torch.ones((len(ids), before + ids.shape[1]), dtype=torch.long, device=device)
    accepted = inspect.signature(model.forward).parameters
    options: dict[str, Any] = {"logits_to_keep": last} if "logits_to_keep" in accepted else {}
    options |= {"attention_mask": attention_mask} if "attention_mask" in accepted else {}
    with restore_on_exit(model):
        output = model(input_ids=ids, past_key_values=cache, use_cache=True, **options)
    return logits_of(output)[:, -last:]


def keys_and_values(model: nn.Module, ids: Sequence[int], last: int) -> KeysAndValues | None:
    """Return the keys and values of a text, or None if the model cannot continue from them."""
    if takes_decoder_ids(model) or depends_on_length(model):
        return None
    if "past_key_values" not in inspect.signature(model.forward).parameters:
        return None
    try:
        return KeysAndValues(model, ids, last)
    except Exception as failure:  # a model may do anything with a foreign cache
        raise_if_out_of_memory(failure)
        return None


class AnswerPasses:
    """Compute the logits of an answer after the whole prompt, and after shortened prompts."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        prompt: AnsweredPrompt,
        *,
        reuse: bool = True,
        batch_size: int | None = None,
    ) -> None:
        self.model, self.tokenizer, self.prompt = model, tokenizer, prompt
        self.batch_size = batch_size
        self.whole: Tensor = self._plain([prompt.ids], lambda logits: logits)[0]
        text, last = self._text(prompt.ids), len(prompt.answer_ids)
        cache = keys_and_values(model, text, last) if reuse else None
        self._cache = cache if cache is not None and self._is_right(cache) else None

    @property
    def reuses(self) -> bool:
        """Return whether shortened prompts reuse the keys and values of the whole prompt."""
        return self._cache is not None

    def without(
        self, removals: Sequence[Sequence[int]], read: Callable[[Tensor], Item]
    ) -> Iterator[Item]:
        """Yield `read(logits)` for each shortened prompt, in the order of `removals`.

        Each item of `removals` contains the positions of the prompt tokens to leave out. `logits`
        [token, vocabulary] are the logits of the answer.
        """
        prompts = [self.prompt.without(removed) for removed in removals]
        if self._cache is None:
            yield from self._plain(prompts, read)
            return
        for ids in prompts:
            yield read(self._cache.read(self._text(ids), len(self.prompt.answer_ids)))

    def _text(self, ids: Sequence[int]) -> list[int]:
        return [*ids, *self.prompt.answer_ids[:-1]]

    def _is_right(self, cache: KeysAndValues) -> bool:
        """Return whether the cached keys and values reproduce the logits of the whole prompt."""
        try:
            from_cache = cache.read(cache.ids, len(self.prompt.answer_ids))
        except Exception as failure:  # a model may do anything with a foreign cache
            raise_if_out_of_memory(failure)
            return False
        bar = rounding(self.whole)
        return all(difference(each, self.whole) <= bar for each in (cache.logits, from_cache))

    def _plain(
        self, prompts: Sequence[Sequence[int]], read: Callable[[Tensor], Item]
    ) -> list[Item]:
        answer, start = self.prompt.answer_ids, self.prompt.start
        model, tokenizer = self.model, self.tokenizer
        return read_answers(model, tokenizer, prompts, answer, read, self.batch_size, start)
