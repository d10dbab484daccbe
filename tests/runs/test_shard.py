"""A shard on a device: no call waits for the device, and errors are still detected."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mixlens import Lens
from mixlens.datasets.shards import cut_into_shards
from mixlens.model.session import open_session
from mixlens.runs.batch import start_measuring
from mixlens.runs.job import Job
from mixlens.runs.shard import ShardWorker, read_texts

LINES = ["The old dog .", "A cat saw the bird .", "The keys are on the table near the window ."]


class _Looks(TorchDispatchMode):
    """Counts the calls for which a GPU would have to finish its work."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "equal"):
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def _worker(tmp_path: Path, lens: Lens, *measures: str) -> tuple[ShardWorker, Any]:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{line}\n" for line in LINES))
    worker = ShardWorker(lens, Job(corpus=str(corpus), out=str(tmp_path), measures=measures))
    (shard,) = cut_into_shards(str(corpus), 10)
    return worker, shard


@pytest.mark.parametrize("measure", ["attention", "attention_norm", "alti"])
def test_a_batch_is_started_without_a_look_at_a_number(
    measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mixlens.kernels.differences.may_look_at", lambda numbers: False)
    worker, shard = _worker(tmp_path, Lens.bundled(), measure)
    texts = read_texts(worker.lens, worker.job, shard)
    worker.measure(texts)  # finds out how the model is put together
    ((batch, ready),) = texts.batches
    with _Looks() as plain, torch.no_grad():
        assert ready is not None
        worker.lens.model(**ready.tensors)
    with open_session(worker.lens.model) as session:
        assert session.state  # one look at the weights for all batches
        with _Looks() as ours:
            underway = start_measuring(worker.lens, worker.job, texts.rows, batch, ready)
    assert ours.seen == plain.seen  # the model itself looks at its mask
    assert len(underway.conclude().chunks) == 1


def test_a_text_with_nan_is_found_although_checks_wait(tmp_path: Path) -> None:
    lens = Lens.bundled()
    word = lens.tokenizer.convert_tokens_to_ids("window")
    worker, shard = _worker(tmp_path, lens, "attention", "alti")
    expected = worker.measure(read_texts(lens, worker.job, shard))
    assert not expected.failed
    lens.model.get_parameter("bert.embeddings.word_embeddings.weight").data[word] = torch.nan
    measured = worker.measure(read_texts(lens, worker.job, shard))
    assert list(measured.failed) == [2]
    assert "layer 0 of encoder" in measured.failed[2]
    assert "NaN" in measured.failed[2]
    kept = {(chunk.measure, place) for chunk in measured.chunks for place in chunk.places}
    assert kept == {(measure, place) for measure in ("attention", "alti") for place in (0, 1)}
