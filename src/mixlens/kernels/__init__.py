"""Tensor algebra, exact and fast. Nothing here depends on a model.

No tensor of targets x sources x d_model is stored, unless it has only a few megabytes. Triton
kernels are in `fused/`.

    channels       The channels of a vector in this process, if the processes of a model share them.
    chords         Split the output of an MLP by source, by the chord of the activation.
    chunks         Choose block sizes and the precision of small matrices.
    decomposition  The contributions of sources to the chosen targets, as factors: T_ij = scale_i *
                   sum_h A_hij vectors_hj (+ own_i if j is i itself).
    differences    Measure the difference of two tensors, token by token, and the difference that
                   rounding explains.
    distances      Distances between representations that keep their digits when the two are almost
                   equal.
    contributions  The L1 contribution of each source to a target: ||y_i||_1 - ||y_i - T_ij||_1.
    gradients      Gradients of explained outputs with respect to hidden states: plain, averaged
                   over noisy copies, and along paths.
    gram           Norms of sums over heads without the sums: ||sum_h a_h f_h||^2 = a^T G a, with G
                   the head x head Gram matrix of one source's vectors.
    prefixes       Effective attention if targets see different sources: causal masks, windows,
                   packed texts.
    projector      Effective attention A P, with P the projector onto the column space of T = V W_O:
                   attention without the part that has no effect on the output.
    rescale        DeepLIFT's multipliers for transformers: every operation propagates the
                   *difference* between the input and a baseline, exactly.
    secants        Operations whose derivative propagates the difference between the two halves of a
                   batch, exactly.
    shares         Share a constant among the sources of a target, in proportion to their vectors.
    simplex        The shortest attention weights that are still a distribution and give the same
                   output: a small quadratic programme per target.
"""
