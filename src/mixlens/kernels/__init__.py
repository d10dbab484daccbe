"""Tensor algebra, exact and fast. Nothing here depends on a model.

No tensor of targets x sources x d_model is stored, unless it has only a few megabytes. Triton
kernels are in `fused/`.

    chords          Each source's part of a feed-forward output, by the chord of the activation.
    chunks          How much may lie in memory at once, and in which precision small matrices are
                    formed: the only place that holds such sizes.
    decomposition   What each source writes into each chosen target, as factors: T_ij = scale_i *
                    sum_h A_hij vectors_hj (+ own_i if j is i itself).
    differences     How far two tensors are from each other, token by token, and how far rounding
                    can bring them.
    distances       Distances between rows that keep their digits when the rows are almost equal.
    gains           How much nearer each source brings a target to its output, in the L1 norm:
                    ||y_i||_1 - ||y_i - T_ij||_1.
    gradients       Gradients of explained outputs with respect to hidden states: plain, averaged
                    over noisy copies, and along paths.
    gram            Norms of sums over heads without the sums: ||sum_h a_h f_h||^2 = a^T G a, G
                    the head x head Gram matrix of one source's vectors.
    head_gains      How much nearer each head's vector of each source brings a target to its
                    output, in the L1 norm: ||y_i||_1 - ||y_i - z||_1 with z = a_hij f_hj.
    prefixes        Effective attention if targets see different sources: under a causal mask,
                    inside a window, in packed texts.
    projections     What each source writes into a target, projected on the sum of all: c_ij . o_i,
                    with c_ij = sum_h A_hij f_hj and o_i = sum_j c_ij.
    projector       Attention without the part that the values cannot show: A P, P the projector
                    onto the column space of T = V W_O.
    rescale         DeepLIFT's multipliers for transformers: every operation passes on the
                    *difference* between the input and a baseline, exactly.
    secants         Operations whose derivative passes on the difference between the two halves of
                    a batch, exactly.
    shares          A constant shared among the sources of a target, in proportion to what they
                    have there.
    simplex         The shortest row of attention that is still a distribution and gives the same
                    output: a small quadratic programme per row.
    spans           Several targets of a decomposition as one: sum_i w_i T_ij.
    visibility      Which sources each target can see in one forward pass.
    word_paths      Paths from words to a baseline word through the vectors of other words.
"""
