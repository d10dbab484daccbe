"""`--figure` of `map` and `compare`: the requested file, or an error before a model runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from mixlens import MixingMaps
from mixlens.cli import app
from mixlens.cli.pictures import write_figure
from mixlens.errors import InvalidInput

pytest.importorskip("matplotlib")

TEXT = "The keys [MASK] old."
run = CliRunner().invoke


def test_map_and_compare_draw_what_they_show(tmp_path: Path) -> None:
    flow, heads, both = (str(tmp_path / name) for name in ("a.svg", "b.svg", "c.png"))
    kind = ["--kind", "flow", "--target", "[MASK]", "--words"]
    result = run(app, ["map", TEXT, "--figure", flow, *kind])
    assert result.exit_code == 0, result.output
    assert "saved the figure in" in result.output
    assert "flow to [MASK] (token 3)" in Path(flow).read_text()
    attention = ["--measure", "attention", "--kind", "heads", "--layer", "0"]
    assert run(app, ["map", TEXT, "--figure", heads, *attention]).exit_code == 0
    assert "layer 0" in Path(heads).read_text()
    assert run(app, ["compare", TEXT, "--figure", both]).exit_code == 0
    assert Path(both).read_bytes().startswith(b"\x89PNG")


def test_a_letter_that_no_font_has_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    maps = MixingMaps.of(np.eye(2)[None], ["\U000107ff", "b"], measure="attention")
    write_figure(tmp_path / "a.svg", lambda: maps.plot("map"))
    notes = [line for line in capsys.readouterr().err.splitlines() if line.startswith("note: ")]
    assert len(notes) == 1


def test_a_long_text_is_drawn_though_a_terminal_cannot_show_it(tmp_path: Path) -> None:
    path = tmp_path / "long.svg"
    result = run(app, ["map", "the old dog " * 20, "-o", "seed=1", "--measure", "random"])
    assert isinstance(result.exception, InvalidInput)
    assert "--figure" in str(result.exception)
    drawn = ["--measure", "random", "--layer", "0", "--figure", str(path)]
    assert run(app, ["map", "the old dog " * 20, *drawn]).exit_code == 0
    assert path.is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--figure", "x.docx"], "Unsupported format"),
        (["--figure", "nowhere/x.png"], "Folder nowhere of --figure nowhere/x.png does not exist"),
        (["--kind", "flow"], "needs --figure"),
        (["--figure", "x.png", "--kind", "foo"], "Unknown kind of figure 'foo'. Choose one"),
    ],
)
@pytest.mark.parametrize("command", ["map", "compare"])
def test_wrong_files_are_refused(command: str, arguments: list[str], message: str) -> None:
    result = run(app, [command, TEXT, "--model", "no/such/model", *arguments])
    assert isinstance(result.exception, InvalidInput)
    assert message in str(result.exception)


def test_flow_starts_from_layers_that_are_not_aggregated() -> None:
    result = run(app, ["map", TEXT, "--rollout", "--figure", "x.png", "--kind", "flow"])
    assert "Drop --rollout" in str(result.exception)
