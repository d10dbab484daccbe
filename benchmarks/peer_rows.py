"""The lines of `benchmarks.peers`: computations of other libraries and of mixlens."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

import mixlens
from benchmarks.naive import relative_error

AGREEMENT = 1e-5  # of the largest score, in float32: beyond this it is a different quantity
# the same for inseq's value zeroing, which has 1 - cos in float32: about seven digits behind the
# point
ROUNDED = 5e-3
NAMES = {"captum": "Captum", "inseq": "inseq", "transformer_lens": "TransformerLens"}
NEXT = " and"  # the token whose probability gradients explain
STEPS = 10  # of integrated gradients
# By how much the sum misses f(x) − f(baseline): two forward passes, which mixlens always makes.
MISSED = {"return_convergence_delta": True}


@dataclass(frozen=True)
class Case:
    """A model and a text; `word` is the token that follows it."""

    model: Any
    tokenizer: Any
    text: str
    ids: Tensor
    word: int

    @property
    def baseline(self) -> Tensor:
        """The text with a padding token for every word: what integrated gradients and DeepLIFT
        start from.
        """
        blank = torch.full_like(self.ids, self.tokenizer.pad_token_id)
        return torch.where(self.ids == self.tokenizer.bos_token_id, self.ids, blank)

    def probability(self, ids: Tensor, model: Any = None) -> Tensor:
        logits: Tensor = (model or self.model)(ids, attention_mask=torch.ones_like(ids)).logits
        return logits[:, -1].softmax(-1)[:, self.word]


Call = Callable[[], Any]
Prepared = tuple[Call, Callable[[Any], Tensor]]  # what is timed, and how its scores are read


@dataclass(frozen=True)
class Task:
    """A quantity that a peer computes, and the call of mixlens for it."""

    peer: str
    what: str
    model: str
    prepare: Callable[[Case], Prepared]  # loads the peer
    measure: str
    options: Mapping[str, Any] = field(default_factory=dict)
    ours: Callable[[mixlens.MixingMaps, Tensor], Tensor] = lambda maps, scores: scores
    compare: Callable[[Case, Tensor, Tensor], tuple[float | None, str]] | None = (
        None  # default: the same quantity
    )
    scope: str = ""
    long: bool = False
    only: int | None = None  # the longest text
    within: float = AGREEMENT

    @property
    def label(self) -> str:
        return f"{NAMES[self.peer]}: {self.what}"


# -------------------------------------------------------------------------------------------- peers


def captum_gradient(case: Case) -> Prepared:
    from captum.attr import LayerGradientXActivation

    model = copy.deepcopy(case.model)
    method = LayerGradientXActivation(
        partial(case.probability, model=model), model.transformer.drop
    )
    return partial(method.attribute, case.ids), lambda parts: parts[0].sum(-1)


def captum_integrated(case: Case) -> Prepared:
    from captum.attr import LayerIntegratedGradients

    model = copy.deepcopy(case.model)
    method: Any = LayerIntegratedGradients(
        partial(case.probability, model=model), model.transformer.drop
    )
    call = partial(method.attribute, case.ids, case.baseline, n_steps=STEPS, **MISSED)
    return call, lambda made: made[0][0].sum(-1)


def lens_attention(case: Case) -> Prepared:
    bridge = _bridge(case)

    @torch.no_grad()
    def call() -> Any:
        return bridge.run_with_cache(
            case.ids, names_filter=lambda name: name.endswith("hook_pattern")
        )[1]

    return call, lambda cache: torch.stack(
        [cache["pattern", layer][0] for layer in range(case.model.config.n_layer)]
    )


def lens_norms(case: Case) -> Prepared:
    bridge = _bridge(case)

    @torch.no_grad()
    def call() -> Any:
        cache = bridge.run_with_cache(
            case.ids, names_filter=lambda name: name.endswith(("hook_pattern", "hook_v"))
        )[1]
        norms = []
        for layer in range(case.model.config.n_layer):
            written = torch.einsum(
                "jhd,hdm->hjm", cache["v", layer][0], bridge.blocks[layer].attn.W_O
            )
            norms.append(
                torch.einsum("hij,hjm->ijm", cache["pattern", layer][0], written).norm(dim=-1)
            )
        return torch.stack(norms)

    return call, lambda norms: norms


def _bridge(case: Case) -> Any:
    from transformer_lens import TransformerBridge

    model, tokenizer = copy.deepcopy(case.model), copy.deepcopy(case.tokenizer)
    return TransformerBridge.boot_transformers(
        "local", hf_model=model, tokenizer=tokenizer, device="cpu"
    )


def inseq_method(
    method: str, read: Callable[[Tensor], Tensor], every_target: bool = False, **options: Any
) -> Any:
    """`read` gets [source, target, ...].

    inseq returns rows for what was generated: after the whole text, or after its first word.
    """

    def prepare(case: Case) -> Prepared:
        import inseq

        model = inseq.load_model(
            copy.deepcopy(case.model), method, tokenizer=copy.deepcopy(case.tokenizer)
        )
        prompt = case.text.split()[0] if every_target else case.text
        call = partial(model.attribute, prompt, case.text + NEXT, show_progress=False, **options)
        return call, lambda parts: read(
            parts.sequence_attributions[0].target_attributions[: case.ids.shape[1]]
        )

    return prepare


# -------------------------------------------------------------------------------------- comparisons


def relative(theirs: Tensor, ours: Tensor) -> float:
    """The largest difference, relative to the largest score; scores of other shapes are infinitely
    far apart.
    """
    if theirs.shape != ours.shape:
        return float("inf")
    return relative_error(theirs.nan_to_num(), ours)


def after_first(_: mixlens.MixingMaps, scores: Tensor) -> Tensor:
    """Without the row of the first token, which sees only itself and which inseq leaves out."""
    return scores if scores.shape[-2] == 1 else scores[..., 1:, :]


def zeroing_differs(_: Case, theirs: Tensor, ours: Tensor) -> tuple[float, str]:
    """inseq sets distances below 1e-5 to zero and divides each row by its sum: the same is done to
    ours, in the same places.
    """
    kept = theirs.nan_to_num() > 0
    if bool((ours[:-1][~kept[:-1]] > 1.1e-5).any()):
        return float("inf"), "zeros of inseq if the distance is above its threshold"
    shares = torch.where(kept, ours, 0.0)
    shares = shares / shares.sum(-1, keepdim=True).clamp_min(1e-30)
    last = relative(theirs[-1], shares[-1])
    return (
        relative(theirs[:-1], shares[:-1]),
        f"the last layer apart, which inseq takes after the model's final norm: {last:.0e}",
    )


@torch.no_grad()
def sums_differ(case: Case, theirs: Tensor, ours: Tensor) -> tuple[None, str]:
    wanted = float(case.probability(case.ids) - case.probability(case.baseline))
    missed = [abs(float(parts.sum()) - wanted) / abs(wanted) for parts in (theirs, ours)]
    return (
        None,
        (
            f"other numbers ({relative(theirs, ours):.0%} of the largest): Captum's rules, plain"
            f" gradients where it has none; the sum misses f(x) − f(baseline) by {missed[0]:.0%},"
            f" ours by {missed[1]:.0%}"
        ),
    )


QUADRATURE = "the same quadrature, by Captum there; both say by how much the sum is off"
EXPLAINED = {"word": NEXT.strip()}
INTEGRATED = {**EXPLAINED, "steps": STEPS, "baseline": "pad"}
ZEROING = "inseq: one pass of the model for each token"


def tasks() -> list[Task]:
    summed = inseq_method("input_x_gradient", lambda parts: parts[:, 0].sum(-1))
    length = inseq_method("saliency", lambda parts: parts[:, 0].norm(dim=-1))
    integrated = inseq_method(
        "integrated_gradients", lambda parts: parts[:, 0].sum(-1), n_steps=STEPS, **MISSED
    )
    lifted = inseq_method("deeplift", lambda parts: parts[:, 0].sum(-1))
    attention = inseq_method(
        "attention", lambda parts: parts.permute(2, 3, 1, 0), every_target=True
    )
    row = inseq_method("value_zeroing", lambda parts: parts.permute(2, 1, 0))
    whole = inseq_method("value_zeroing", lambda parts: parts.permute(2, 1, 0), every_target=True)

    def flat(_: mixlens.MixingMaps, scores: Tensor) -> Tensor:
        return scores[0, 0]

    def zeroing(
        what: str, model: str, prepare: Any, options: Mapping[str, Any], **more: Any
    ) -> Task:
        return Task(
            "inseq",
            what,
            model,
            prepare,
            "value_zeroing",
            options,
            after_first,
            zeroing_differs,
            ZEROING,
            long=True,
            within=ROUNDED,
            **more,
        )

    return [
        Task(
            "captum",
            "LayerGradientXActivation",
            "GPT-2",
            captum_gradient,
            "gradient_x_input",
            EXPLAINED,
            flat,
        ),
        Task(
            "captum",
            f"LayerIntegratedGradients, {STEPS} steps",
            "GPT-2",
            captum_integrated,
            "integrated_gradients",
            INTEGRATED,
            flat,
            scope=QUADRATURE,
            long=True,
            only=64,
        ),
        Task(
            "transformer_lens",
            "run_with_cache, patterns",
            "GPT-2",
            lens_attention,
            "attention",
            {"per_head": True},
        ),
        Task(
            "transformer_lens",
            "norms from pattern, v and W_O",
            "GPT-2",
            lens_norms,
            "attention_norm",
            scope="no function of TransformerLens: three lines over its cache",
        ),
        Task(
            "inseq", "attention", "GPT-2", attention, "attention", {"per_head": True}, after_first
        ),
        Task("inseq", "saliency", "GPT-J", length, "gradient_norm", EXPLAINED, flat),
        Task("inseq", "input_x_gradient", "GPT-J", summed, "gradient_x_input", EXPLAINED, flat),
        Task(
            "inseq",
            f"integrated_gradients, {STEPS} steps",
            "GPT-J",
            integrated,
            "integrated_gradients",
            INTEGRATED,
            flat,
            scope=QUADRATURE,
            long=True,
            only=64,
        ),
        Task(
            "inseq",
            "deeplift",
            "GPT-J",
            lifted,
            "deep_lift",
            {**EXPLAINED, "baseline": "pad"},
            flat,
            sums_differ,
        ),
        zeroing("value_zeroing", "GPT-2", whole, {}, only=64),
        zeroing("value_zeroing, one target", "BLOOM", row, {"targets": [-1]}, only=64),
        zeroing("value_zeroing", "BLOOM", whole, {}, only=64),
    ]
