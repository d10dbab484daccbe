"""Signatures that name shapes are held to them in the tests; other code runs as it is."""

from __future__ import annotations

import ast
from typing import Literal

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError

from mixlens.maps.flow import max_flow
from mixlens.structure import norms
from tests.shape_checks import checked, with_checks


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(TypeCheckError):
        max_flow(np.ones((2, 3)), layers=[0], targets=[0])


def test_a_verified_layer_is_checked_again_in_a_different_form() -> None:
    results = iter([np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 4)), np.ones((4, 2))])

    def turned(x: Float[np.ndarray, "a b"], side: Literal["left"]) -> Float[np.ndarray, "b a"]:
        return next(results)

    held = checked(turned)
    for _ in range(2):
        assert held(np.ones((3, 2)), "left").shape == (2, 3)
    for given in ((np.ones((3, 2)), "right"), (np.ones((3, 2, 1)), "left"), (np.ones(3), "left")):
        with pytest.raises(TypeCheckError, match="parameters"):
            held(*given)
    with pytest.raises(TypeCheckError, match="return value"):
        held(np.ones((3, 2)), "left")  # the arguments are known, the result is not
    assert held(np.ones((2, 4)), "left").shape == (4, 2)
    with pytest.raises(StopIteration):
        held(np.ones((2, 4)), "left")


def test_only_what_names_a_shape_is_wrapped() -> None:
    source = """
def plain(x: int) -> int: ...
def shaped(x: Float[Tensor, "a b"]) -> int:
    def inside(y: Float[Tensor, "a b"]) -> int: ...
class Plain:
    x: int
class Shaped:
    x: Float[Tensor, "a"]
    def method(self) -> Float[Tensor, "a"]: ...
"""
    wrapped = {
        node.name
        for node in ast.walk(with_checks(ast.parse(source)))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list
    }
    assert wrapped == {"shaped", "Shaped", "method"}


def test_modules_keep_their_names_and_files() -> None:
    assert norms.__spec__ is not None
    assert norms.__file__ is not None
    assert norms.__spec__.origin == norms.__file__
