"""Record one forward pass of a model, decompose its layers and verify them. Measures read a
`Recording`, its `Layer`s and their attention. The package `structure` infers how a model is built,
and `replay` re-runs layers.

    attention           The attention of one recorded layer: weights, values, projection, residual
                        and norms.
    batch_independence  Check that batch elements are independent: a text must give the same result
                        in a batch as alone.
    deferred_checks     Defer checks to the end of a forward pass or of a measure.
    forward_pass        Run the model once, and keep its layers or their inputs.
    layer               One recorded layer: its attention, and methods to re-run the layer.
    passed_layers       Keep the layers of one forward pass, restricted to some targets, and score
                        them later.
    projection_inputs   The inputs of the output projections of one forward pass, as tensors of its
                        autograd graph.
    rebuilding          Rebuild the attention of a layer from its structure, and compare it with
                        captured tensors.
    recording           One forward pass of a model and its layers, which are kept, recomputed, or
                        scored while the model runs.
    span_scores         Score the targets of a span as a single target, in blocks that fit into
                        memory.
    target_attention    Compute the attention weights of a few targets from queries and keys.
    target_pass         Single-target mode: one forward pass with the model's own attention,
                        decomposed by source for a few targets only.
    verification        Report the structure of a model, and how accurately mixlens reproduces its
                        activations (`mixlens doctor`).
"""
