"""The rows of the leaderboard: the questions about molecules, and a row run by its command."""

from __future__ import annotations

import fcntl
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mixlens import datasets as corpus
from mixlens.benchmark.submission import read_submission
from mixlens.datasets.examples import Agreement
from training.leaderboard import molecules
from training.leaderboard.papers import RUNS, picked
from training.leaderboard.rows import MASKED, ROWS, TRAINED, Row
from training.leaderboard.run import Runner, run


def test_the_target_closes_the_bracket_and_the_foil_does_not(tmp_path: Path) -> None:
    path = tmp_path / "closing.jsonl"
    molecules.write(path)
    data = corpus.read(str(path))
    assert not data.errors
    for line, example in zip(path.read_text().splitlines(), data.examples, strict=True):
        row = json.loads(line)
        place, (cue,) = row["position"], row["cue"]
        text, opened = row["text"], row["text"][slice(*cue)]
        assert isinstance(example, Agreement)
        assert text[place] == row["target"] == example.target
        assert opened == {")": "("}.get(row["target"], row["target"])
        between = re.sub(r"\s", "", text[cue[1] : place])
        if row["group"] == "bracket":
            assert between.count("(") == between.count(")")
        else:
            assert row["target"] not in between  # the ring that is open is the one that closes
        assert row["foil"] != row["target"]


def test_every_row_has_its_models_and_data() -> None:
    known = {*TRAINED, *(trained.model for trained in TRAINED.values())}
    for row in ROWS.values():
        for name in filter(None, (row.model, row.other)):
            assert name in known or name.startswith("mixlens/bundled/") or "/" not in name
        assert row.arguments("F")[:3] == ["benchmark", "--model", row.arguments("F")[2]]
    assert ROWS["gte-sst2"].arguments("F") == [
        *("benchmark", "--model", "F/gte-sst2", "--data", "F/sst2/test.tsv", "--sample"),
        *(str(ROWS["gte-sst2"].texts), "--other-model", "F/minilm-sst2"),
    ]


def test_a_line_is_run_once_and_missing_ones_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words").mkdir()
    line = '{"text": "The keys to the door are old.", "target": "are", "foil": "is", "cue": "keys"}'
    (tmp_path / "words/a.jsonl").write_text(f"{line}\n{line}\n{line}\n")
    quick = Row(
        model=MASKED,
        data="words",
        measures="attention",
        evaluations="cue_alignment",
    )
    monkeypatch.setitem(ROWS, "quick", quick)
    runner = Runner(tmp_path, tmp_path / "out", seconds=120, device="cpu", texts=2)
    run(runner, ["quick", "rxnfp-molecules"], jobs=1)
    run(runner, ["quick"], jobs=1)
    said = capsys.readouterr().out
    for words in ("quick: done", "left out: rxnfp is not in the folder", "quick: was done"):
        assert words in said
    assert read_submission(tmp_path / "out/rows/quick.json")["texts"] == 2
    runner.end = 0
    assert runner.command("late", ["measures"]) == "not begun: no time left"


def test_papers_are_picked_by_model_and_experiment() -> None:
    assert picked("*") == list(RUNS)
    one, two = picked("gte-prompt/*/fig3,sst2/ferrando2022/fig7")
    assert (one.models, one.names) == (["masked-sst2", "minilm-sst2"], ("ferrando2022/fig7",))
    assert (two.models, two.names) == (["gte-prompt"], ("mohebbi2023/fig3",))
    assert picked("nothing") == []


def test_untrained_models_are_reported_as_missing(tmp_path: Path) -> None:
    runner = Runner(tmp_path, tmp_path / "out", seconds=0, device="cpu")
    with runner.training_of([MASKED, "gte-prompt"]):
        assert runner.missing([MASKED]) is None
        assert runner.missing([MASKED, "gte-prompt"]) == (
            "left out: gte-prompt not begun: no time left"
        )


def test_of_two_runs_that_need_a_model_one_makes_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path, tmp_path / "out", seconds=0, device="cpu")
    with open(tmp_path / ".gte-prompt.lock", "w") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(runner.train, "gte-prompt")
        time.sleep(0.1)
        assert not waiting.done()
        (tmp_path / "gte-prompt").mkdir()
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert waiting.result() is None
