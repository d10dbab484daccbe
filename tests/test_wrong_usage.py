"""Wrong usage of the command line, with the message and the exit status.

Status 1 (a failure) and status 2 (wrong usage) come with one line and never with a traceback.
Wrong texts, tensors, models, files and options in Python are tested in `test_wrong_arguments`,
`recording/test_checks`, `test_requests`, `test_loading`, `test_wrappers`, `test_storage` and
`test_comparing`.
"""

from __future__ import annotations

import os
import pickle
import resource
import shutil
from pathlib import Path

import pytest

import mixlens
from mixlens.runs.journal import LINES
from mixlens.runs.settings import lock_folder
from tests.cli.running import run

TEXT = "The dogs near the river [MASK] old."
BUNDLED = Path(mixlens.__file__).parent / "bundled" / "masked"
CLASSIFIER = ("finetune", "classification", "--data", "one_class.csv")
RUN = ("run", "words.txt", "--measure", "attention", "--out", "new")
SHORT = ("--sample", "2", "--measures", "attention", "--evaluations", "cue_alignment")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and models that people point at by mistake."""
    place = tmp_path_factory.mktemp("strangers")
    (place / "empty").mkdir()
    (place / "words.txt").write_text("hello")
    (place / "latin1.txt").write_bytes(b"caf\xe9")
    (place / "latin1.csv").write_bytes(b"text,label\ncaf\xe9,1\n")
    (place / "object.json").write_text("{}")
    (place / "zeros.csv").write_bytes(b"text,label\n\0\0\0,1\n")
    (place / "header.csv").write_text("text,label\n")
    (place / "nothing.csv").write_text("")
    (place / "unnamed.csv").write_text("a,1\nb,0\n")
    (place / "semicolons.csv").write_text("text;label\na;1\n")
    (place / "quote.csv").write_text('text,label\n"a,1\n')
    (place / "one_class.csv").write_text(
        "text,label\n" + "".join(f"good {n},1\n" for n in range(40))
    )
    os.mkfifo(place / "pipe")
    for name in ("cut", "config", "no_tokenizer", "hostile"):
        shutil.copytree(BUNDLED, place / name)
    weights = (place / "cut" / "model.safetensors").read_bytes()
    (place / "cut" / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    (place / "config" / "config.json").write_text("{")
    for file in (place / "no_tokenizer").glob("tokenizer*"):
        file.unlink()
    (place / "hostile" / "model.safetensors").unlink()
    (place / "hostile" / "pytorch_model.bin").write_bytes(pickle.dumps(print, protocol=2))
    return place


MAP = [
    ([], 2, "TEXT is missing"),
    (["", "--measure", "attention"], 2, "The text is empty"),
    (["  \n", "--measure", "attention"], 2, "The text is empty"),
    (["caf\udce9"], 2, "Character 3 of the text is a lone surrogate"),
    ([TEXT + " the" * 400], 2, "the model has 256 positions. Shorten the text"),
    (["--text-file", "none.txt"], 2, "--text-file none.txt: No such file"),
    (["--text-file", "latin1.txt"], 2, "latin1.txt is not UTF-8 text (byte 3)"),
    (["--text-file", "empty"], 2, "--text-file empty: Is a directory"),
    ([TEXT, "--text-file", "words.txt"], 2, "TEXT and --text-file are mutually exclusive"),
    ([TEXT, "--measure", "foo"], 2, "Unknown measure 'foo'. Run `mixlens measures` for the list."),
    ([TEXT, "--measure", "value-zeroing"], 2, "Did you mean value_zeroing?"),
    ([TEXT, "--measure", "attention", "--top", "0"], 2, "--top"),
    ([TEXT, "--layer", "99"], 2, "Layer 99 is out of range (0–5)"),
    ([TEXT, "--layer", "two"], 2, "--layer"),
    ([TEXT, "--target", "99"], 2, "out of range (0–9). The text has 10 tokens"),
    ([TEXT, "--target", "the"], 2, "write the#1 or the#2"),
    ([TEXT, "--target", "the#3"], 2, "occurs at positions 1, 4"),
    ([TEXT, "--target", "rivr"], 2, "Did you mean river?"),
    ([TEXT, "--target", ""], 2, "Unknown token ''"),
    ([TEXT, "--measure", "alti", "--head", "1"], 2, "Drop --head"),
    ([TEXT, "--measure", "attention", "--head", "99"], 2, "out of range (0–7)"),
    ([TEXT, "--measure", "gradient_norm", "--rollout"], 2, "Drop --rollout"),
    ([TEXT, "--measure", "effective_attention", "--rollout"], 2, "positive and negative scores"),
    (["--prompt-file", "object.json", "--generate", "3"], 2, "a list of messages"),
    ([TEXT, "-o", "distance"], 2, "Pass name=value"),
    ([TEXT, "-o", "distanc=cosine"], 2, "Did you mean distance?"),
    ([TEXT, "-o", "distance=manhattan"], 2, "Unknown distance 'manhattan'"),
    ([TEXT, "--measure", "integrated_gradients", "-o", "steps=2.5"], 2, "is not of type int"),
    ([TEXT, "--measure", "blank_out", "-o", "word=zzzz"], 2, "'zzzz' is not one token"),
    ([TEXT, "--measure", "blank_out", "-o", "label=x"], 2, "predicts words, not classes"),
    (["no mask", "--measure", "blank_out"], 2, "0 mask tokens, not one"),
    ([TEXT, "--site", "cross"], 2, "Unknown site 'cross'. Choose one of: encoder"),
    ([TEXT, "--alignment"], 2, "Unknown site 'cross'"),
    ([TEXT, "--dtype", "int8"], 2, "Choose one of float32"),
    ([TEXT, "--device", "quantum"], 2, "--device quantum"),
    ([TEXT, "--device", "cuda:99"], 2, "--device cuda:99"),
    ([TEXT, "--json", "--target", "99"], 2, "out of range (0–9). The text has 10 tokens"),
    ([TEXT, "--save", "no/such/file"], 2, "Folder no/such of"),
    ([TEXT, "--save", "empty"], 2, "is a folder. Pass"),
    ([TEXT, "--save", "pipe"], 2, "a device or a pipe"),
    ([TEXT, "--save", "/dev/null"], 2, "a device or a pipe"),
    ([TEXT, "--measure", "attention", "--save", "/proc/maps"], 2, "/proc/maps cannot be written"),
    ([TEXT, "--model", "./none"], 2, "is not an existing folder"),
    ([TEXT, "--model", "no/such"], 2, "it is not in the cache, and the hub is not used"),
    ([TEXT, "--model", "empty"], 2, "has no config.json"),
    ([TEXT, "--model", "words.txt"], 2, "is a file. Pass the folder of a model"),
    ([TEXT, "--model", "cut"], 2, "truncated or damaged"),
    ([TEXT, "--model", "config"], 2, "not a valid JSON file"),
    ([TEXT, "--model", "hostile"], 2, "could run code, so mixlens does not read it"),
    ([TEXT, "--model", "no_tokenizer"], 2, "has no tokenizer files"),
    ([TEXT, "--model", "https://a.org/b"], 2, "Pass a folder, or a model of the hub"),
    ([TEXT, "--nonsense"], 2, "--nonsense"),
]
OTHERS = [
    (["mapp"], 2, "Unknown command 'mapp'"),
    (["measures", "attenshun"], 2, "Did you mean attention"),
    (["doctor", "./none"], 2, "is not an existing folder"),
    (["doctor", "words.txt"], 2, "is a file. Pass"),
    (["doctor", "--target-text", "x"], 2, "--target-text needs --text"),
    (["compare"], 2, "TEXT is missing"),
    (["compare", TEXT, "--measures", "attention,altti"], 2, "Did you mean alti?"),
    (["compare", TEXT, "--measures", ""], 2, "Unknown measure ''"),
    (["compare", TEXT, "--budget", "-1"], 2, "--budget"),
    (["compare", TEXT, "--no-sink"], 2, "needs --segments"),
    (
        ["compare", TEXT, "--layers", "foo"],
        2,
        "Unknown --layer 'foo'. Choose one of mean, rollout, last",
    ),
    (["compare", TEXT, "--layers", "6"], 2, "out of range (0–5)"),
    (["compare", TEXT, "--word", "zzzz"], 2, "'zzzz' is not one token"),
    (["compare", TEXT, "--word", "is", "--foil", "is"], 2, "Pass a different foil"),
    (["compare", TEXT, "--label", "good"], 2, "predicts words, not classes"),
    (["compare", TEXT, "--cue", "cat"], 2, "Unknown token 'cat'"),
    (["compare", TEXT, "--cue", "the"], 2, "write the#1 or the#2"),
    (["compare", TEXT, "--target", "the"], 2, "write the#1 or the#2"),
    (["compare", TEXT, "--html", "no/such/page.html"], 2, "does not exist. Create it first"),
    (["benchmark", "--data", "none.csv"], 2, "none.csv does not exist"),
    (["benchmark", "--data", "latin1.csv"], 2, "not UTF-8 text (byte 14)"),
    (["benchmark", "--data", "zeros.csv"], 2, "it contains null bytes"),
    (["benchmark", "--data", "header.csv"], 2, "has no readable example"),
    (["benchmark", "--data", "nothing.csv"], 2, "The file is empty"),
    (["benchmark", "--data", "unnamed.csv"], 2, "has no header with a text column"),
    (["benchmark", "--data", "semicolons.csv"], 2, "Separate columns by commas or tabs"),
    (["benchmark", "--data", "quote.csv"], 2, "quote.csv:2: not CSV: unexpected end of data"),
    (["benchmark", "--data", "cut/model.safetensors"], 2, "not UTF-8 text"),
    (["benchmark", "--data", "words.txt", "--kind", "foo"], 2, "Unknown kind of data 'foo'"),
    (["benchmark", "--kind", "text"], 2, "needs --data"),
    (["benchmark", *SHORT, "--out", "words.txt"], 2, "words.txt"),
    (["benchmark", *SHORT, "--out", "words.txt/x"], 2, "words.txt"),
    (["benchmark", *SHORT, "--out", "/proc/results"], 2, "--out /proc/results"),
    (["benchmark", "--sample", "0"], 2, "--sample"),
    (["benchmark", "--seed", "-1"], 2, "--seed"),
    (["benchmark", "--submit", "no/such/row.json"], 2, "Folder no/such of"),
    (["benchmark", "--evaluations", "foo"], 2, "Unknown evaluation 'foo'"),
    (["serve", "--tokens", "1"], 2, "out of range for --tokens"),
    (["serve", "--port", "65536"], 2, "--port"),
    (["run"], 2, "CORPUS, --measure and --out are required"),
    ([*RUN, "--dtype", "int8"], 2, "Choose one of float32"),
    ([*RUN, "--shards", "1-2"], 2, "--shards 1-2 is not a range"),
    ([*RUN, "--measure", "alti", "-o", "x=1"], 2, "--option x=1 does not name a measure"),
    ([*RUN, "-o", "attention.x=1"], 2, "Unknown option 'x'"),
    ([*RUN, "-o", "x=1"], 2, "Unknown option 'x'"),
    ([*RUN, "--memory", "-1"], 2, "--memory"),
    (["reproduce"], 2, "PAPER/ID is missing"),
    (["reproduce", "nobody2020"], 2, "Unknown paper 'nobody2020'"),
    (["reproduce", "brunner2020/fig3b", "--data", "/none"], 2, "does not exist"),
    (["reproduce", "brunner2020"], 2, "brunner2020 is a paper. Pass --all"),
    (["reproduce", "brunner2020/fig3b", "-o", "foo=1"], 2, "This experiment has: probes"),
    (["reproduce", "brunner2020/fig3b", "-o", "foo"], 2, "--option foo has no value"),
    (["reproduce", "brunner2020/fig3b", "--sample", "1", "--out", "words.txt"], 2, "words.txt"),
    (["reproduce", "kobayashi2020/table3"], 2, "is not a translation model"),
    (["finetune", "prompt", "--data", "none.csv", "--out", "new"], 2, "none.csv does not exist"),
    ([*CLASSIFIER, "--out", "new"], 2, "Every example has the class '1'"),
    ([*CLASSIFIER, "--out", "empty", "--lr", "-1"], 2, "learning rate between 0 and 1"),
    ([*CLASSIFIER, "--out", "empty", "--lr", "1e9"], 2, "learning rate between 0 and 1"),
    (["finetune", "prompt", "--out", "cut"], 2, "cut is not empty"),
    ([*CLASSIFIER, "--out", "new", "--dtype", "float16"], 2, "Choose one of: float32"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [(["map", *arguments], status, words) for arguments, status, words in MAP] + OTHERS,
)
def test_the_answer_and_the_status(
    arguments: list[str],
    status: int,
    words: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    result = run(*arguments)
    shown = " ".join(result.err.replace("│", " ").split())
    assert words in shown, shown
    assert result.status == status
    assert "Traceback" not in result.err
    assert "unexpected error" not in result.err
    lines = [line for line in result.err.splitlines() if not line.startswith("no --")]
    assert len(lines) == 1, result.err
    assert not result.out


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    with lock_folder(tmp_path / "out", LINES):
        result = run("benchmark", *SHORT, "--out", str(tmp_path / "out"))
    assert result.status == 2
    assert "in use by another run" in result.err


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """What was there before is as it was."""
    place = tmp_path / "maps"
    place.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        result = run("map", TEXT, "--measure", "attention", "--save", str(place))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.status == 1
    assert f"{place} cannot be written (File too large)" in result.err
    assert place.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["maps"]
