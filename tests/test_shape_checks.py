"""Signatures that name shapes are held to them in the tests; other code runs as it is."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from mixlens.aggregation.flow import max_flow
from mixlens.recording import norms
from tests.shape_checks import with_checks


def test_a_wrong_shape_is_an_error() -> None:
    with pytest.raises(TypeCheckError):
        max_flow(np.ones((2, 3)), layers=[0], targets=[0])


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
