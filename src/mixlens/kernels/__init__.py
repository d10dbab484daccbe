"""Pure algebra on tensors, exact and fast: nothing here knows a model.

    written         what sources write, as two factors that are not multiplied out
    decomposition   what each source writes into each target, T_ij, as factors
    gram            norms of the T_ij from small matrices per source
    gains           Manhattan gains of ALTI, a few sources at a time
    head_gains      the same for every head alone
    projector       effective attention: the left null space of the values, per head
    prefixes        the same if targets see different sources
    visibility      which sources a target can see
    simplex         shortest distributions in an affine space (programs: scipy's optimisers)
    fused           Triton kernels of these on a GPU, checked before their first use
    distances       how far two states are from each other
    gradients       gradients of a function of hidden states, plain and smoothed
    rescale         DeepLIFT's rescale rule (secants: its operations)
    chords          a feed-forward output by source, along the chord of the activation
    shares          a constant shared among the sources of a target
    word_paths      paths of integrated gradients through the vectors of words
    chunks          how much may lie in memory at once

No tensor of targets x sources x d_model is ever held, unless it is a few megabytes small.
"""
