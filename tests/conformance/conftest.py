"""Models that the tests of several files share."""

from __future__ import annotations

import pytest

from tests.conformance.families import Family


@pytest.fixture(scope="session")
def bare(request: pytest.FixtureRequest) -> Family:
    """For the session, so that pytest puts the tests of one family next to each other."""
    return Family(request.param)
