"""The work of a job, without a server."""

from __future__ import annotations

import json
import time
from typing import Any, cast

import pytest

from mixlens import Lens
from mixlens.server.api import Limits, State
from mixlens.server.jobs import Cancelled, Jobs, WebJob
from mixlens.server.work import Measuring
from mixlens.views.viewer.packing import ALL_BYTES

REQUEST = {
    "model": "bundled",
    "text": "The dogs [MASK].",
    "target_text": None,
    "measures": ["attention"],
    "heads": False,
}


def test_heads_of_a_large_text_are_sent_on_request() -> None:
    work = Measuring({"bundled": Lens.bundled()}, Limits())
    text = " ".join(["dogs"] * 230)
    for heads in (False, True):
        request = {**REQUEST, "text": text, "heads": heads}
        (entry,) = json.loads(work(WebJob("id", "key", request)))["maps"]
        assert (entry["heads"] is not None) == heads
    assert len(entry["heads"]["shares"]["data"]) > ALL_BYTES


def test_a_late_job_stops_and_leaves_the_model_as_it_was() -> None:
    lens = Lens.bundled()
    jobs = Jobs(Measuring({"bundled": lens}, Limits()), Limits(seconds=0))
    jobs.start()
    job = jobs.submit(REQUEST)
    for _ in range(1000):
        if job.state.is_final:
            break
        time.sleep(0.01)
    jobs.stop()
    assert job.state is State.failed
    assert "took longer than 0 seconds" in job.message
    assert Measuring({"bundled": lens}, Limits())(WebJob("id", "key", REQUEST))


def test_a_cancelled_job_stops_in_the_middle_of_a_layer() -> None:
    lens = Lens.bundled()
    work = Measuring({"bundled": lens}, Limits())
    assert work(WebJob("first", "key", REQUEST))  # the model is known from here on
    job, model = WebJob("second", "key", REQUEST), cast("Any", lens.model)
    layers = model.bert.encoder.layer

    def cancel(*_: object) -> None:
        job.state = State.cancelled

    ran = []
    hooks = [
        layers[2].register_forward_pre_hook(cancel),
        layers[2].attention.register_forward_pre_hook(lambda *_: ran.append("attention")),
        layers[3].register_forward_pre_hook(lambda *_: ran.append("next layer")),
    ]
    with pytest.raises(Cancelled):
        work(job)
    for hook in hooks:
        hook.remove()
    assert ran == []
    assert work(WebJob("third", "key", REQUEST)), "nothing is left behind"
