"""Fuzz every reader of files, the Python API and the command line.

Each target is a Hypothesis test. `python -m tests.fuzz` runs them for minutes, `test_targets` for a
moment with the rest of the tests. What was found is kept as an `@example` of its target.
"""
