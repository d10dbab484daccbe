"""Find the measures and methods that support each model of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import mixlens
from mixlens.answers.method_scores import DEFAULTS, REMOVAL
from mixlens.measures import ready_measures, refusal
from mixlens.measuring.verifying import list_refusals
from mixlens.model.session import open_session
from mixlens.server.api import Choices, Limits, MeasureChoice, ModelChoice, PublicLimits
from mixlens.server.work import takes_pairs
from mixlens.text.dummy_inputs import default_input

if TYPE_CHECKING:
    from mixlens.lens import Lens
    from mixlens.recording.recording import Recording


def list_choices(lenses: Mapping[str, Lens], limits: Limits) -> Choices:
    """Return the models, measures and limits of a server.

    Measures that support none of the models are left out.
    """
    models = [_model_choice(name, lens) for name, lens in lenses.items()]
    offered = {name for model in models for name in model.measures}
    return Choices(
        version=mixlens.__version__,
        models=models,
        measures=[
            MeasureChoice(name=name, summary=spec.summary, per_head=spec.per_head)
            for name, spec in ready_measures().items()
            if name in offered
        ],
        limits=PublicLimits(
            tokens=limits.tokens,
            characters=limits.characters,
            waiting=limits.waiting,
            jobs_per_minute=limits.jobs_per_minute,
            prompt_tokens=limits.prompt_tokens,
            new_tokens=limits.new_tokens,
            seconds=limits.seconds,
        ),
    )


def _model_choice(name: str, lens: Lens) -> ModelChoice:
    """Record one text to find out which measures support the model."""
    recording = lens.record(default_input(lens.model, lens.tokenizer))
    with open_session(lens.model):
        refusals = list_refusals(recording)
    return ModelChoice(
        name=name,
        pairs=takes_pairs(lens),
        measures=[
            measure
            for measure, spec in ready_measures().items()
            if spec.gives != "graph" and refusals[measure] is None
        ],
        methods=_list_methods(lens, recording),
        chats=getattr(lens.tokenizer, "chat_template", None) is not None,
    )


def _list_methods(lens: Lens, recording: Recording) -> list[str]:
    """Return the methods that can explain answers of the model. The default comes first."""
    can_generate = getattr(lens.model, "can_generate", None)
    if can_generate is None or not can_generate():
        return []
    sites = recording.structure.sites
    site = [key for key, attention in sites.items() if attention.stack is recording.last_stack][-1]
    methods = [
        name
        for name, spec in ready_measures().items()
        if spec.row_by_row and refusal(name, recording.structure, site) is None
    ]
    preferred = [name for name in DEFAULTS if name in methods][:1]
    if not preferred:
        return []
    return [*preferred, *(name for name in methods if name not in preferred), *REMOVAL]
