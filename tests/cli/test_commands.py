"""`map`, `compare`, `measures` and `demo`, with valid and invalid arguments."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import mixlens
from mixlens.cli import app, compare, demo, main
from mixlens.measures import ready_measures

TEXT = "The pictures of some hat [MASK] scaring Marcus."
SHORT = "The keys [MASK] old."
run = CliRunner().invoke


@pytest.mark.smoke
def test_map_of_one_target() -> None:
    result = run(app, ["map", TEXT, "--measure", "value_zeroing", "--target", "[MASK]"])
    assert result.exit_code == 0, result.output
    assert "using the bundled masked language model" in result.output
    assert "Sources of [MASK]" in result.stdout
    assert "pictures" in result.stdout
    assert "largest, mean of 6 layers" in result.stdout


def test_map_as_json_agrees_with_the_library(tmp_path: Path) -> None:
    saved = tmp_path / "maps.safetensors"
    command = [
        "map",
        TEXT,
        "--measure",
        "attention_norm",
        "--target",
        "[MASK]",
        "--layer",
        "-1",
        "--json",
        "--save",
        str(saved),
    ]
    result = run(app, command)
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    maps = mixlens.Lens.bundled().measure("attention_norm", TEXT)
    target = maps.tokens.index("[MASK]")
    assert printed["targets"] == [{"position": target, "token": "[MASK]"}]
    assert np.allclose(np.array(printed["scores"])[0, 0], maps.scores[-1, target], atol=1e-6)
    assert np.allclose(mixlens.load(saved).scores[0], maps.scores[-1], atol=1e-6)


def test_map_of_heads_words_rollout_and_options() -> None:
    for extra in (
        ["--head", "3", "--measure", "attention"],
        ["--words"],
        ["--rollout", "--measure", "alti"],
        ["-o", "distance=euclidean"],
    ):
        result = run(app, ["map", SHORT, "--target", "[MASK]", *extra])
        assert result.exit_code == 0, (extra, result.output)
    whole = run(app, ["map", TEXT, "--measure", "attention"])
    assert whole.exit_code == 0
    assert "targets down, sources across" in whole.stdout


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["map", TEXT, "--measure", "attenshun"], "Unknown measure 'attenshun'"),
        (["map", SHORT, "--layer", "99"], "out of range (0–5)"),
        (["map", SHORT, "--target", "giraffe", "--measure", "attention"], "giraffe"),
        (["map", TEXT, "-o", "distance"], "Pass name=value"),
        (["map", TEXT, "-o", "colour=red"], "Unknown option 'colour'. value_zeroing has: distance"),
        (["map", TEXT, "-o", "distance=far"], "Unknown distance 'far'"),
        (["map", TEXT, "--measure", "alti", "--head", "0"], "not defined per head"),
        (["map", TEXT, "--save", "/no/such/folder/x"], "does not exist. Create it first"),
        (["map", "", "--measure", "attention"], "empty"),
        (["map", TEXT, "--site", "cross"], "Unknown site 'cross'"),
        (["map", TEXT, "--device", "quantum"], "--device quantum"),
        (["map", TEXT, "--model", "/no/such/model"], "'/no/such/model' is not an existing folder"),
        (["compare", TEXT, "--layers", "sideways"], "Choose one of mean, rollout, last"),
        (["compare", SHORT, "--cue", "zebra"], "cue zebra: Unknown token"),
        (["measures", "nonsense"], "Unknown measure 'nonsense'"),
    ],
)
def test_wrong_arguments_get_one_clear_line(
    arguments: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["mixlens", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    printed = capsys.readouterr()
    assert words in printed.err
    assert "Traceback" not in printed.err
    assert len([line for line in printed.err.splitlines() if not line.startswith("no --")]) == 1


def test_compare_puts_every_measure_side_by_side() -> None:
    result = run(app, ["compare", TEXT, "--cue", "pictures"])
    assert result.exit_code == 0, result.output
    for name in ready_measures():
        assert name in result.stdout, name
    assert "rank of the cue" in result.stdout
    ranks = [int(place) for place in re.findall(r"(\d+) of \d+ ", result.stdout)]
    assert ranks[:-1] == sorted(ranks[:-1]), "sorted by the rank of the cue, random last"


def test_near_duplicates_share_a_column() -> None:
    comparison = mixlens.Lens.bundled().compare(TEXT, "[MASK]", cue="pictures")
    groups = compare.grouped_measures(comparison)
    assert sorted(name for group in groups for name in group) == sorted(comparison.scores)
    assert groups[-1] == ["random"]
    assert len(groups) < len(comparison.scores)
    assert comparison.cue is not None
    agreement, ranks = comparison.agreement(), comparison.rank_of(comparison.cue)
    for first, *more in groups:
        for name in more:
            assert agreement.at[first, name] >= compare.DUPLICATE
            assert ranks[name] == ranks[first]


def test_compare_as_json() -> None:
    result = run(app, ["compare", SHORT, "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert printed["target_token"] == "[MASK]"
    assert set(printed["left_out"]) == {"alti_logit", "logit_update"}  # of pre-norm models alone
    assert {*printed["scores"], *printed["left_out"]} == set(ready_measures())
    assert printed["agreement"]["attention"]["attention"] == pytest.approx(1)
    for values in printed["scores"].values():
        assert sum(abs(value) for value in values) == pytest.approx(1, abs=1e-4)


def test_measures_are_listed_with_citations() -> None:
    result = run(app, ["measures"])
    assert result.exit_code == 0
    for name, spec in mixlens.list_measures().items():
        assert name in result.stdout
        assert spec.citation.split()[0] in result.stdout
    assert set(json.loads(run(app, ["measures", "--json"]).stdout)) == set(mixlens.list_measures())


@pytest.fixture(scope="module")
def demo_output() -> str:
    result = run(app, ["demo"])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_demo_tells_one_story(demo_output: str) -> None:
    """The shown measures find the cue, random does not, and the story fits on a screen."""
    lines = demo_output.splitlines()
    assert len(lines) < 60
    assert max(map(len, lines)) <= 80
    text, cue, word, foil = demo.SENTENCE
    for words in (text, f'"{word}" or "{foil}"', f'Only "{cue}" changes the choice', "layer 5"):
        assert words in demo_output
    comparison = mixlens.Lens.bundled().compare(
        text, "[MASK]", explain={"word": word, "foil": foil}, cue=cue
    )
    assert comparison.cue is not None
    ranks = comparison.rank_of(comparison.cue)
    for name in (demo.OUTPUT_MEASURE, demo.LAYER_MEASURE, "alti"):
        assert ranks[name] == 1, name
    assert ranks["random"] > 1


def test_demo_finds_the_evidence_of_an_answer(demo_output: str) -> None:
    assert f"Answer: {demo.DOCUMENTS[demo.EVIDENCE].removesuffix('.')}\n" in demo_output
    shares = dict(re.findall(r"(\w+) +(\d+)%", demo_output))
    assert int(shares["leave_one_out"]) > 95
    for method in ("leave_one_out", "flow_routes", "attention"):
        assert int(shares[method]) > 34  # of three documents
        assert method in demo_output.split("rank it first of three: ")[1]


def test_version_and_help_need_no_torch() -> None:
    program = (
        "import sys; from mixlens.cli import app; app(['--help'], standalone_mode=False); assert"
        " 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    for command in ("map", "compare", "measures", "doctor", "demo"):
        assert command in done.stdout
    assert run(app, ["--version"]).stdout.strip() == mixlens.__version__


def test_routes_of_one_target(tmp_path: Path) -> None:
    graph = tmp_path / "route.graphml"
    command = ["routes", TEXT, "--target", "[MASK]", "--threshold", "0.15", "--save", str(graph)]
    result = run(app, command)
    assert result.exit_code == 0, result.output
    assert "Routes to '[MASK]'" in result.stdout
    assert "layer 5: [MASK] 6 ←" in result.stdout
    assert "<edge" in graph.read_text()
    printed = json.loads(run(app, [*command, "--json", "--plain"]).stdout)
    expected = mixlens.Lens.bundled().routes(TEXT, "[MASK]", threshold=0.15, renormalise=False)
    assert printed["rows"] == expected.rows
    assert len(printed["edges"]) == len(expected.edges)


def test_which_documents_an_answer_rests_on(tmp_path: Path) -> None:
    """Segments are those that the file names; the scores are those of `lens.context_cite`."""
    file = tmp_path / "context.txt"
    file.write_text("=== one ===\nThe keys lie here.\n=== two ===\nThe dogs sleep.\n")
    command = ["context-cite", "--text-file", str(file), "--query", "Where?", "--answer", " Here."]
    command += ["--ablations", "6", "--held-out", "4", "--seed", "2"]
    result = run(app, command)
    assert result.exit_code == 0, result.output
    assert "held-out correlation" in result.stdout
    assert "two: The dogs sleep." in result.stdout
    printed = json.loads(run(app, [*command, "--json"]).stdout)
    context = "The keys lie here.\nThe dogs sleep."
    expected = mixlens.Lens.bundled("causal").context_cite(
        context, "Where?", " Here.", [("one", 0, 19), ("two", 19, 34)], 6, 2, held_out=4
    )
    assert [row["score"] for row in printed["segments"]] == list(expected.scores)
    assert printed["answer"] == " Here."


def test_passages_by_removal_and_knockout(tmp_path: Path) -> None:
    """The scores are those of `lens.leave_one_out` and `lens.knockout` on the written prompt."""
    file = tmp_path / "context.txt"
    file.write_text("=== one ===\nThe keys lie here.\n=== two ===\nThe dogs sleep. It rains.\n")
    command = ["context-cite", "--text-file", str(file), "--query", "Where?", "--answer", " Here."]
    printed = json.loads(run(app, [*command, "--method", "leave_one_out", "--json"]).stdout)
    prompt = "Context: The keys lie here.\nThe dogs sleep. It rains.\n\nQuery: Where?"
    spans, lens = [("one", 9, 28), ("two", 28, 53)], mixlens.Lens.bundled("causal")
    removed = lens.leave_one_out(prompt, spans, answer=" Here.")
    assert [row["score"] for row in printed["segments"]] == list(removed.scores)
    assert printed["passes"] == 3
    command += ["--segments", "sentences"]
    within = run(app, [*command, "--method", "arc_jsd", "--within", "paragraphs"])
    assert "5 forward passes" in within.stdout, within.output
    knockout = [*command[:-2], "--method", "knockout"]
    printed = json.loads(run(app, [*knockout, "--window", "all", "--json"]).stdout)
    blocked = lens.knockout(prompt, spans, answer=" Here.", windows="all")
    assert [row["score"] for row in printed["segments"]] == list(blocked.scores[:, 0])
    largest = lens.knockout(prompt, spans, answer=" Here.", windows=1).scores[1].argmax()
    assert f"  layer {largest}  two: The dogs" in run(app, [*knockout, "--window", "1"]).stdout
    for wrong in (["--method", "other"], [*knockout[-2:], "--window", "wide"]):
        assert run(app, [*command, *wrong]).exit_code != 0


def test_head_weights_are_fitted_and_used(tmp_path: Path) -> None:
    data, out = tmp_path / "prompts.jsonl", tmp_path / "heads.safetensors"
    data.write_text('{"prompt": "The keys are here. The dogs sleep. Where?", "answer": " Here."}\n')
    command = ["fit-heads", str(data), "--out", str(out), "--masks", "4", "--steps", "2"]
    result = run(app, command)
    assert result.exit_code == 0, result.output
    assert "1 of 1 prompt, 1 target" in result.stdout
    printed = json.loads(run(app, [*command, "--json"]).stdout)
    assert printed["model"] == "mixlens/bundled/causal"
    text = ["map", "The dogs bark.", "--model", "mixlens/bundled/causal"]
    mapped = run(app, [*text, "--measure", "learned_heads", "-o", f"weights={out}", "--json"])
    assert mapped.exit_code == 0, mapped.output
    assert run(app, [*text, "--measure", "learned_heads"]).exit_code != 0
    assert run(app, [*command[:2], "--out", str(tmp_path / "heads.bin")]).exit_code != 0


def test_a_question_in_the_file_is_the_query(tmp_path: Path) -> None:
    file = tmp_path / "prompt.txt"
    file.write_text(
        "=== a ===\nThe keys are here.\n=== b ===\nDogs bark.\n=== question ===\nWhere?\n"
    )
    more = ["--answer", " Here.", "--json", "--ablations", "4", "--held-out", "2"]
    plain = tmp_path / "context.txt"
    plain.write_text("=== a ===\nThe keys are here.\n=== b ===\nDogs bark.\n")
    for method in ("context_cite", "leave_one_out"):
        chosen = [*more, "--method", method]
        made = run(app, ["context-cite", "--text-file", str(file), *chosen])
        other = run(app, ["context-cite", "--text-file", str(plain), "--query", "Where?", *chosen])
        assert made.exit_code == 0, made.output
        assert [each["segment"] for each in json.loads(made.stdout)["segments"]] == ["a", "b"]
        assert made.stdout == other.stdout
    wrong = run(app, ["context-cite", "--text-file", str(file), "--query", "When?"])
    assert "The text contains a question (=== question ===), but --query is set too" in str(
        wrong.exception
    )
