"""The ranking on data that is not agreement: classes of texts, and translations with gold
alignments.
"""

from __future__ import annotations

from mixlens import benchmark as trust
from tests.papers.settings import dataset_for, lens_for


def test_a_classifier_is_judged_by_what_fits_classes() -> None:
    measures = ["attention", "alti", "gradient_norm", "blank_out"]
    ranking = trust.benchmark(
        lens_for("classifier"), dataset_for("classification", 3), measures=measures
    )
    assert set(ranking.order) == {*measures, "random"}
    assert {"erasure", "aopc", "gradient_agreement", "randomisation", "planted_truth"} <= set(
        ranking.columns
    )
    assert "cue_alignment" not in ranking.columns
    assert "cue_alignment" in str(ranking.left_out)
    assert not ranking.errors


def test_a_translation_model_is_judged_by_word_alignments() -> None:
    measures = ["attention", "attention_norm", "value_zeroing"]
    ranking = trust.benchmark(
        lens_for("translation"),
        dataset_for("alignment", 3),
        measures=measures,
        evaluations=["word_alignment"],
    )
    column = ranking.columns["word_alignment"]
    assert set(ranking.order) == {*measures, "random"}
    for measure in measures:
        assert 0 <= column.results[measure].value <= 1
    assert not ranking.errors
