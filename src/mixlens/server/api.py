"""What the server is asked and what it answers. The page uses nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

JOB_ID = r"^[A-Za-z0-9_-]{22}$"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one server takes on."""

    tokens: int = 1024  # of a text, special tokens included
    characters: int = 20_000  # of a text, before it is cut into tokens
    waiting: int = 16  # jobs that wait for their turn
    kept: int = 256  # finished jobs that are remembered
    kept_bytes: int = 256 * 2**20  # of their results
    body_bytes: int = 128 * 2**10  # of a request
    jobs_per_minute: int = 60  # of one address
    connections: int = 256


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ModelChoice(_Strict):
    """A model that was named when the server was started."""

    name: str
    pairs: Annotated[bool, Field(description="Does it take a source and a target text?")]


class MeasureChoice(_Strict):
    """A measure that can be asked for."""

    name: str
    summary: str
    per_head: bool


class PublicLimits(_Strict):
    """What a client should know before it asks."""

    tokens: int
    characters: int
    waiting: int
    jobs_per_minute: int


class Choices(_Strict):
    """What this server can do."""

    version: str
    models: list[ModelChoice]
    measures: list[MeasureChoice]
    limits: PublicLimits


class JobRequest(_Strict):
    """A text to measure."""

    model: Annotated[str, Field(max_length=300)]
    text: Annotated[str, Field(min_length=1)]
    target_text: Annotated[
        str | None, Field(description="What the decoder is given, for models that take pairs.")
    ] = None
    measures: Annotated[list[Annotated[str, Field(max_length=100)]], Field(min_length=1)]
    heads: Annotated[bool, Field(description="Single heads too, for measures that have them.")] = (
        False
    )


class State(StrEnum):
    """Where a job is."""

    queued = "queued"
    running = "running"
    done = "done"
    failed = "failed"
    cancelled = "cancelled"

    @property
    def is_final(self) -> bool:
        """Is it final?"""
        return self in (State.done, State.failed, State.cancelled)


class JobCreated(_Strict):
    """The name of a job."""

    id: Annotated[str, Field(pattern=JOB_ID)]


class JobStatus(JobCreated):
    """How far a job is."""

    state: State
    progress: Annotated[float, Field(ge=0, le=1)]
    message: Annotated[str, Field(description="In words: what is done now, or why it failed.")]


class Problem(_Strict):
    """Why a request was refused, in words."""

    detail: str
