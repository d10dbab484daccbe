"""The web server: the page at `/`, the API under `/api`, its schema at `/api/openapi.json`."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Collection, Mapping
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
from mixlens.measures import list_measures
from mixlens.server.api import (
    JOB_ID,
    Choices,
    JobCreated,
    JobRequest,
    JobStatus,
    Limits,
    MeasureChoice,
    ModelChoice,
    Problem,
    PublicLimits,
    State,
)
from mixlens.server.guard import LOOPBACK, Guard
from mixlens.server.jobs import Jobs, QueueFull, WebJob
from mixlens.server.work import Measuring, first_request, takes_pairs
from mixlens.views.viewer.page import page

if TYPE_CHECKING:
    from mixlens.lens import Lens

Id = Annotated[str, Path(pattern=JOB_ID, description="Identifier of the job.")]


def create_app(
    lenses: Mapping[str, Lens], limits: Limits | None = None, hosts: Collection[str] = LOOPBACK
) -> FastAPI:
    """Return the app for models by name. The first one is shown at the start."""
    limits = limits or Limits()
    for name, lens in lenses.items():
        if lens.tokenizer is None:
            raise MissingTokenizer(
                f"{name} has no tokenizer, which the page needs for texts. Choose a model "
                "with a tokenizer."
            )
    jobs = Jobs(Measuring(lenses, limits), limits)

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
    _add_page(app, lenses, limits)
    _add_api(app, lenses, limits, jobs)
    app.add_middleware(Guard, hosts=[host.lower() for host in hosts], limits=limits)
    return app


def _answer_in_words(app: FastAPI) -> None:
    """Return every rejection as `{"detail": words}`."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = error.errors()[0]
        where = ".".join(str(part) for part in wrong["loc"] if part != "body")
        return JSONResponse({"detail": f"{where or 'the request'}: {wrong['msg']}"}, 422)

    @app.exception_handler(StarletteError)
    async def refused(request: Request, error: StarletteError) -> JSONResponse:
        return JSONResponse({"detail": str(error.detail)}, error.status_code, error.headers)


def _add_page(app: FastAPI, lenses: Mapping[str, Lens], limits: Limits) -> None:
    name, lens = next(iter(lenses.items()))
    first = json.loads(Measuring(lenses, limits)(WebJob("", "", first_request(name, lens))))

    @cache
    def made() -> tuple[str, dict[str, str]]:
        html = page(first, live={"api": "/api"})
        return html, {"content-security-policy": f"{_policy_of(html)}; frame-ancestors 'none'"}

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def home() -> HTMLResponse:
        html, headers = made()
        return HTMLResponse(html, headers=headers)


def _policy_of(html: str) -> str:
    """Return the content security policy of the page, for the header."""
    written = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert written is not None
    return unescape(written[1])


def _choices(lenses: Mapping[str, Lens], limits: Limits) -> Choices:
    """Return models, measures and limits of a server."""
    return Choices(
        version=mixlens.__version__,
        models=[ModelChoice(name=name, pairs=takes_pairs(lens)) for name, lens in lenses.items()],
        measures=[
            MeasureChoice(name=name, summary=spec.summary, per_head=spec.per_head)
            for name, spec in list_measures().items()
            if spec.gives != "graph"
        ],
        limits=PublicLimits(
            tokens=limits.tokens,
            characters=limits.characters,
            waiting=limits.waiting,
            jobs_per_minute=limits.jobs_per_minute,
        ),
    )


def _add_api(app: FastAPI, lenses: Mapping[str, Lens], limits: Limits, jobs: Jobs) -> None:
    choices = _choices(lenses, limits)
    known = {measure.name for measure in choices.measures}
    refusals = _refusals(404, 422)

    @app.get("/api", responses=_refusals())
    def what_there_is() -> Choices:
        """Return models, measures and limits of this server."""
        return choices

    @app.post("/api/jobs", status_code=202, responses=_refusals(413, 422, 429, 503))
    def new_job(request: JobRequest) -> JobCreated:
        """Queue a text to be measured."""
        _check(request, lenses, known, limits)
        try:
            job = jobs.submit(_content(request))
        except QueueFull as error:
            detail = f"{limits.waiting} jobs are waiting already. Try again later."
            raise HTTPException(503, detail, {"Retry-After": "5"}) from error
        return JobCreated(id=job.id)

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


def _check(
    request: JobRequest, lenses: Mapping[str, Lens], known: Collection[str], limits: Limits
) -> None:
    """Reject requests that no job could fulfil."""
    if request.model not in lenses:
        raise HTTPException(422, f"Unknown model. Choose one of: {', '.join(lenses)}.")
    unknown = [name for name in request.measures if name not in known]
    if unknown:
        raise HTTPException(422, f"Unknown measure {unknown[0]!r}.")
    pairs = takes_pairs(lenses[request.model])
    if pairs != (request.target_text is not None):
        needs = "a target text too" if pairs else "one text and no target text"
        raise HTTPException(422, f"This model needs {needs}.")
    for text in (request.text, request.target_text or ""):
        if len(text) > limits.characters:
            raise HTTPException(
                422,
                (
                    f"{len(text)} characters are too many for this server. Shorten the text to "
                    f"{limits.characters}."
                ),
            )


def _content(request: JobRequest) -> dict[str, Any]:
    """Return the part of a request that determines the result."""
    return {**request.model_dump(), "measures": list(dict.fromkeys(request.measures))}


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the possible rejections for the schema. Those of the guard can always occur."""
    return {status: {"model": Problem} for status in (403, 421, *statuses)}
