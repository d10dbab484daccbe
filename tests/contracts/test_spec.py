"""Tests of `Spec`: former names of its fields."""

import inspect
from dataclasses import replace
from typing import Any

import pytest

from mixlens.contracts import Facts, Spec
from mixlens.errors import InvalidInput

FIELDS: dict[str, Any] = {
    "summary": "s",
    "citation": "c",
    "use_when": "u",
    "cost": "one",
    "facts": Facts(),
}


def test_a_measure_with_the_former_name_of_limitations_works_and_warns() -> None:
    with pytest.warns(DeprecationWarning, match="is now called `limitations`") as warned:
        spec = Spec(**FIELDS, blind_spots="does not see norms")  # type: ignore[call-arg]
    assert warned[0].filename == __file__
    assert spec.limitations == "does not see norms"
    assert spec == Spec(**FIELDS, limitations="does not see norms")
    with pytest.warns(DeprecationWarning, match="limitations") as warned:
        assert spec.blind_spots == "does not see norms"
    assert warned[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_a_changed_copy_keeps_its_limitations_without_a_warning() -> None:
    spec = Spec(**FIELDS, limitations="does not see norms")
    assert spec.with_options(()).limitations == "does not see norms"
    assert replace(spec, limitations="sees all").limitations == "sees all"
    assert "blind_spots" not in inspect.signature(Spec).parameters


def test_both_names_are_refused() -> None:
    with pytest.raises(InvalidInput, match="limitations and blind_spots were both passed"):
        Spec(**FIELDS, limitations="a", blind_spots="b")  # type: ignore[call-arg]
