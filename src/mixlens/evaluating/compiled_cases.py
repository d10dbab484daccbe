"""Transformers compiled from programs, with the true sources of their outputs.

RASP programs compiled by Tracr (Lindner et al. 2023, "Tracr: Compiled Transformers as a Laboratory
for Interpretability", NeurIPS) and converted to the GPT-2 and BERT of transformers.
`bundled/compiled.zip` holds each model in float64 with twelve inputs and their true sources. No
weight was set by hand. Four of the programs were written for mixlens; `training/tracr` compiles
them.
"""

from __future__ import annotations

import functools
import json
import zipfile
from dataclasses import dataclass
from importlib import resources
from typing import Any

import torch
import transformers
from safetensors.torch import load

from mixlens.lens import Lens
from mixlens.recording.recording import Recording

DEFINITIONS = ("carried", "counterfactual")


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """One input of one compiled program."""

    program: str
    what: str  # it computes
    number: int  # index among the inputs of this program
    recording: Recording
    target: int
    sources: dict[str, frozenset[int]]  # true sources by definition
    options: dict[str, Any]  # options that name the output, for measures that explain one
    blank: int  # a token without a meaning in the program

    @property
    def name(self) -> str:
        """Return the name for tables and tests."""
        return f"{self.program} {self.number}"

    def others(self, definition: str) -> frozenset[int]:
        """Return the tokens that are not sources, without the target itself."""
        everything = range(len(self.recording.tokens[self.recording.sites[0]][0]))
        return frozenset(everything) - self.sources[definition] - {self.target}

    def stands_out(self, definition: str) -> bool:
        """Return whether there are sources and a token other than BOS that is not one. A program
        that counts all tokens has nothing to find.
        """
        return bool(self.sources[definition]) and bool(self.others(definition) - {0})


@functools.cache
def compiled_cases() -> tuple[Compiled, ...]:
    """Return all inputs of all programs, each recorded once."""
    path = resources.files("mixlens") / "bundled" / "compiled.zip"
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        programs = sorted({name.split("/")[0] for name in archive.namelist()})
        return tuple(case for program in programs for case in _of_program(archive, program))


def _of_program(archive: zipfile.ZipFile, program: str) -> list[Compiled]:
    truth = json.loads(archive.read(f"{program}/truth.json"))
    lens, cases = Lens(_model(archive, program)), []
    for number, case in enumerate(truth["cases"]):
        names = "word" if truth["causal"] else "label"
        cases.append(
            Compiled(
                program=program,
                what=truth["what"],
                number=number,
                recording=lens.record({"input_ids": torch.tensor([case["input_ids"]])}),
                target=case["target"],
                sources={key: _sources(case[key], case["target"]) for key in DEFINITIONS},
                options={names: case["label"], "position": case["target"]},
                blank=truth["input_vocabulary"]["PAD"],
            )
        )
    return cases


def _sources(places: list[int], target: int) -> frozenset[int]:
    """Return the sources. The target counts only if it is the only one."""
    return frozenset(places) - {target} or frozenset(places)


def _model(archive: zipfile.ZipFile, program: str) -> Any:
    settings = json.loads(archive.read(f"{program}/config.json"))
    config = transformers.AutoConfig.for_model(**settings)
    model = getattr(transformers, settings["architectures"][0])(config).to(torch.float64)
    model.load_state_dict(load(archive.read(f"{program}/model.safetensors")))
    return model.eval()
