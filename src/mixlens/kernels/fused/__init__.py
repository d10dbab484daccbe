"""Triton kernels for a GPU. Each has a plain form in torch that computes the same numbers.

    checked   check each kernel before its first use, and run the plain form if the check fails
    sampling  small random data for these checks
    norms     norms of sums over heads (plain form: `kernels.gram`)
    gains     L1 contributions of ALTI (plain form: `kernels.gains`)
    zeroing   the element-wise steps of Value Zeroing (plain form: `replay.by_changes`)

Nothing else in mixlens imports Triton. Code that needs a model belongs in `replay`.
"""
