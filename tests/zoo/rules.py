"""The general rules, on any model of the zoo.

* changed: a recording of a model that changed since raises; if the change is undone, it gives the
  same scores as before, bit for bit.
* masks: under any mask that the model accepts, the attention weights are those that it returns.
* heads: an explained number is the one that the model's own head returns.
* options: an option of `generate` gives the tokens of `model.generate`, or raises.

(`checks.py` has the fifth: a text in a batch has the scores that it has alone.) Each rule counts
its cases on a model: `held`, those left out with the reason, and violations.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import mixlens
from mixlens.errors import MixlensError, ModelChanged
from mixlens.replay.explained_output import select_explained
from mixlens.text.vocabulary import predicts_classes
from tests.zoo.checks import Examination, Result, examined, first_row
from tests.zoo.children import described
from tests.zoo.models import Entry
from tests.zoo.untouched import tensors_in

RULES = ("changed", "masks", "heads", "options")
BLOCKED = torch.finfo(torch.float32).min
WORDS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForConditionalGeneration")
CLASSES = tuple(f"For{what}Classification" for what in ("Sequence", "Image", "Audio", "Video"))
PLACED = ("ForTokenClassification", "ForNextSentencePrediction", "ForMultipleChoice")


def examined_with_rules(entry: Entry) -> Result:
    """The checks, then the rules."""
    result, rules = examined(entry), checked_rules(entry)
    for part in ("violations", "foreign"):
        result[part] = [*result[part], *rules[part]]
    return {**rules, **result}


def checked_rules(entry: Entry, only: tuple[str, ...] = RULES) -> Result:
    """The rules alone."""
    rules = Rules(entry)
    for rule in only:
        with rules.case(rule):
            getattr(rules, rule)()
    verdict = "part" if rules.violations or rules.foreign else "verified"
    counts = {"held": rules.held, "skipped": rules.skipped}
    return {"verdict": verdict, **counts, "violations": rules.violations, "foreign": rules.foreign}


class LeftOut(Exception):
    """A case that cannot be tried on a model, and why."""


class Rules:
    """The rules on one model, which each builds anew."""

    def __init__(self, entry: Entry) -> None:
        self.entry, self.given = entry, entry.given()
        self.held: dict[str, int] = {}
        self.skipped: dict[str, str] = {}
        self.violations: list[str] = []
        self.foreign: list[str] = []

    @contextlib.contextmanager
    def case(self, name: str) -> Iterator[None]:
        """One case of a rule ("rule, case"). What it raises is the finding."""
        try:
            yield
        except AssertionError as error:
            self.violations.append(f"{name}: {error}"[:300])
        except LeftOut as error:
            self.skipped[name] = str(error)[:160]
        except MixlensError as error:
            self.skipped[name] = f"{type(error).__name__}: {error}"[:160]
        except Exception as error:
            self.foreign.append(f"{name}: {described(error)}")
        else:
            if "," in name:
                rule = name.partition(",")[0]
                self.held[rule] = self.held.get(rule, 0) + 1

    def native(self, model: nn.Module, given: Any) -> Any:
        try:
            with torch.no_grad():
                return model(**given)
        except Exception as error:
            raise LeftOut(f"the model raises {type(error).__name__}") from error

    # ------------------------------------------------------------------------------------- changed

    def changed(self) -> None:
        model = self.entry.build()
        lens = mixlens.Lens(model)
        site = lens.record(self.given).sites[0]
        kinds: dict[str, dict[str, Any]] = {"kept": {}, "a target": {"targets": [0], "site": site}}
        for kind, options in kinds.items():
            for name, change in CHANGES.items():
                with self.case(f"changed, {kind}, {name}"):
                    recording = lens.record(self.given, **options)
                    layer = model.get_submodule(recording.structure.site(site).stack.layers[0].path)
                    before, again = (_attention(recording, site) for _ in range(2))
                    if not np.array_equal(before, again):
                        raise LeftOut("the model draws numbers")
                    undo = change(model, layer)
                    try:
                        _attention(recording, site)
                        raise AssertionError("scores of a model that changed")
                    except ModelChanged:
                        pass
                    finally:
                        undo()
                    with contextlib.suppress(*(ModelChanged,) * (name in COUNTED)):
                        after = _attention(recording, site)
                        assert np.array_equal(before, after), "other scores after"

    # --------------------------------------------------------------------------------------- masks

    def masks(self) -> None:
        ids = self.given.get("input_ids")
        names = signature(self.entry.build().forward).parameters
        if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.shape[1] < 4:
            raise LeftOut("no text")
        if "attention_mask" not in names:
            raise LeftOut("no attention_mask")
        (rows, count), middle = ids.shape, ids.shape[1] // 2
        hole = torch.ones_like(ids)
        hole[0, middle] = hole[-1, 1] = 0
        seen = torch.ones(rows, 1, count, count).tril().bool()
        seen[..., -1, middle] = False  # one pair
        added = torch.zeros(seen.shape).masked_fill(~seen, BLOCKED)
        # Eager attention would add a boolean mask to the scores, so the same mask is added to them.
        for name, mask, of_eager in (
            ("hole", hole, hole),
            ("boolean pairs", seen, added),
            ("added pairs", added, added),
        ):
            with self.case(f"masks, {name}"):
                model = self.entry.build()
                given, eager = ({**self.given, "attention_mask": each} for each in (mask, of_eager))
                same = _equal(*(self.native(model, each) for each in (given, eager)))
                examination = Examination(model, given)
                examination.given = eager if same else given
                examination.attention()
                examination.value_zeroing("values", examination.recording, given)
                if not examination.done:
                    raise LeftOut("the model returns no weights of the same shape")
                assert not examination.violations, examination.violations

    # --------------------------------------------------------------------------------------- heads

    def heads(self) -> None:
        if not re.search("For[A-Z]|LMHead", self.entry.name):
            raise LeftOut("no head")
        several = self.entry.name.endswith(CLASSES)
        problems = (None, "multi_label_classification", "regression") if several else ("own",)
        for problem in problems:
            for of in ("logit", "probability"):
                with self.case(f"heads, {problem}, {of}"):
                    self._head(problem, of)

    def _head(self, problem: str | None, of: str) -> None:
        model: Any = self.entry.build()
        if problem != "own":
            model.config.problem_type = problem
        logits = getattr(self.native(model, self.given), "logits", None)
        if not isinstance(logits, Tensor) or logits.dim() not in (2, 3):
            raise LeftOut("no logits of a text or of its tokens")
        recording = mixlens.Lens(model).record(self.given)
        if len(recording.lengths[recording.structure.calls[-1][0].name]) != recording.batch:
            raise LeftOut("several sequences for each text, which no measure explains")
        chosen = min(1, logits.shape[-1] - 1)
        word = logits.dim() == 3 and not predicts_classes(recording, logits)
        asked: dict[str, Any] = {"word" if word else "label": chosen}
        if logits.dim() == 3:
            asked["position"] = 0
            logits = logits[:, 0]
        texts = torch.arange(recording.batch)
        numbers = select_explained(recording, of=of, **asked)(recording.output, texts)
        function = _function(self.entry.name, problem, logits) if of == "probability" else _identity
        expected = function(logits)[:, chosen]
        error = float((numbers - expected).abs().max() / expected.abs().max().clamp_min(1e-9))
        assert error < 1e-4, f"{asked} off by {error:.1e}"

    # ------------------------------------------------------------------------------------- options

    def options(self) -> None:
        model: Any = self.entry.build()
        if not getattr(model, "can_generate", bool)():
            raise LeftOut("no generate")
        rows = {len(value) for value in self.given.values() if isinstance(value, Tensor)}
        if "input_ids" not in self.given or len(rows) > 1:
            raise LeftOut("no text of its own")
        left = ("decoder", "labels", "use_cache", "return_loss", "next_sentence")
        prompt = {k: v[:1] for k, v in self.given.items() if isinstance(v, Tensor)}
        prompt = {k: v for k, v in prompt.items() if not k.startswith(left)}
        first = self._generated(model, prompt, {})[-2]
        asked: dict[str, dict[str, Any]] = {
            "nothing": {},
            "beams": {"num_beams": 2},
            "sampling": {"do_sample": True, "temperature": 3.0},
            "bad words": {"bad_words_ids": [[first]]},
            "repetition": {"repetition_penalty": 5.0},
        }
        if model.config.is_encoder_decoder:
            asked["start"] = {"decoder_start_token_id": 7}
        for name, chosen in asked.items():
            with self.case(f"options, {name}"):
                self._option(model, prompt, chosen)

    def _option(self, model: Any, prompt: Any, chosen: Any) -> None:
        torch.manual_seed(1)
        recording = mixlens.Lens(model).generate(prompt, max_new_tokens=2, **chosen)
        key = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
        produced = recording.produced
        assert produced is not None
        ours = [*recording.inputs[key][0].tolist(), produced[0].ids[-1]]
        own = self._generated(model, prompt, chosen)
        assert ours == own, f"{ours[-4:]} but generate returns {own[-4:]}"

    def _generated(self, model: Any, prompt: Any, chosen: Any) -> list[int]:
        torch.manual_seed(1)
        how = {"do_sample": False, "max_new_tokens": 2, **chosen}
        try:
            made = model.generate(**prompt, **how)
        except Exception as error:
            raise LeftOut(f"generate raises {type(error).__name__}") from error
        ids: list[int] = getattr(made, "sequences", made)[0].tolist()
        return ids


def _attention(recording: Any, site: str) -> np.ndarray:
    scores: np.ndarray = first_row(mixlens.measure("attention", recording, site=site)).scores
    return scores


def _equal(one: Any, other: Any) -> bool:
    pairs = zip(tensors_in(one), tensors_in(other), strict=True)
    return all(
        a.shape == b.shape and torch.allclose(a.float(), b.float(), rtol=1e-3, atol=1e-3)
        for (_, a), (_, b) in pairs
        if a.is_floating_point()  # the mask itself may be in the output
    )


def _identity(logits: Tensor) -> Tensor:
    return logits


def _function(name: str, problem: str | None, logits: Tensor) -> Callable[[Tensor], Tensor]:
    """From the logits of a head to its probabilities, as transformers documents it."""
    if name.endswith(CLASSES) and problem == "multi_label_classification":
        return torch.sigmoid
    if name.endswith(CLASSES):
        assert problem is None, "a probability of a regression"
        assert logits.shape[-1] > 1, "a probability of one number"
    elif not name.endswith((*WORDS, *PLACED)):
        raise LeftOut("a head of another kind")
    return lambda logits: torch.softmax(logits, -1)


def _matrix(layer: nn.Module) -> Tensor:
    return max((weight.data for weight in layer.parameters()), key=lambda weight: weight.dim() == 2)


def _write(model: nn.Module, layer: nn.Module) -> Callable[[], Any]:
    weight = next(weight for weight in layer.parameters() if weight.dim() == 2)
    old = weight.detach().clone()
    with torch.no_grad():
        weight[0, 0] += 0.5

    @torch.no_grad()
    def undo() -> None:
        weight.copy_(old)

    return undo


def _row(model: nn.Module, layer: nn.Module) -> Callable[[], Any]:
    data = _matrix(layer)
    old = data[0].clone()
    data[0] = 0
    return lambda: data[0].copy_(old)


def _hook(model: nn.Module, layer: nn.Module) -> Callable[[], Any]:
    return layer.register_forward_hook(lambda *given: None).remove


def _training(model: nn.Module, layer: nn.Module) -> Callable[[], Any]:
    model.train()
    return model.eval


CHANGES: dict[str, Callable[[nn.Module, nn.Module], Callable[[], Any]]] = {
    "a row through .data": _row,
    "a hook": _hook,
    "training": _training,
    "a weight": _write,
}
COUNTED = ("a weight",)  # PyTorch counts writes in place, so they cannot be undone
