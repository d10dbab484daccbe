"""Triton kernels for GPUs. Each kernel has an equivalent implementation in plain PyTorch.

    checked   Check each fused kernel before its first use, on small random data, and fall back to
              plain PyTorch if the kernel fails.
    norms     Norms of sums over heads on a GPU, fused: ||sum_h A_hij vectors_hj|| from the Gram
              matrices of `gram`, in float64 without upcast copies.
    contributions  ALTI's L1 contributions on a GPU, fused: sum_k (|y_ik| - |scale_i sum_h A_hij
              vectors_hjk - y_ik|) without a block of vectors in memory.
    head_contributions  L1 contributions of each head and source to a few targets on a GPU, fused:
              sum_k (|y_ik| - |A_hij f_hjk - y_ik|) with f_hj = values_hj matrix_h, without the
              vectors f in memory.
    zeroing   The elementwise steps of Value Zeroing on a GPU, fused: one pass over the data instead
              of ten.

Nothing else in mixlens imports Triton. Code that needs a model belongs in `replay`.
"""
