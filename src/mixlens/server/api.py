"""Requests and responses of the server. The page communicates with the server only through these
types."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

JOB_ID = r"^[A-Za-z0-9_-]{22}$"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one server."""

    tokens: int = 1024  # tokens of a text, including special tokens
    characters: int = 20_000  # characters of a text, before tokenisation
    waiting: int = 16  # waiting jobs
    kept: int = 256  # finished jobs that are kept
    kept_bytes: int = 256 * 2**20  # bytes of their results
    body_bytes: int = 128 * 2**10  # bytes of a request
    jobs_per_minute: int = 60  # jobs per address and minute
    connections: int = 256
    prompt_tokens: int = 4096  # tokens of a prompt with its documents and a given answer
    new_tokens: int = 256  # generated tokens
    seconds: float = 600  # seconds that a job may run


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModelChoice(_Strict):
    """A model that the server was started with."""

    name: str
    pairs: Annotated[bool, Field(description="Whether the model needs a source and a target text.")]
    measures: Annotated[list[str], Field(description="Measures that support the model.")]
    methods: Annotated[
        list[str],
        Field(
            description=(
                "Methods that explain its answers, the default first. Empty if it cannot answer."
            )
        ),
    ]
    chats: Annotated[bool, Field(description="Whether the tokenizer has a chat template.")]


class MeasureChoice(_Strict):
    """A measure that clients can request."""

    name: str
    summary: str
    per_head: bool


class PublicLimits(_Strict):
    """Limits that are reported to clients."""

    tokens: int
    characters: int
    waiting: int
    jobs_per_minute: int
    prompt_tokens: int
    new_tokens: int
    seconds: float


class Choices(_Strict):
    """Models, measures and limits of a server."""

    version: str
    models: list[ModelChoice]
    measures: list[MeasureChoice]
    limits: PublicLimits


class Health(_Strict):
    """Reports that the server accepts requests."""

    status: Literal["ok"]


class JobRequest(_Strict):
    """A text to measure."""

    model: Annotated[str, Field(max_length=300)]
    text: Annotated[str, Field(min_length=1)]
    target_text: Annotated[
        str | None, Field(description="Decoder text, for models that take pairs.")
    ] = None
    measures: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1)]
    heads: Annotated[
        bool, Field(description="Include single heads, for measures that have them.")
    ] = False


class Turn(_Strict):
    """A message of a chat."""

    role: Annotated[str, Field(pattern="^(system|user|assistant)$")]
    content: Annotated[str, Field(min_length=1)]


class Document(_Strict):
    """A document of a prompt."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(min_length=1)]


class AnswerRequest(_Strict):
    """A prompt to answer. The server also scores the passages that support the answer."""

    model: Annotated[str, Field(max_length=300)]
    messages: Annotated[
        list[Turn],
        Field(
            min_length=1, max_length=64, description="One turn of the user is the prompt as it is."
        ),
    ]
    documents: Annotated[
        list[Document],
        Field(
            max_length=200,
            description="Put where the prompt says {documents}, else in front of the last turn.",
        ),
    ] = []
    answer: Annotated[
        str | None,
        Field(
            min_length=1, description="The answer to explain. By default the model generates it."
        ),
    ] = None
    methods: Annotated[
        list[Annotated[str, Field(max_length=100)]], Field(min_length=1, max_length=8)
    ]
    max_new_tokens: Annotated[int, Field(ge=1)] = 64


class State(StrEnum):
    """State of a job."""

    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def is_final(self) -> bool:
        """Return whether the job has ended (done, failed or cancelled)."""
        return self in (State.done, State.failed, State.cancelled)


class JobCreated(_Strict):
    """The identifier of a new job."""

    id: Annotated[str, Field(pattern=JOB_ID)]


class JobStatus(JobCreated):
    """State and progress of a job."""

    state: State
    progress: Annotated[float, Field(ge=0, le=1)]
    message: Annotated[str, Field(description="Current step, or the reason of a failure.")]


class Problem(_Strict):
    """The reason why a request was rejected."""

    detail: str
