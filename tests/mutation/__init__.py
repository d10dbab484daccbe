"""Change the package in small ways and check whether the tests fail: `python -m tests.mutation`."""
