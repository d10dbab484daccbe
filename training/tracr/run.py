"""Compiles our programs and adds them to the archive of compiled models.

    python -m training.tracr.run --archive src/mixlens/bundled/compiled.zip

Every state of the GPT-2 is compared with Tracr's, and every output with what the program itself
gives. A program that is in the archive already is replaced. Afterwards: `python -m
mixlens.evaluations.compiled_truth`, which writes the table of docs/development/compiled_models.md.
"""

from __future__ import annotations

import argparse
import json
import random
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from tracr.compiler import compiling

from .porting import ported, vocabulary
from .programs import LETTERS, PROGRAMS
from .sources import Undecided, carried, value

CASES, LONGEST, SHORTEST = 12, 10, 6
CLOSE = 1e-4  # Tracr computes in float32
STAMP = (2023, 1, 1, 0, 0, 0)  # the same archive from the same programs


@dataclass
class Ported:
    """A program, what Tracr made of it, and the same as a GPT-2."""

    what: str
    program: Any
    compiled: Any
    model: Any

    @classmethod
    def of(cls, name: str) -> Ported:
        what, make = PROGRAMS[name]
        program = make()
        compiled = compiling.compile_rasp_to_model(
            program, vocab=set(LETTERS), max_seq_len=LONGEST, compiler_bos="BOS", causal=True
        )
        compiled.output_name = program.label
        return cls(what, program, compiled, ported(compiled, LETTERS))

    def logits(self, ids: torch.Tensor, place: int) -> torch.Tensor:
        """[batch, letter]."""
        with torch.no_grad():
            return self.model(input_ids=ids).logits[:, place, : len(LETTERS)]

    def check_states(self, letters: str) -> None:
        """The last state is Tracr's."""
        ids = torch.tensor([_ids(letters)])
        with torch.no_grad():
            state = self.model.transformer(input_ids=ids).last_hidden_state[0]
        expected = np.asarray(self.compiled.apply(["BOS", *letters]).transformer_output)[0]
        far = np.abs(state[:, : expected.shape[-1]].numpy() - expected).max()
        if far > CLOSE:
            raise RuntimeError(f"the GPT-2 is not the compiled program: {far:.1e} apart")


def cases_of(one: Ported, name: str) -> Iterator[dict[str, Any]]:
    """Twelve inputs whose output is decided, with their sources under both definitions."""
    chance, names = random.Random(name), set()
    while len(names) < CASES:
        letters = "".join(chance.choices(LETTERS, k=chance.randint(SHORTEST, LONGEST - 1)))
        place = len(letters) - 1
        try:
            answer = value(one.program, letters, place)
            sources = carried(one.program, letters, place)
        except Undecided:
            continue
        if answer is None or letters in names:
            continue
        names.add(letters)
        one.check_states(letters)
        yield _case(one, letters, place, answer, sources)


def _case(one: Ported, letters: str, place: int, answer: str, sources: set[int]) -> dict[str, Any]:
    ids, target = torch.tensor([_ids(letters)]), place + 1
    before = one.logits(ids, target)[0]
    if LETTERS[int(before.argmax())] != answer:
        raise RuntimeError(f"{letters}: the model does not give {answer}")
    changing = []
    for at in range(1, len(letters) + 1):
        edited = ids.repeat(len(LETTERS), 1)
        edited[:, at] = torch.tensor([vocabulary(LETTERS)[letter] for letter in LETTERS])
        if (one.logits(edited, target).argmax(-1) != before.argmax()).any():
            changing.append(at)
    return {
        "input_ids": ids[0].tolist(),
        "target": target,
        "label": LETTERS.index(answer),
        "logits": [round(float(x), 9) for x in before],
        "carried": sorted(source + 1 for source in sources),
        "counterfactual": changing,
    }


def _ids(letters: str) -> list[int]:
    numbers = vocabulary(LETTERS)
    return [numbers["BOS"], *(numbers[letter] for letter in letters)]


def files_of(name: str) -> dict[str, bytes]:
    """A program's files in the archive."""
    one = Ported.of(name)
    truth = {
        "name": name,
        "what": one.what,
        "causal": True,
        "input_vocabulary": vocabulary(LETTERS),
        "substitutes": list(LETTERS),
        "outputs": list(LETTERS),
        "categorical": True,
        "cases": list(cases_of(one, name)),
    }
    config = one.model.config.to_dict() | {"architectures": ["GPT2LMHeadModel"]}
    weights = {key: tensor.contiguous() for key, tensor in one.model.state_dict().items()}
    return {
        f"{name}/truth.json": json.dumps(truth).encode(),
        f"{name}/config.json": json.dumps(config, default=str).encode(),
        f"{name}/model.safetensors": save(weights),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--archive", type=Path, required=True)
    archive = parser.parse_args().archive
    with zipfile.ZipFile(archive) as file:
        files = {name: file.read(name) for name in file.namelist()}
    for name in PROGRAMS:
        files |= files_of(name)
        print(name)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name in sorted(files):
            file.writestr(zipfile.ZipInfo(name, STAMP), files[name], zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
