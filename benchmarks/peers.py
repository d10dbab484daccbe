"""`python -m benchmarks.peers`: mixlens beside other libraries that compute the same, on the same model, text and threads, in one process.

What is compared: Captum, inseq and TransformerLens. BertViz is left out: it draws attention weights and computes nothing.
A peer that is not installed has rows that say so. To install all three beside the pinned versions:

    pip install -c constraints.txt ".[eval]" "transformer-lens==4.3.0" treescope
    pip install --no-deps "inseq==0.7.1"

inseq comes without its dependencies because it asks for typeguard<=2.13.3, which it never imports and TransformerLens excludes.

Models have random weights and the bundled tokenizer. Each library has a copy of the model of its own, since not all of them leave it as it
was. Loading is not timed; a call is, from the text to the scores (Captum and TransformerLens: from the token ids; mixlens has the text in
every row). The first call of both is the comparison of their numbers and the warm-up. Where both define the same quantity and the numbers
differ by more than `AGREEMENT` of the largest (`ROUNDED` for inseq's value zeroing), the command fails.
"""

from __future__ import annotations

import argparse
import copy
import importlib.metadata
import importlib.util
import random
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor

import mixlens
from benchmarks import models
from benchmarks.report import RESULTS, Figure, circumstances, described, number, save, say, table, write_section
from benchmarks.timing import Timing, in_turns

ROUNDED = 5e-3  # the same for inseq's value zeroing, which has 1 - cos in float32: about seven digits behind the point
AGREEMENT = 1e-5  # of the largest score, in float32: beyond this it is another quantity
INSTALL = {"captum": "captum", "inseq": "inseq", "transformer_lens": "transformer-lens"}  # what pip calls them
NAMES = {"captum": "Captum", "inseq": "inseq", "transformer_lens": "TransformerLens"}
KINDS = {"GPT-2": "GPT2LMHeadModel", "GPT-J": "GPTJForCausalLM", "BLOOM": "BloomForCausalLM"}
WORDS = "the old man and his two dogs are in the house with a small red door which they can not open"
NEXT = " and"  # the token whose probability gradients explain
STEPS = 10  # of integrated gradients


@dataclass(frozen=True)
class Sizes:
    tokens: tuple[int, ...] = (64, 128)
    layers: int = 12
    width: int = 768
    heads: int = 12
    repeats: int = 7
    long: int = 3  # repeats of what takes seconds
    seconds: float = 30.0  # no further repeat of a comparison after these
    threads: int = 2


TINY = Sizes(tokens=(12,), layers=2, width=32, heads=4, repeats=2, long=1, seconds=1.0, threads=1)


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
        """The text with a padding token for every word: what integrated gradients and DeepLIFT start from."""
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
    compare: Callable[[Case, Tensor, Tensor], tuple[float | None, str]] | None = None  # default: the same quantity
    scope: str = ""
    long: bool = False
    only: int | None = None  # the longest text
    within: float = AGREEMENT

    @property
    def label(self) -> str:
        return f"{NAMES[self.peer]}: {self.what}"


@dataclass(frozen=True)
class Row:
    """What came of one task on one text."""

    task: Task
    tokens: int
    ours: Timing
    theirs: Timing | None
    difference: float | None
    remark: str

    @property
    def key(self) -> str:
        return f"{self.task.label}, {self.task.model}, {self.tokens} tokens"

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.theirs.best / self.ours.best

    def cells(self) -> list[str]:
        options = "".join(f", {name}={value!r}" for name, value in self.task.options.items())
        return [
            self.task.label, f"`{self.task.measure}`{options}", self.task.model, str(self.tokens),
            "—" if self.theirs is None else str(self.theirs), str(self.ours),
            "—" if self.ratio is None else f"{number(self.ratio)}×",
            "—" if self.difference is None else f"{self.difference:.0e}" if self.difference else "0", self.remark,
        ]  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- peers


def captum_gradient(case: Case) -> Prepared:
    from captum.attr import LayerGradientXActivation

    model = copy.deepcopy(case.model)
    method = LayerGradientXActivation(partial(case.probability, model=model), model.transformer.drop)
    return partial(method.attribute, case.ids), lambda found: found[0].sum(-1)


def captum_integrated(case: Case) -> Prepared:
    from captum.attr import LayerIntegratedGradients

    model = copy.deepcopy(case.model)
    method = LayerIntegratedGradients(partial(case.probability, model=model), model.transformer.drop)
    return partial(method.attribute, case.ids, case.baseline, n_steps=STEPS), lambda found: found[0].sum(-1)


def lens_attention(case: Case) -> Prepared:
    bridge = _bridge(case)

    @torch.no_grad()
    def call() -> Any:
        return bridge.run_with_cache(case.ids, names_filter=lambda name: name.endswith("hook_pattern"))[1]

    return call, lambda cache: torch.stack([cache["pattern", layer][0] for layer in range(case.model.config.n_layer)])


def lens_norms(case: Case) -> Prepared:
    bridge = _bridge(case)

    @torch.no_grad()
    def call() -> Any:
        cache = bridge.run_with_cache(case.ids, names_filter=lambda name: name.endswith(("hook_pattern", "hook_v")))[1]
        found = []
        for layer in range(case.model.config.n_layer):
            written = torch.einsum("jhd,hdm->hjm", cache["v", layer][0], bridge.blocks[layer].attn.W_O)
            found.append(torch.einsum("hij,hjm->ijm", cache["pattern", layer][0], written).norm(dim=-1))
        return torch.stack(found)

    return call, lambda found: found


def _bridge(case: Case) -> Any:
    from transformer_lens import TransformerBridge

    model, tokenizer = copy.deepcopy(case.model), copy.deepcopy(case.tokenizer)
    return TransformerBridge.boot_transformers("local", hf_model=model, tokenizer=tokenizer, device="cpu")


def inseq_method(method: str, read: Callable[[Tensor], Tensor], every_target: bool = False, **options: Any) -> Any:
    """`read` gets [source, target, ...]. inseq returns rows for what was generated: after the whole text, or after its first word."""

    def prepare(case: Case) -> Prepared:
        import inseq

        model = inseq.load_model(copy.deepcopy(case.model), method, tokenizer=copy.deepcopy(case.tokenizer))
        prompt = case.text.split()[0] if every_target else case.text
        call = partial(model.attribute, prompt, case.text + NEXT, show_progress=False, **options)
        return call, lambda found: read(found.sequence_attributions[0].target_attributions[: case.ids.shape[1]])

    return prepare


# -------------------------------------------------------------------------------------------------- comparisons


def relative(theirs: Tensor, ours: Tensor) -> float:
    """The largest difference, relative to the largest score."""
    if theirs.shape != ours.shape:
        raise ValueError(f"scores of shape {tuple(theirs.shape)} and {tuple(ours.shape)}")
    return float((theirs.nan_to_num() - ours).abs().max() / ours.abs().max())


def after_first(_: mixlens.MixingMaps, scores: Tensor) -> Tensor:
    """Without the row of the first mark, which sees itself alone and of which inseq says nothing."""
    return scores if scores.shape[-2] == 1 else scores[..., 1:, :]


def zeroing_differs(_: Case, theirs: Tensor, ours: Tensor) -> tuple[float, str]:
    """inseq sets distances below 1e-5 to zero and divides each row by its sum: the same is done to ours, in the same places."""
    kept = theirs.nan_to_num() > 0
    if bool((ours[:-1][~kept[:-1]] > 1.1e-5).any()):
        return float("inf"), "zeros of inseq where the distance is above its threshold"
    shares = torch.where(kept, ours, 0.0)
    shares = shares / shares.sum(-1, keepdim=True).clamp_min(1e-30)
    last = relative(theirs[-1], shares[-1])
    return relative(theirs[:-1], shares[:-1]), f"the last layer apart, which inseq takes after the model's final norm: {last:.0e}"


@torch.no_grad()
def sums_differ(case: Case, theirs: Tensor, ours: Tensor) -> tuple[None, str]:
    wanted = float(case.probability(case.ids) - case.probability(case.baseline))
    missed = [abs(float(found.sum()) - wanted) / abs(wanted) for found in (theirs, ours)]
    return None, (
        f"other numbers ({relative(theirs, ours):.0%} of the largest): Captum's rules, plain gradients where it has none; "
        f"the sum misses f(x) − f(baseline) by {missed[0]:.0%}, ours by {missed[1]:.0%}"
    )


ON_CAPTUM = "both run Captum's integration"
EXPLAINED = {"word": NEXT.strip()}
INTEGRATED = {**EXPLAINED, "steps": STEPS, "baseline": "pad"}
ZEROING = "inseq: one pass of the model for each token"


def tasks() -> list[Task]:
    summed = inseq_method("input_x_gradient", lambda found: found[:, 0].sum(-1))
    length = inseq_method("saliency", lambda found: found[:, 0].norm(dim=-1))
    integrated = inseq_method("integrated_gradients", lambda found: found[:, 0].sum(-1), n_steps=STEPS)
    lifted = inseq_method("deeplift", lambda found: found[:, 0].sum(-1))
    attention = inseq_method("attention", lambda found: found.permute(2, 3, 1, 0), every_target=True)
    row = inseq_method("value_zeroing", lambda found: found.permute(2, 1, 0))
    whole = inseq_method("value_zeroing", lambda found: found.permute(2, 1, 0), every_target=True)

    def flat(_: mixlens.MixingMaps, scores: Tensor) -> Tensor:
        return scores[0, 0]

    def zeroing(what: str, model: str, prepare: Any, options: Mapping[str, Any], **more: Any) -> Task:
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
        Task("captum", "LayerGradientXActivation", "GPT-2", captum_gradient, "gradient_x_input", EXPLAINED, flat),
        Task(
            "captum", f"LayerIntegratedGradients, {STEPS} steps", "GPT-2", captum_integrated, "integrated_gradients", INTEGRATED,
            flat, scope=ON_CAPTUM, long=True, only=64,
        ),
        Task("transformer_lens", "run_with_cache, patterns", "GPT-2", lens_attention, "attention", {"per_head": True}),
        Task(
            "transformer_lens", "norms from pattern, v and W_O", "GPT-2", lens_norms, "attention_norm",
            scope="no function of TransformerLens: three lines over its cache",
        ),
        Task("inseq", "attention", "GPT-2", attention, "attention", {"per_head": True}, after_first),
        Task("inseq", "saliency", "GPT-J", length, "gradient_norm", EXPLAINED, flat),
        Task("inseq", "input_x_gradient", "GPT-J", summed, "gradient_x_input", EXPLAINED, flat),
        Task(
            "inseq", f"integrated_gradients, {STEPS} steps", "GPT-J", integrated, "integrated_gradients", INTEGRATED, flat,
            scope=ON_CAPTUM, long=True, only=64,
        ),
        Task("inseq", "deeplift", "GPT-J", lifted, "deep_lift", {**EXPLAINED, "baseline": "pad"}, flat, sums_differ),
        zeroing("value_zeroing", "GPT-2", whole, {}, only=64),
        zeroing("value_zeroing, one target", "BLOOM", row, {"targets": [-1]}, only=64),
        zeroing("value_zeroing", "BLOOM", whole, {}, only=64),
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ runs


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def case(name: str, tokens: int, sizes: Sizes) -> Case:
    """The shape of GPT-2 small, as GPT-2, GPT-J or BLOOM, and a text of `tokens` tokens, the first mark included."""
    folder = Path(mixlens.__file__).parent / "bundled" / "causal"
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    kind: Any = getattr(transformers, KINDS[name])
    width = {"hidden_size": sizes.width} if name == "BLOOM" else {"n_embd": sizes.width, "n_positions": 256}
    more = {"rotary_dim": sizes.width // sizes.heads} if name == "GPT-J" else {}
    made = kind.config_class(
        n_layer=sizes.layers, n_head=sizes.heads, vocab_size=len(tokenizer), **width,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
        architectures=[kind.__name__], **more,
    )  # fmt: skip
    made._attn_implementation = "eager"
    single = [word for word in WORDS.split() if len(tokenizer(" " + word, add_special_tokens=False)["input_ids"]) == 1]
    text = "The " + " ".join(random.Random(0).choices(single, k=tokens - 2))
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    if ids.shape[1] != tokens:
        raise ValueError(f"the text has {ids.shape[1]} tokens, not {tokens}")
    (word,) = tokenizer(NEXT, add_special_tokens=False)["input_ids"]
    return Case(models.randomised(kind(made)), tokenizer, text, ids, word)


def compared(task: Task, given: Case, sizes: Sizes) -> Row:
    lens = mixlens.Lens(given.model, given.tokenizer)
    ours: Call = partial(lens.measure, task.measure, given.text, **task.options)
    maps = ours()
    runs: dict[str, Call] = {"ours": ours}
    difference, remark = None, task.scope
    if not installed(task.peer):
        remark = f"not installed: see `python -m benchmarks.peers --help`, or pip install {INSTALL[task.peer]}"
    else:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call, read = task.prepare(given)
                theirs, scores = read(call()).detach(), task.ours(maps, torch.as_tensor(maps.scores))
        except Exception as error:  # of the peer, whatever it is
            lines = str(error).splitlines() or [""]
            remark = f"does not run with transformers {transformers.__version__}: {type(error).__name__}: {lines[0][:100]}"
        else:
            same = task.compare or (lambda _, theirs, ours: (relative(theirs, ours), ""))
            difference, said = same(given, theirs, scores)
            remark = "; ".join(part for part in (remark, said) if part)
            runs = {"theirs": call, **runs}
    repeats = sizes.long if task.long else sizes.repeats
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = in_turns(runs, repeats=repeats, seconds=sizes.seconds, warm_up=False)
    return Row(task, given.ids.shape[1], found["ours"], found.get("theirs"), difference, remark)


def measured(sizes: Sizes) -> list[Row]:
    found = []
    for tokens in sizes.tokens:
        cases = {name: case(name, tokens, sizes) for name in KINDS}
        for task in tasks():
            if task.only is None or tokens <= task.only:
                found.append(compared(task, cases[task.model], sizes))
                say("  " + "; ".join(cell for cell in found[-1].cells() if cell))
    return found


HEADER = ["peer", "mixlens", "model", "tokens", "peer's time", "mixlens' time", "peer / mixlens", "difference", "remarks"]


def figures(rows: Sequence[Row]) -> list[Figure]:
    ratios = [Figure(f"{row.key}: ratio", row.ratio, at_least=True, unit="×") for row in rows if row.ratio is not None]
    same = [(row, row.difference) for row in rows if row.difference is not None]
    return ratios + [Figure(f"{row.key}: difference", difference, row.task.within, tracked=False) for row, difference in same]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="very small models: tests the benchmark, says nothing about speed")
    parser.add_argument("--out", type=Path, help="where the results go (default: benchmarks/results/peers.json, and the docs)")
    chosen = parser.parse_args(arguments)
    sizes = TINY if chosen.tiny else Sizes()
    threads = torch.get_num_threads()
    torch.set_num_threads(sizes.threads)
    try:
        rows = measured(sizes)
    finally:
        torch.set_num_threads(threads)
    facts = circumstances("python -m benchmarks.peers" + (" --tiny" if chosen.tiny else ""), threads=sizes.threads)
    facts["versions"] |= {name: importlib.metadata.version(INSTALL[name]) for name in NAMES if installed(name)}
    shown = table(HEADER, [row.cells() for row in rows])
    say("\n" + shown + "\n\n" + described(facts))
    wrong = [figure.key for figure in figures(rows) if figure.passed is False]
    if chosen.out is not None or not chosen.tiny:
        lines = [dict(zip(HEADER, row.cells(), strict=True)) for row in rows]
        save(chosen.out or RESULTS / "peers.json", facts, figures(rows), rows=lines)
    if chosen.out is None and not chosen.tiny and not wrong:
        write_section("peers", f"{described(facts)}\n\n{shown}")
    for line in wrong:
        say("WRONG:", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
