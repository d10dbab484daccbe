"""Inputs that nobody would write on purpose, for every reader and for the front door.

Each target is a Hypothesis test. `python -m tests.fuzz` runs them for minutes, `test_targets` for a
moment with the rest of the tests. What was found is kept as an `@example` of its target.
"""
