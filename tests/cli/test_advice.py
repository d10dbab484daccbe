"""The remedy of an error fits its place: Python or the command line."""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import pytest

import mixlens
from mixlens.cli import main
from tests.cli.running import run

SOURCE = Path(mixlens.__file__).parent

# Calls, attributes and keywords of Python. `name=value` is how an option of a measure is written in
# both worlds, and at the beginning of a message it repeats what was given.
PYTHON = re.compile(
    r"\b(?:lens|maps|mixlens|model|config|handle|recording|batch)\.(?!json)[a-z_]+"
    r"|\bLens(?:\.|\()|\w\((?:…|\)|\w+=)"
    r"|(?!^)\b(?:targets|layers|site|head|per_head|explain|device|device_map|dtype|memory_budget"
    r"|budget|on_error|batch_size|normalise|residual|gold|base|source|target|attn_implementation)="
)

# What only somebody in Python can do wrong. Commands load models, measure texts and draw maps
# themselves.
IN_PYTHON_ALONE = {
    "answers/answered_prompt.py": {"lens.generate"},
    "answers/attention_edges.py": {"lens.leave_one_out"},
    "answers/hops.py": {"lens.generate"},
    "answers/prompt_parts.py": {"Lens("},
    "benchmark/run.py": {"mixlens.datasets"},
    "lens.py": {"device=", "e()", "lens.measure", "lens.measure_batch", "t()"},
    "maps/alternative_attention.py": {"lens.record"},
    "maps/flow.py": {"maps.normalised", "w()"},
    "maps/rollout.py": {"d(absolute=", "maps.heads", "maps.head"},
    "maps/segment_sums.py": {"e()", "k()"},
    "maps/selection.py": {"per_head="},
    "maps/target_row.py": {"p()", "head=", "maps.heads", "per_head="},
    "measuring/measure.py": {"lens.record", "lens.measure", "lens.generate", "targets="},
    "measuring/timing.py": {"budget="},
    "model/distributed.py": {"device_map="},
    "model/wrappers.py": {"Lens.", "d()"},
    "recording/batch_independence.py": {"Lens."},
    "recording/layer.py": {"lens.record"},
    "replay/explained_output.py": {"lens.record"},
    "structure/user_hooks.py": {"handle.remove"},
    "text/answer_tokens.py": {"lens.generate"},
    "text/generation.py": {"lens.generate", "lens.record"},
    "text/padding.py": {"Lens."},
    "text/processing.py": {"Lens("},
    "views/viewer/payload.py": {"Lens."},
    "views/plots/chosen.py": {"head=", "maps.heads"},
    "views/plots/heads.py": {"per_head="},
}
# Models that must be loaded with eager attention: commands have no option for that.
IMPOSSIBLE_YET = {
    "capture/native_attention.py": {"attn_implementation="},
    "structure/model_discovery.py": {"attn_implementation="},
    "structure/probe_passes.py": {"attn_implementation="},
}


def sentences(path: Path) -> list[str]:
    """Every sentence among the strings of a file; what is filled in later is left blank."""
    tree = ast.parse(path.read_text())
    parts = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):  # a docstring
            parts.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values}
    made = []
    for node in ast.walk(tree):
        if id(node) not in parts and isinstance(node, (ast.JoinedStr, ast.Constant)):
            strings = node.values if isinstance(node, ast.JoinedStr) else [node]
            made.append(
                "".join(str(string.value) for string in strings if isinstance(string, ast.Constant))
            )
    return [text for text in made if re.search(r"\w \w+ \w+ \w", text)]


def test_messages_that_the_command_line_can_meet_do_not_speak_python() -> None:
    spoken: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith("cli/") and place != "testing.py":
            for text in sentences(path):
                for phrase in PYTHON.finditer(text):
                    spoken.setdefault(place, set()).add(phrase[0])
    assert spoken == IN_PYTHON_ALONE | IMPOSSIBLE_YET


CAUSAL = "mixlens/bundled/causal"
LONG = "The dogs are old, and the cats are young. " * 17


@pytest.mark.parametrize(
    ("free", "command", "advice"),
    [
        (2.2e6, f"map|{LONG}|--measure|attention|--model|{CAUSAL}", "One target takes about"),
        (
            4.5e6,
            f"map|{LONG}|--generate|2|--measure|decompx",
            "^error: decompx of .* are free. A t",
        ),
        (1.87e6, f"compare|{LONG}|--model|{CAUSAL}", "One target, in single-target mode, takes"),
        (
            None,
            f"compare|{LONG * 2}|--model|{CAUSAL}",
            "raise max_position_embeddings in its configuration",
        ),
        (
            None,
            "compare|The dogs are old.|--measures|attention|--word|are",
            "None of these measures",
        ),
        (None, "map|The dogs|--segments|own", "choose sentences or paragraphs"),
        (None, "map|The dogs|--layer|1|--figure|x.png|--kind|flow", "Measure all layers"),
        (
            None,
            "map|The dogs|--generate|2|--measure|gradient_norm|-o|word=are",
            "Pass one of the 2 targets",
        ),
    ],
)
def test_advice_at_a_terminal_can_be_taken_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: float | None, command: str, advice: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if free is not None:
        size = "mixlens.model.placement.available_memory"
        monkeypatch.setattr(size, lambda device: int(free))
    ran = run(*command.split("|"))
    *_, message = ran.err.strip().splitlines()
    assert ran.status == (2 if free is None else 1)
    assert re.search(advice, message), message
    assert not PYTHON.search(message), message


def test_a_warning_of_torch_about_itself_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def warn(*_: object, **__: object) -> int:
        warnings.warn("`torch.jit.script` is deprecated.", FutureWarning, stacklevel=2)
        warnings.warn("the rollout has collapsed", UserWarning, stacklevel=2)
        return 0

    monkeypatch.setattr("mixlens.cli.app", warn)
    monkeypatch.setattr("sys.argv", ["mixlens", "measures"])
    main()
    assert capsys.readouterr().err == "warning: the rollout has collapsed\n"
