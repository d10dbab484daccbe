"""The server follows its OpenAPI description for all requests that schemathesis derives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")


def test_answers_fit_the_description(address: str, finished: Callable[..., object]) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
    ]
    asked: dict[str, int] = {}
    for operation in schemathesis.openapi.from_url(
        f"{address}/api/openapi.json"
    ).get_all_operations():
        answer: Any = operation.ok()

        @settings(
            max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck)
        )
        @given(case=answer.as_strategy())
        def check(case: Any) -> None:
            name = f"{case.operation.method.upper()} {case.operation.path}"
            asked[name] = asked.get(name, 0) + 1
            case.call_and_validate(base_url=address, checks=wanted)

        check()
    assert min(asked.values()) > 0
    assert set(asked) == {
        "GET /api",
        "GET /api/health",
        "POST /api/jobs",
        "POST /api/answers",
        "GET /api/jobs/{job_id}",
        "GET /api/jobs/{job_id}/payload",
        "DELETE /api/jobs/{job_id}",
    }
    assert finished()  # a job after all others: their queue is empty again


def test_nothing_is_described_that_loads_from_elsewhere(client: httpx.Client) -> None:
    assert client.get("/docs").status_code == 404
    assert client.get("/redoc").status_code == 404
    description = client.get("/api/openapi.json").json()
    for path in description["paths"].values():
        for operation in path.values():
            for status, answer in operation["responses"].items():
                if status.startswith("4"):
                    schema = answer["content"]["application/json"]["schema"]
                    assert schema["$ref"].endswith("/Problem")
