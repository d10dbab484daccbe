"""Exact, fast tensor algebra that is independent of any model.

These functions do not store a tensor of targets x sources x d_model, unless it takes only a few
megabytes. Triton kernels are in `fused/`.

    chords         Split the output of an MLP by source, using the chord of the activation.
    chunks         Choose block sizes and the precision of computations.
    decomposition  The contributions of sources to the chosen targets, as factors: T_ij = scale_i *
                   sum_h A_hij vectors_hj (+ own_i if j is i itself). Sums and norms over channels
                   if the model's vectors are sharded.
    differences    Measure the difference between two tensors, token by token, and the difference
                   that rounding explains.
    distances      Distances between representations, accurate even if the two are almost equal.
    contributions  The L1 contribution of each source to a target: ||y_i||_1 - ||y_i - T_ij||_1.
    gradients      Gradients of explained outputs with respect to hidden states: plain, averaged
                   over noisy copies, and along paths.
    gram           Compute norms of sums over heads without computing the sums, from the head x head
                   Gram matrix G of one source's vectors: ||sum_h a_h f_h||^2 = a^T G a.
    half_products  Multiply half-precision tensors and sum the products in float32.
    prefixes       Effective attention if targets see different sources: causal masks, windows,
                   packed texts.
    projector      Effective attention A P, with P the projector onto the column space of T = V W_O:
                   attention without the part that has no effect on the output.
    rescale        DeepLIFT's multipliers for transformers: every operation propagates the
                   *difference* between the input and a baseline, exactly.
    shares         Divide a constant among the sources of a target, in proportion to their vectors.
    simplex        Find the attention weights of smallest norm that are still a distribution and
                   give the same output.
"""
