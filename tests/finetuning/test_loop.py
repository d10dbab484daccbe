"""The loop: the same seed gives the same weights, a killed run ends where an uninterrupted one
does, a wrong setting is refused.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mixlens import InvalidInput, Lens, MixlensError
from mixlens.finetuning import Settings, prompt_finetuned
from mixlens.finetuning.checkpoint import NAME
from mixlens.finetuning.loop import batches_of, rate_share
from mixlens.finetuning.result import DESCRIPTION
from tests.finetuning.sentences import agreement

RUN = Settings(epochs=2, rate=5e-4, batch=3, clip=1.0, weight_decay=0.01, patience=2, seed=5)
ROOT = Path(__file__).resolve().parents[2]

# Dies without warning in the middle of the second epoch.
KILLED = """
import os, signal, sys, torch
torch.set_num_threads(1)
from mixlens import Lens
from mixlens.finetuning import loop, prompt_finetuned
from tests.finetuning.sentences import agreement
from tests.finetuning.test_loop import RUN
steps, original = 0, loop.rate_share
def share(*given):
    global steps
    steps += 1
    if steps == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*given)
loop.rate_share = share
prompt_finetuned(Lens.bundled(), agreement(), settings=RUN, out=sys.argv[1])
"""


@pytest.fixture(scope="module")
def lens() -> Lens:
    return Lens.bundled()


@pytest.fixture(scope="module")
def whole(lens: Lens, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    prompt_finetuned(lens, agreement(), settings=RUN, out=folder, source="sentences")
    return folder


def test_the_same_seed_gives_the_same_weights(whole: Path, lens: Lens) -> None:
    saved = Lens.from_pretrained(str(whole)).model.state_dict()
    torch.rand(7)  # the caller's chance plays no part
    for seed, same in ((5, True), (6, False)):
        trained = prompt_finetuned(
            lens, agreement(), settings=replace(RUN, seed=seed)
        ).lens.model.state_dict()
        assert all(torch.equal(trained[name], value) for name, value in saved.items()) == same


def test_a_killed_run_goes_on_and_ends_where_an_uninterrupted_one_does(
    whole: Path, lens: Lens, tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [file.name for file in folder.iterdir()] == [NAME]
    with pytest.raises(InvalidInput, match="a different run"):
        prompt_finetuned(lens, agreement(), settings=replace(RUN, rate=1e-4), out=folder)
    prompt_finetuned(lens, agreement(), settings=RUN, out=folder)
    one, other = (load_file(each / "model.safetensors") for each in (whole, folder))
    assert set(one) == set(other)
    assert all(torch.equal(one[name], other[name]) for name in one)
    expected, resumed = (json.loads((each / DESCRIPTION).read_text()) for each in (whole, folder))
    for report in (expected, resumed):
        for epoch in report["history"]:
            del epoch["seconds"]
    assert resumed["history"] == expected["history"]
    assert resumed["chosen_epoch"] == 2  # the epoch after the kill
    assert resumed["scores"] == expected["scores"]


def test_the_folder_has_its_provenance_and_is_not_overwritten(
    whole: Path, lens: Lens, tmp_path: Path
) -> None:
    report = json.loads((whole / DESCRIPTION).read_text())
    assert report["kind"] == "prompt"
    assert report["model"]["from"] == "mixlens/bundled/masked"
    assert report["settings"]["seed"] == 5
    assert report["data"]["source"] == "sentences"
    assert report["data"]["trained_on"] == report["data"]["held_out"] == 6
    assert set(report["versions"]) == {"mixlens", "torch", "transformers"}
    with pytest.raises(InvalidInput, match="is not empty"):
        prompt_finetuned(lens, agreement(), settings=RUN, out=whole)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        prompt_finetuned(lens, agreement(), settings=RUN, out=tmp_path / "file")


def test_a_saved_language_model_loads_and_is_measured(whole: Path) -> None:
    again = Lens.from_pretrained(str(whole))
    text = "The dogs in the house [MASK] old."
    words = [word for word, _ in again.predictions(text, top=20)]
    assert words.index("is") < words.index("are") if "are" in words else "is" in words
    assert again.measure("value_zeroing", text).scores.shape[0] == 6


def test_a_damaged_checkpoint_is_refused(lens: Lens, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInput, match="truncated"):
        prompt_finetuned(lens, agreement(), settings=RUN, out=tmp_path)


def test_patience_keeps_the_best_epoch(lens: Lens) -> None:
    """A rate that destroys the model: the first epoch is the best, and its weights are kept."""
    wild = replace(RUN, rate=0.02, warmup=0.0, epochs=6, patience=1, clip=None)
    report = prompt_finetuned(lens, agreement(), settings=wild).report
    losses = [epoch["held_out_loss"] for epoch in report["history"]]
    assert len(losses) == report["chosen_epoch"] + 1 < 6
    assert report["chosen_epoch"] == losses.index(min(losses)) + 1
    assert report["scores"]["after"]["loss"] == pytest.approx(min(losses), rel=1e-5)


@pytest.mark.smoke
def test_the_rate_rises_and_falls_in_straight_lines() -> None:
    shares = [rate_share(step, 40, 0.1) for step in range(40)]
    assert max(shares) == shares[4] == 1
    assert shares[:5] == sorted(shares[:5])
    assert shares[4:] == sorted(shares[4:], reverse=True)
    assert 0 < shares[-1] < 0.05
    assert 0 < shares[0] < 0.5
    assert rate_share(0, 10, 0.0) == 1


def test_every_example_is_used_once_an_epoch(lens: Lens) -> None:
    from collections import Counter

    from mixlens.finetuning.prompt import prompts

    items = prompts(lens, agreement(), 128, Counter())
    settings = replace(RUN, batch=5)
    batches = batches_of(items, settings, 0)
    assert sorted(len(batch) for batch in batches) == [2, 5, 5]
    assert sorted(item.name for batch in batches for item in batch) == sorted(
        item.name for item in items
    )
    assert batches == batches_of(items, settings, 0) != batches_of(items, settings, 1)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"epochs": 0}, "epochs=0"),
        ({"batch": 0}, "batch=0"),
        ({"patience": 0}, "patience=0"),
        ({"rate": 0.0}, "rate=0.0"),
        ({"rate": 2.0}, "rate=2.0"),
        ({"warmup": 1.0}, "warmup=1.0"),
        ({"dtype": "float16"}, "float32, float64, bfloat16"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        replace(RUN, **wrong)  # type: ignore[arg-type]


def test_other_precisions(lens: Lens) -> None:
    for dtype, kept in (("bfloat16", torch.float32), ("float64", torch.float64)):
        trained = prompt_finetuned(lens, agreement(), settings=replace(RUN, epochs=2, dtype=dtype))
        assert {value.dtype for value in trained.lens.model.parameters()} == {kept}
        assert trained.report["history"][-1]["loss"] < trained.report["history"][0]["loss"]
    assert next(lens.model.parameters()).dtype == torch.float32


def test_a_loss_that_is_no_number_stops_the_run(lens: Lens) -> None:
    broken = Lens.bundled()
    with torch.no_grad():
        model: Any = broken.model
        model.cls.predictions.bias.fill_(float("nan"))
    with pytest.raises(MixlensError):
        prompt_finetuned(broken, agreement(), settings=RUN)
