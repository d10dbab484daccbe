"""Change the package in small ways and see whether the tests notice: `python -m tests.mutation`."""
