"""Record one forward pass of a model, decompose its layers and verify them. Measures read a
`Recording`, its `Layer`s and their attention. The package `structure` infers how a model is built,
and `replay` runs layers again.

    attention           The attention of one recorded layer: weights, values, projection, residual
                        and norms.
    batch_independence  Check that batch elements are independent: a text must get the same result
                        in a batch as alone.
    deferred_checks     Checks that are deferred to the end of a forward pass or of a measure.
    forward_pass        Run the model once, and keep its layers or their inputs.
    layer               One recorded layer: its attention, and methods to run it again.
    passed_layers       Layers of one forward pass, kept for several spans of the same targets.
    rebuilding          Rebuild the attention of a layer from its structure and check it against
                        captured tensors.
    recording           One forward pass of a model, with its layers: kept, recomputed, or passing
                        by; and the loop over layers.
    span_scores         Score the targets of a span as one, a few targets at a time.
    target_attention    Attention weights of a few targets, computed from queries and keys.
    target_pass         Single-target mode: one forward pass with the model's own attention, split
                        by source for a few targets.
    verification        Report the structure of a model and how well its parts add up (`mixlens
                        doctor`).
"""
