"""Measure models with quantised weights against plain ones.

`python -m benchmarks.quantised [WORD ...]` prints the table of docs/quantised.md, for the kinds
whose library is installed. For each model it compares attention, norms, ALTI and Value Zeroing
(maps and one target) with a plain float32 model of the same numbers, and Value Zeroing with the
layers of the quantised model itself, in which a hook sets one value to zero. *Own* is the error of
a plain model in the same dtype. `--device cuda` runs the models on a GPU. `--widths` tests the bar
of linearity on wider layers, on a CPU.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor, nn

from benchmarks import quantised_kinds
from benchmarks.quantised_kinds import BF16, F32, models
from mixlens import Lens, MixlensError
from mixlens.model import linearity

MEASURES = ("attention", "attention_norm", "alti", "value_zeroing")
_TARGET = 20
_IDS = torch.randint(3, 250, (1, 24), generator=torch.Generator().manual_seed(3))


def _inputs(model: Any) -> dict[str, Tensor]:
    return {"input_ids": _IDS.to(model.device)}


def _scores(model: Any) -> dict[tuple[str, str], np.ndarray]:
    lens, inputs, scores = Lens(model), _inputs(model), {}
    for name in MEASURES:
        scores[name, "target"] = np.asarray(
            lens.measure(name, inputs, targets=[_TARGET]).scores[:, 0], dtype=float
        )
        scores[name, "map"] = np.asarray(lens.measure(name, inputs).scores[:, _TARGET], dtype=float)
    return scores


def _apart(ours: np.ndarray, theirs: np.ndarray) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


@torch.no_grad()
def plain_copy(model: Any) -> Any:
    """Return a plain float32 model of the same numbers: linear layers applied to unit vectors."""
    device = model.device
    made = type(model)(copy.deepcopy(model.config)).eval().to(device)
    dtype = model.get_input_embeddings().weight.dtype
    own, weights = dict(model.named_modules()), dict(model.named_parameters())
    for name, part in made.named_modules():
        if type(part) is nn.Linear:
            width = part.in_features
            vectors = torch.cat([torch.zeros(1, width), torch.eye(width)]).to(device, dtype)
            bias, *units = own[name](vectors[None])[0].float()
            part.weight.data = (torch.stack(units) - bias).T.contiguous()
    linear = {name for name, part in made.named_modules() if type(part) is nn.Linear}
    for name, weight in made.named_parameters():
        if name.removesuffix(".weight") not in linear:  # biases included
            weight.data = weights[name].detach().float()
    return made


@torch.no_grad()
def natively_zeroed(model: Any) -> np.ndarray:
    """Return Value Zeroing of one target, by a hook on the layers of the model itself."""
    calls: list[Any] = []
    handles = [
        layer.register_forward_hook(lambda *call: calls.append(call), with_kwargs=True)
        for layer in model.model.layers
    ]
    model(**_inputs(model), use_cache=False)
    for handle in handles:
        handle.remove()
    rows = []
    for layer, args, kwargs, output in calls:
        row = np.zeros(_IDS.shape[1])
        for source in range(_TARGET + 1):

            def without(part: Any, args: Any, values: Tensor, source: int = source) -> Tensor:
                return values.index_fill(1, torch.tensor([source], device=values.device), 0.0)

            handle = layer.self_attn.v_proj.register_forward_hook(without)
            edited = layer(*args, **{**kwargs, "past_key_values": None})
            handle.remove()
            pair = edited[0, _TARGET].double(), output[0, _TARGET].double()
            row[source] = 1 - torch.cosine_similarity(*pair, dim=0).item()
        rows.append(row)
    return np.stack(rows)


def compared(model: Any, dtype: torch.dtype) -> str:
    """Return the errors of a model as cells of the table, or the error that mixlens raises."""
    with torch.no_grad():
        before = model(**_inputs(model)).logits
    try:
        ours = _scores(model)
    except MixlensError as error:
        with torch.no_grad():
            same = torch.equal(model(**_inputs(model)).logits, before)
        return f"raises | {error!s} | {'runs on' if same else 'BROKEN'} |"
    plain = plain_copy(model)
    true, half = _scores(plain), _scores(plain.to(dtype)) if dtype != F32 else {}
    largest = max(_apart(ours[key], true[key]) for key in true)
    own = max((_apart(half[key], true[key]) for key in half), default=0.0)
    natively = natively_zeroed(model)
    of_hook = max(_apart(ours["value_zeroing", how], natively) for how in ("target", "map"))
    return f"measured | {largest:.0e} | {own:.0e} | {of_hook:.0e} |"


def table(words: list[str]) -> None:
    print("| library | format | dtype | | error | own | hook |\n|---|---|---|---|---|---|---|")
    for library, form, dtype, load in models(words):
        kind = str(dtype).removeprefix("torch.")
        with tempfile.TemporaryDirectory() as folder:
            try:
                model = load(Path(folder), dtype)
                cells = compared(model, dtype)
            except Exception as error:
                words_of = " ".join(str(error).split())[:160]
                cells = f"does not load here | {type(error).__name__}: {words_of} |"
        print(f"| {library} | {form} | {kind} | {cells}", flush=True)


# ----------------------------------------------------------------------------------- widths


def _layers(width: int, dtype: torch.dtype) -> dict[str, nn.Module]:
    """Return one layer of each library, of this width."""
    torch.manual_seed(0)
    plain = nn.Linear(width, width, bias=False).to(dtype).eval()
    made: dict[str, nn.Module] = {"plain": plain}
    bits: Any = importlib.import_module("bitsandbytes")
    hqq: Any = importlib.import_module("hqq.core.quantize")
    ao: Any = importlib.import_module("torchao.quantization")
    quanto: Any = importlib.import_module("optimum.quanto")
    four = bits.nn.Linear4bit(width, width, bias=False, compute_dtype=dtype, quant_type="nf4")
    eight = bits.nn.Linear8bitLt(width, width, bias=False, has_fp16_weights=False, threshold=6)
    for name, own in {"bitsandbytes nf4": four, "bitsandbytes LLM.int8": eight}.items():
        own.load_state_dict(plain.state_dict())
        made[name] = own.to("cpu").eval()
    how = hqq.BaseQuantizeConfig(nbits=4, group_size=64)
    copied = copy.deepcopy(plain)
    made["hqq, 4 bits"] = hqq.HQQLinear(copied, how, compute_dtype=dtype, device="cpu").eval()
    for name in ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"):
        holder = nn.Sequential(copy.deepcopy(plain))
        ao.quantize_(holder, getattr(ao, name)())
        made[f"torchao {name}"] = holder[0]
    for weights in ("qint4", "qint8"):
        holder = nn.Sequential(copy.deepcopy(plain))
        quanto.quantize(holder, weights=getattr(quanto, weights))
        quanto.freeze(holder.eval())
        made[f"quanto {weights}"] = holder[0]
    return made


@torch.no_grad()
def widths() -> None:
    """Print the error of sums, in errors of a plain product. The bar is 3."""
    print("| layer | " + " | ".join(f"{w:,}" for w in _WIDTHS) + " |")
    rows: dict[str, list[str]] = {}
    for width in _WIDTHS:
        for name, part in _layers(width, BF16).items():
            applied = linearity._apply_to_vectors(part, BF16)
            assert applied is not None
            vectors, outputs = applied
            errors = linearity._errors(outputs)
            rounding = linearity._errors(linearity._plain_outputs(vectors))
            rounding = rounding.clamp_min(linearity._OF_OUTPUTS * torch.finfo(BF16).eps)
            rows.setdefault(name, []).append(f"{float((errors / rounding).max()):.1f}")
    for name, cells in rows.items():
        print(f"| {name} | " + " | ".join(cells) + " |")


_WIDTHS = (128, 2048, 4096)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="print only kinds that contain one of these words")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--widths", action="store_true")
    chosen = parser.parse_args()
    quantised_kinds.DEVICE = chosen.device
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    widths() if chosen.widths else table(chosen.words)


if __name__ == "__main__":
    main()
