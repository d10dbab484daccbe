"""Compiled truth: does a measure find the tokens that a known program used?

The models are not trained. They are RASP programs, compiled by Tracr (Lindner et al. 2023, "Tracr:
Compiled Transformers as a Laboratory for Interpretability", NeurIPS) and converted to the GPT-2 and
BERT classes of transformers. `bundled/compiled.zip` holds each model in float64 with twelve inputs
and their true sources. No weight was set by hand. Four of the programs were written for mixlens;
`training/tracr` compiles them. The sources of a target's output are known under two definitions. A
*carried* source is one whose content reaches the output, according to the program's code. A
*counterfactual* source is one whose replacement can change the output, all else being equal. They
differ if a program reads one token to decide which other token to copy.

A measure's scores for the target, aggregated by its own rollout, are right if every true source
ranks above every other token (the same rule as in `planted_truth`). The value is the fraction of
inputs whose scores are right under the first definition. Inputs in which all tokens are sources
(programs that count) are excluded, because every ranking of them is right.

`python -m mixlens.evaluations.compiled_truth` writes the table into
docs/development/compiled_models.md.
"""

from __future__ import annotations

import functools
import json
import math
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load

from mixlens.errors import UnsupportedModel
from mixlens.evaluating.contracts import EvaluationSpec, Result
from mixlens.evaluations.planted_truth import insert_table, judge_target, list_item, row_of_target
from mixlens.lens import Lens
from mixlens.measures import names
from mixlens.recording.recording import Recording

SPEC = EvaluationSpec(
    summary="share of compiled programs' inputs whose true sources a measure puts first",
    citation='Lindner et al. (2023), "Tracr: Compiled Transformers", NeurIPS: the compiler',
    direction="higher",
    kinds=(),
    cost="half a minute for all measures",
    by_default=False,
)


def observe(case: Compiled, measure: str) -> dict[str, Any]:
    """Return whether the measure's scores are right, for each definition of a source.

    A result is 1, 0, or NaN. It is NaN if the measure does not support the model, or if every
    ranking of the input would be right.
    """
    observation: dict[str, Any] = {"case": case.name, "reason": None}
    try:
        scores = row_of_target(measure, case.recording, case.target, case.options, case.blank)
    except UnsupportedModel as error:
        return observation | dict.fromkeys(DEFINITIONS, math.nan) | {"reason": str(error)}
    for definition in DEFINITIONS:
        observation[definition] = math.nan
        if case.stands_out(definition):
            observation[definition] = float(
                judge_target(scores, case.target, case.sources[definition])[0]
            )
    return observation


def conclude(observations: Sequence[dict[str, Any]]) -> Result:
    """Return the fraction of inputs whose scores are right under the first definition.

    `details` holds the results under both definitions.
    """
    details = {
        key: {observation["case"]: observation[key] for observation in observations}
        for key in (*DEFINITIONS, "reason")
    }
    return Result.of(
        SPEC, [observation[DEFINITIONS[0]] for observation in observations], details=details
    )


def evaluate(measure: str) -> Result:
    """Evaluate one measure on all inputs.

    Interpret the confidence interval with care. It is computed over inputs, which are not a random
    sample.
    """
    return conclude([observe(case, measure) for case in compiled_cases()])


# ----------------------------------------------------------------------------------------- the page


def table() -> str:
    """Return a Markdown table of all measures.

    It shows the fraction of inputs of each program that a measure gets right, for each definition
    of a source.
    """
    cases = compiled_cases()
    programs = {case.program: case.what for case in cases}
    lines = [
        f"| measure | {' | '.join((*DEFINITIONS, *programs))} |",
        "|---|" + "---|" * (len(DEFINITIONS) + len(programs)),
    ]
    in_words = [list_item(f"`{name}`: {what}.") for name, what in programs.items()]
    return "\n".join([*lines, *(table_row(name) for name in names()), "", *in_words])


def table_row(measure: str) -> str:
    """Return the row of one measure for the Markdown table."""
    cases, details = compiled_cases(), evaluate(measure).details
    whole = [_share(list(details[definition].values())) for definition in DEFINITIONS]
    cells = [
        " / ".join(
            _share([details[key][case.name] for case in cases if case.program == program])
            for key in DEFINITIONS
        )
        for program in dict.fromkeys(case.program for case in cases)
    ]
    return f"| `{measure}` | {' | '.join([*whole, *cells])} |"


def _share(values: list[float]) -> str:
    numbers = [value for value in values if not math.isnan(value)]
    return f"{np.mean(numbers):.2f}" if numbers else "·"


def main() -> None:
    """Write the table to a page, by default docs/development/compiled_models.md."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/development/compiled_models.md")
    path.write_text(insert_table(path.read_text("utf-8"), table()), "utf-8")


if __name__ == "__main__":
    main()


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
        """Return the name of this input in tables and tests."""
        return f"{self.program} {self.number}"

    def find_others(self, definition: str) -> frozenset[int]:
        """Return the positions of all tokens that are neither sources nor the target."""
        everything = range(len(self.recording.tokens[self.recording.sites[0]][0]))
        return frozenset(everything) - self.sources[definition] - {self.target}

    def stands_out(self, definition: str) -> bool:
        """Return whether a ranking of this input can be wrong.

        This requires a source, and a token other than BOS that is not a source. Programs that count
        all tokens have no such token.
        """
        return bool(self.sources[definition]) and bool(self.find_others(definition) - {0})


@functools.cache
def compiled_cases() -> tuple[Compiled, ...]:
    """Return all inputs of all programs. Each input is recorded only once."""
    path = resources.files("mixlens") / "bundled" / "compiled.zip"
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        programs = sorted({name.split("/")[0] for name in archive.namelist()})
        return tuple(case for program in programs for case in _of_program(archive, program))


cases = compiled_cases


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
    """Return the sources without the target, or the target if it is the only source."""
    return frozenset(places) - {target} or frozenset(places)


def _model(archive: zipfile.ZipFile, program: str) -> Any:
    settings = json.loads(archive.read(f"{program}/config.json"))
    config = transformers.AutoConfig.for_model(**settings)
    model = getattr(transformers, settings["architectures"][0])(config).to(torch.float64)
    model.load_state_dict(load(archive.read(f"{program}/model.safetensors")))
    return model.eval()
