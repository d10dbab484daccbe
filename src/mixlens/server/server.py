"""The web server. It serves the page at `/`, the API under `/api`, and the API's schema at
`/api/openapi.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from html import unescape
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException as StarletteError

import mixlens
from mixlens.errors import MissingTokenizer
from mixlens.server.answering import Answering, first_answer
from mixlens.server.api import (
    JOB_ID,
    AnswerRequest,
    Choices,
    Health,
    JobCreated,
    JobRequest,
    JobStatus,
    Limits,
    ModelChoice,
    Problem,
    State,
)
from mixlens.server.choices import list_choices
from mixlens.server.guard import LOOPBACK, Guard
from mixlens.server.jobs import Jobs, QueueFull, WebJob
from mixlens.server.work import Measuring, first_request
from mixlens.views.viewer.page import page

if TYPE_CHECKING:
    from mixlens.lens import Lens

Id = Annotated[str, Path(pattern=JOB_ID, description="Identifier of the job.")]


def create_app(
    lenses: Mapping[str, Lens], limits: Limits | None = None, hosts: Collection[str] = LOOPBACK
) -> FastAPI:
    """Create the app for these models. The page initially shows the first model."""
    limits = limits or Limits()
    for name, lens in lenses.items():
        if lens.tokenizer is None:
            raise MissingTokenizer(
                f"{name} has no tokenizer, which the page needs for texts. Choose a model "
                "with a tokenizer."
            )
    choices = list_choices(lenses, limits)
    measuring, answering = Measuring(lenses, limits), Answering(lenses, limits)

    def work(job: WebJob) -> bytes:
        return (answering if "messages" in job.request else measuring)(job)

    jobs = Jobs(work, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        jobs.start()
        yield
        jobs.stop()

    app = FastAPI(
        title="mixlens",
        version=mixlens.__version__,
        description="Measure how much each token contributes to every other one.",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # these pages load scripts from other servers
        redoc_url=None,
    )
    _answer_in_words(app)
    first = choices.models[0]
    _add_page(app, work(WebJob("", "", _first(first, lenses[first.name]))))
    _add_api(app, choices, limits, jobs)
    app.add_middleware(Guard, hosts=[host.lower() for host in hosts], limits=limits)
    return app


def _answer_in_words(app: FastAPI) -> None:
    """Return every error as JSON in the form `{"detail": message}`."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"] if part != "body")
        return JSONResponse({"detail": f"{where or 'the request'}: {wrong['msg']}"}, 422)

    @app.exception_handler(StarletteError)
    async def refused(request: Request, error: StarletteError) -> JSONResponse:
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)


def _first(model: ModelChoice, lens: Lens) -> dict[str, Any]:
    """Return the request that the page initially shows.

    For a model that generates text, the request contains a prompt to answer. For other models, it
    contains a text to measure.
    """
    if model.methods and not model.pairs:
        return first_answer(model.name, model.methods[0], chats=model.chats)
    return first_request(model.name, lens, model.measures)


def _add_page(app: FastAPI, result: bytes) -> None:
    first = json.loads(result)

    @cache
    def render() -> tuple[str, dict[str, str]]:
        html = page(first, live={"api": "/api"})
        return html, {"content-security-policy": f"{_policy_of(html)}; frame-ancestors 'none'"}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def home() -> HTMLResponse:
        html, headers = render()
        return HTMLResponse(html, headers=headers)


def _policy_of(html: str) -> str:
    """Return the content security policy of the page, to be sent as a header."""
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert match is not None
    return unescape(match[1])


def _add_api(app: FastAPI, choices: Choices, limits: Limits, jobs: Jobs) -> None:
    models = {model.name: model for model in choices.models}
    refusals = _refusals(404, 422)

    @app.get("/api", responses=_refusals())
    def what_there_is() -> Choices:
        """Return models, measures and limits of this server."""
        return choices

    @app.get("/api/health", responses=_refusals())
    def health() -> Health:
        """Report that the server is running. The queue may be full."""
        return Health(status="ok")

    def submit(content: dict[str, Any]) -> JobCreated:
        try:
            job = jobs.submit(content)
        except QueueFull as error:
            detail = f"{limits.waiting} jobs are waiting already. Try again later."
            raise HTTPException(503, detail, {"Retry-After": "5"}) from error
        return JobCreated(id=job.id)

    @app.post("/api/jobs", status_code=202, responses=_refusals(413, 422, 429, 503))
    def new_job(request: JobRequest) -> JobCreated:
        """Queue a text to be measured."""
        _check(request, models, limits)
        return submit({**request.model_dump(), "measures": _unique(request.measures)})

    @app.post("/api/answers", status_code=202, responses=_refusals(413, 422, 429, 503))
    def new_answer(request: AnswerRequest) -> JobCreated:
        """Queue a prompt to be answered and explained."""
        _check_answer(request, models, limits)
        return submit({**request.model_dump(), "methods": _unique(request.methods)})

    def known_job(job_id: str) -> WebJob:
        job = jobs.get(job_id)
        if job is None:
            raise HTTPException(404, "Unknown job. It may have expired.")
        return job

    @app.get("/api/jobs/{job_id}", responses=refusals)
    def status(job_id: Id) -> JobStatus:
        """Return the progress of a job."""
        job = known_job(job_id)
        return JobStatus(id=job.id, state=job.state, progress=job.progress, message=job.message)

    @app.get(
        "/api/jobs/{job_id}/payload",
        response_class=Response,
        responses={200: {"content": {"application/json": {}}}, **_refusals(404, 409, 422)},
    )
    def payload(job_id: Id) -> Response:
        """Return the result of a finished job for the viewer (docs/viewer.md)."""
        job = known_job(job_id)
        if job.state is not State.done:
            raise HTTPException(409, f"The job is {job.state}: {job.message}")
        result = jobs.result(job)
        if result is None:
            raise HTTPException(404, "The result has expired. Send the request again.")
        return Response(result, media_type="application/json")

    @app.delete("/api/jobs/{job_id}", status_code=204, responses=refusals)
    def cancel(job_id: Id) -> None:
        """Cancel a job. A finished job stays as it is."""
        jobs.cancel(known_job(job_id))


def _check(request: JobRequest, models: Mapping[str, ModelChoice], limits: Limits) -> None:
    """Raise an error for a request that no job could fulfil."""
    model = _find_model(request.model, models)
    for name in request.measures:
        if name not in model.measures:
            raise HTTPException(422, f"Measure {name!r} is unknown or does not support this model.")
    if model.pairs != (request.target_text is not None):
        needs = "a target text too" if model.pairs else "one text and no target text"
        raise HTTPException(422, f"This model needs {needs}.")
    _require_short((request.text, request.target_text or ""), limits.characters)


def _check_answer(
    request: AnswerRequest, models: Mapping[str, ModelChoice], limits: Limits
) -> None:
    model = _find_model(request.model, models)
    if not model.methods:
        raise HTTPException(422, "This model does not generate text. Choose another model.")
    for name in request.methods:
        if name not in model.methods:
            raise HTTPException(422, f"Method {name!r} is unknown or does not support this model.")
    if request.max_new_tokens > limits.new_tokens:
        raise HTTPException(
            422,
            f"{request.max_new_tokens} new tokens are too many for this server. Request at most"
            f" {limits.new_tokens}.",
        )
    texts = [turn.content for turn in request.messages]
    texts += [document.text for document in request.documents]
    _require_short(texts, limits.characters)


def _find_model(name: str, models: Mapping[str, ModelChoice]) -> ModelChoice:
    if name not in models:
        raise HTTPException(422, f"Unknown model. Choose one of: {', '.join(models)}.")
    return models[name]


def _require_short(texts: Iterable[str], most: int) -> None:
    for text in texts:
        if len(text) > most:
            raise HTTPException(
                422,
                f"{len(text)} characters are too many for this server. Shorten the text to {most}"
                " characters.",
            )


def _unique(names: list[str]) -> list[str]:
    """Remove duplicate names, so that equivalent requests share a result."""
    return list(dict.fromkeys(names))


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of an endpoint, for the API schema.

    Every endpoint can return the errors 403 and 421 of the request checks.
    """
    return {status: {"model": Problem} for status in (403, 421, *statuses)}
