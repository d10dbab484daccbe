"""A change differs from the original program in one place, and never in texts or annotations."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.mutation.__main__ import drawn, select_tests
from tests.mutation.changes import changes_of

SOURCE = b'''
LIMIT = 3

def add(a: int = 1, *, b: "int < 2") -> int:
    """Return 1 + 1."""
    if not a < b and a != 2:
        raise ValueError("1 + 1")
    return a + b
'''


def test_every_change_is_one_program() -> None:
    changes = changes_of(Path("a.py"), SOURCE)
    programs = [ast.unparse(ast.parse(change.applied(SOURCE))) for change in changes]
    assert ast.unparse(ast.parse(SOURCE)) not in programs
    assert len(set(programs)) == len(programs) == 7
    for part in ("LIMIT = 3", "a: int=1", "Return 1 + 1.", "ValueError('1 + 1')"):
        assert all(part in program for program in programs)
    assert sum("return None" in program for program in programs) == 1


def test_changes_come_from_all_folders_and_repeat_with_the_seed() -> None:
    changes = drawn(40, 0)
    assert changes == drawn(40, 0)
    assert len({change.path for change in changes}) == 40
    assert len({change.path.parts[2] for change in changes}) > 20
    first = next(select_tests(Path("src/mixlens/measures/alti.py")))
    assert "tests/measures/test_alti.py" in first
