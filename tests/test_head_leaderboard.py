"""Learned head weights: kept prompts, fits and tests on other data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.leaderboard import heads, workers
from training.leaderboard.answers import slug


def kept(count: int, seed: int) -> list[heads.Prompt]:
    """Prompts of three documents in which one head of four points to the evidence."""
    generator = np.random.default_rng(seed)
    masks = np.array(list(np.ndindex(2, 2, 2))).astype(bool)
    prompts: list[heads.Prompt] = []
    for _ in range(count):
        evidence = int(generator.integers(3))
        features = generator.random((3, 4))
        features[:, 2] = np.arange(3) == evidence
        prompts.append(
            {
                **dict.fromkeys(heads.FEATURES, features),
                "masks": masks,
                "odds": 5.0 * masks[:, evidence] + 0.1 * generator.random(8),
                "evidence": np.array([evidence]),
            }
        )
    return prompts


def test_the_head_that_points_to_the_evidence_is_learned() -> None:
    rows = heads.compare({"a": kept(12, 0), "b": kept(12, 1)})["rows"]
    assert len(rows) == 16
    for row in rows:
        assert row["tested"] == (6 if row["fitted on"] == row["tested on"] else 12)
        assert row["learned"] > 0.9
        assert row["learned"] >= row["equal weights"]
        assert row["p against attention"] == 1.0  # all features are the same here


def test_prompts_are_kept_once(tmp_path: Path) -> None:
    address = "generated:fact?documents=2"
    workers.begin("mixlens/bundled/causal", "cpu")
    kept = heads.Kept(address, tmp_path / slug(address), 1)
    while (job := kept.next_job()) is not None:
        kept.take(job, job[0](*job[1]))
    assert kept.finished
    assert heads.Kept(address, kept.folder, 1).next_job() is None
    (only,) = kept.load()
    assert only["odds"].shape == (4,)
    alone = only["masks"][:, only["evidence"][0]] & (only["masks"].sum(1) == 1)
    assert only["odds"][alone] > only["odds"][0]  # the evidence against no document
    shapes = {only[name].shape for name in heads.FEATURES}
    assert len(shapes) == 1  # [document, layer * head]
    assert shapes.pop()[0] == 2
