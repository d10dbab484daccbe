"""The run on the bundled model: kept on the disk, resumed after a kill, with broken rows and with
other settings.
"""

from __future__ import annotations

import inspect
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mixlens import Lens
from mixlens.benchmark import benchmark
from mixlens.datasets import Dataset
from mixlens.datasets.examples import Agreement, Labelled
from mixlens.errors import InvalidInput
from mixlens.evaluating.case import cases
from mixlens.evaluations import cue_alignment
from mixlens.runs.journal import Journal
from tests.runs.patience import wait_for_lines

MEASURES = ["attention_norm", "gradient_norm", "blank_out"]
EVALUATIONS = ["cue_alignment", "erasure"]


def results(folder: Path) -> dict[str, Any]:
    """Everything but the seconds, which no two runs share."""
    saved: dict[str, Any] = json.loads((folder / "results.json").read_text())
    for entry in saved["measures"]:
        del entry["seconds_per_text"]
    return saved


@pytest.mark.smoke
def test_values_are_those_of_the_evaluation(lens: Lens, examples: list[Agreement]) -> None:
    ranking = benchmark(lens, examples, MEASURES, ["cue_alignment"])
    assert set(ranking.order) == {*MEASURES, "random"}
    for measure in MEASURES:
        expected = cue_alignment.evaluate(cases(lens, examples), measure)
        result = ranking.columns["cue_alignment"].results[measure]
        np.testing.assert_allclose(result.value, expected.value, rtol=1e-6)
        np.testing.assert_allclose(result.per_example, expected.per_example, rtol=1e-5)
    frame = ranking.to_dataframe()
    assert list(frame["measure"]) == list(ranking.order)
    assert frame["value"].is_monotonic_decreasing
    assert all(seconds > 0 for seconds in ranking.seconds.values())


def test_a_killed_run_goes_on_and_ends_with_the_same_numbers(
    lens: Lens, examples: list[Agreement], tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    benchmark(lens, examples, MEASURES, EVALUATIONS, whole)
    program = (
        "import sys, torch; torch.set_num_threads(1)\nfrom mixlens import Lens; from"
        " mixlens.benchmark import benchmark\nfrom tests.benchmark.conftest import SENTENCES,"
        " agreement\nexamples ="
        " [agreement(n, *s) for n, s in enumerate(SENTENCES, 1)]\nbenchmark(Lens.bundled(),"
        f" examples, {MEASURES}, {EVALUATIONS}, sys.argv[1], progress=lambda *_:"
        " __import__('time').sleep(0.5))"
    )
    journal = killed / "journal.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(killed)], cwd=Path(__file__).parents[2]
    ) as process:
        try:
            wait_for_lines(journal, process, 2)
        finally:
            process.send_signal(signal.SIGKILL)
    before = journal.read_bytes()
    assert 2 <= before.count(b"\n") < len(examples)
    assert not (killed / "results.json").exists()
    with open(journal, "ab") as file:
        file.write(before[: before.index(b"\n") // 2])  # the line that was being written
    benchmark(lens, examples, MEASURES, EVALUATIONS, killed)
    assert journal.read_bytes().startswith(before)
    assert results(killed) == results(whole)
    again = journal.read_bytes()
    benchmark(lens, examples, MEASURES, EVALUATIONS, killed)
    assert journal.read_bytes() == again


def test_other_settings_are_refused_and_named(
    lens: Lens, examples: list[Agreement], tmp_path: Path
) -> None:
    benchmark(lens, examples[:2], ["attention"], ["cue_alignment"], tmp_path)
    with pytest.raises(
        InvalidInput, match=r"measures: no longer attention, now also alti.*--out.*--fresh"
    ):
        benchmark(lens, examples[:2], ["alti"], ["cue_alignment"], tmp_path)
    with pytest.raises(InvalidInput, match="data hash was"):
        benchmark(lens, examples[1:3], ["attention"], ["cue_alignment"], tmp_path)
    benchmark(lens, examples[1:3], ["attention"], ["cue_alignment"], tmp_path, fresh=True)
    assert (tmp_path / "journal.jsonl").read_bytes().count(b"\n") == 2
    settings = json.loads((tmp_path / "settings.json").read_text())
    with (
        Journal.open(tmp_path, settings),
        pytest.raises(InvalidInput, match="in use by another run"),
    ):
        benchmark(lens, examples[1:3], ["attention"], ["cue_alignment"], tmp_path)


def test_other_weights_are_other_settings(examples: list[Agreement], tmp_path: Path) -> None:
    lens = Lens.bundled()
    benchmark(lens, examples[:1], ["attention"], ["cue_alignment"], tmp_path)
    next(iter(lens.model.parameters())).data.mul_(1.001)
    with pytest.raises(InvalidInput, match="model weights was"):
        benchmark(lens, examples[:1], ["attention"], ["cue_alignment"], tmp_path)


def test_a_broken_row_is_named_and_the_run_goes_on(
    lens: Lens, examples: list[Agreement], tmp_path: Path
) -> None:
    odd = replace(examples[1], name="sentences:odd", foil="antidisestablishmentarianism")
    blind = replace(examples[2], name="sentences:blind", cues=())
    data = Dataset(
        "six", "agreement", (blind, *examples, odd), errors=(("six.csv:9", "no column target"),)
    )
    ranking = benchmark(lens, data, ["attention_norm", "gradient_norm"], EVALUATIONS, tmp_path)
    reasons = {(error.example, error.evaluation) for error in ranking.errors}
    assert ("sentences:blind", "cue_alignment") in reasons
    assert ("six.csv:9", "") in reasons
    assert any(name == "sentences:odd" for name, _ in reasons)
    aligned = ranking.columns["cue_alignment"]
    assert np.isnan(aligned.values["attention_norm"]).tolist() == [
        True,
        *[False] * 7,
    ]  # each number stays with its text
    written = (tmp_path / "errors.csv").read_text()
    for name in ("sentences:blind", "sentences:odd", "six.csv:9"):
        assert name in written
        assert name in (tmp_path / "report.html").read_text()


def test_excluded_measures_are_listed_with_the_reason(
    lens: Lens, examples: list[Agreement]
) -> None:
    ranking = benchmark(
        lens,
        examples[:2],
        ["attention"],
        ["cue_alignment", "word_alignment", "cross_model_consistency"],
    )
    assert ranking.left_out["word_alignment"].startswith("it needs alignment examples")
    assert "--other-model" in ranking.left_out["cross_model_consistency"]
    with pytest.raises(InvalidInput, match="No evaluation applies"):
        benchmark(
            lens,
            [Labelled(name="x:1", text="Dogs bark.", label="1")],
            ["attention"],
            ["cue_alignment"],
        )
    with pytest.raises(InvalidInput, match="Unknown measure 'attenshun'"):
        benchmark(lens, examples, ["attenshun"])
    with pytest.raises(InvalidInput, match="No examples were passed"):
        benchmark(lens, [])


def test_a_measure_that_always_fails_is_listed_once(
    lens: Lens, examples: list[Agreement], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mixlens.measures import alti

    monkeypatch.setattr(
        alti, "refusal", lambda layer, site: "its blocks are made of glass", raising=False
    )
    ranking = benchmark(lens, examples[:2], ["attention", "alti"], EVALUATIONS)
    assert "made of glass" in ranking.left_out["alti"]
    assert "alti" not in ranking.order
    assert not ranking.errors


def test_a_second_model(lens: Lens, examples: list[Agreement]) -> None:
    ranking = benchmark(lens, examples[:2], ["attention"], ["cross_model_consistency"], other=lens)
    assert ranking.columns["cross_model_consistency"].results["attention"].value == pytest.approx(
        1.0
    )


class _Page(HTMLParser):
    void = {"meta", "rect", "path", "use", "br", "wbr"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.rows: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag not in self.void:
            self.open.append(tag)
        self.ids += [attributes["id"] or ""] if "id" in attributes else []
        self.links += [value or "" for key, value in attrs if key in ("src", "href", "xlink:href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.void:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.void or self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        self.text += data
        if "th" in self.open and "tbody" in self.open:
            self.rows.append(data)


def test_the_report_is_one_sound_page(
    lens: Lens, examples: list[Agreement], tmp_path: Path
) -> None:
    odd = replace(examples[0], name="<b>sentences</b>:1", cues=())
    ranking = benchmark(lens, [*examples, odd], MEASURES, [*EVALUATIONS, "anisotropy"], tmp_path)
    html = (tmp_path / "report.html").read_text()
    page = _Page()
    page.feed(html.replace("<wbr>", ""))
    page.close()
    assert page.open == []
    assert len(page.ids) == len(set(page.ids)) > 0
    assert all(link.startswith("#") and link[1:] in page.ids for link in page.links), (
        "nothing is loaded from elsewhere"
    )
    assert "url(http" not in html
    assert "@import" not in html
    for place, measure in enumerate(ranking.order, 1):
        assert f"{place}. {measure}" in page.rows
        assert measure in (tmp_path / "report.md").read_text()
    assert html.count("<svg") == 3
    assert "cosine of two block outputs, of all texts" in page.rows
    around, frames = re.subn("<iframe .*?</iframe>", "", html, flags=re.S)
    assert frames == 1, "one text in the viewer"
    assert "#16191d" not in around.split("</style>")[1], "ink follows light and dark"
    assert "<b>sentences" not in html
    assert ranking.verdict.splitlines()[0] in page.text
    assert f"anisotropy: {ranking.of_model['anisotropy'].value:.3f}" in page.text
    for path in (tmp_path / "plots").iterdir():
        assert path.name in (tmp_path / "report.md").read_text()
    ranking.to_html(tmp_path / "ranking.html")
    assert "Which measure to trust" in (tmp_path / "ranking.html").read_text(encoding="utf-8")


def test_observations_are_a_table(lens: Lens, examples: list[Agreement], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    ranking = benchmark(lens, examples[:3], ["attention"], ["cue_alignment", "probing"], tmp_path)
    frame = pq.read_table(tmp_path / "observations.parquet").to_pandas()
    ours = frame[(frame["evaluation"] == "cue_alignment") & (frame["measure"] == "attention")]
    assert list(ours["example"]) == [example.name for example in examples[:3]]
    np.testing.assert_array_equal(
        ours["value"], ranking.columns["cue_alignment"].results["attention"].per_example
    )
    assert (frame["measure"] == "").sum() == 6  # probing and accuracy judge the model


def test_evaluations_with_cases_of_their_own_need_no_text(
    lens: Lens, examples: list[Agreement]
) -> None:
    from mixlens.evaluations import planted_truth

    ranking = benchmark(lens, examples[:1], ["attention"], ["planted_truth"])
    column, expected = ranking.columns["planted_truth"], planted_truth.evaluate("attention")
    assert column.results["attention"].value == expected.value
    np.testing.assert_array_equal(column.values["attention"], expected.per_example)
    assert not column.by_text
    assert "attention" not in ranking.seconds  # no text was measured


def test_equivalent_requests_are_computed_once(
    lens: Lens, examples: list[Agreement], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mixlens.measures import value_zeroing
    from mixlens.runs.observing import TimedCase

    calls = []
    score_layer = value_zeroing.score_layer

    def counted(layer: Any, attention: Any, targets: Any, **options: Any) -> Any:
        if layer.index == 0:
            calls.append(options)
        return score_layer(layer, attention, targets, **options)

    counted.__signature__ = inspect.signature(score_layer)  # type: ignore[attr-defined]
    monkeypatch.setattr(value_zeroing, "score_layer", counted)
    case = TimedCase(lens, examples[0], options={})
    usual = case.maps("value_zeroing")
    assert case.maps("value_zeroing", distance="cosine") is usual
    assert case.maps("value_zeroing", distance="euclidean") is not usual
    heads = {"per_head": False}
    assert calls == [heads, {**heads, "distance": "euclidean"}]
    assert case.seconds["value_zeroing"] > 0


def test_probing_becomes_a_column_about_measures() -> None:
    from mixlens.benchmark.findings import conclude_run
    from mixlens.benchmark.plan import Plan

    draw = np.random.default_rng(0)
    entries = []
    for number in range(60):
        label = number % 2
        states = (
            draw.normal(size=(4, 8)) + 3 * label * np.array([0, 0.1, 0.4, 1])[:, None]
        )  # the label comes in layer by layer
        seen = [
            {
                "evaluation": "probing",
                "measure": "",
                "seen": {"states": states, "label": np.array(str(label))},
            }
        ]
        for measure, layers in (
            ("attention", [0.1, 0.2, 0.3]),
            ("alti", [0.3, 0.2, 0.1]),
            ("blank_out", [0.5]),
        ):
            seen.append(
                {
                    "evaluation": "cue_alignment",
                    "measure": measure,
                    "seen": {"value": 0.2, "layers": layers},
                }
            )
        entries.append(
            {
                "piece": str(number),
                "example": f"x:{number}",
                "observations": seen,
                "errors": [],
                "seconds": {},
            }
        )
    plan = Plan(
        measures=("attention", "alti", "blank_out", "random"),
        of_measures=("cue_alignment",),
        of_model=("probing",),
    )
    findings = conclude_run(entries, plan, 60)
    column = next(column for column in findings.columns if column.evaluation == "probing")
    assert {m: r.value for m, r in column.results.items()} == {
        "attention": pytest.approx(1.0),
        "alti": pytest.approx(-1.0),
    }
    assert findings.of_model["probing"].details["layers"][-1] > 1.5
