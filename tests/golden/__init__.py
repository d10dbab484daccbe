"""Golden scores: every measure in every mode of use, before and after a change of structure.

    python -m tests.golden write before.npz
    python -m tests.golden compare before.npz

Scores that existed before must be there and equal, bit for bit unless `--tolerance` is given.
"""
