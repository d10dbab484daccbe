"""One forward pass of a model, taken apart layer by layer and verified.

Measures read a `Recording`, its `Layer`s and their attention. How a model is put together is found
out in `structure`; layers are run again in `replay`.

    attention           One attention site of one recorded layer: its parts, and what follows from
                        them.
    batch_independence  Check that batch elements are independent: that a text gets in a batch
                        what it gets alone.
    block               A block with the sigma of every norm held fixed, and its output as a sum
                        over sources.
    deferred_checks     Checks that wait for the end of a forward pass, or of a measure.
    few_targets         Rows instead of maps: one forward pass with the model's own attention,
                        taken apart for a few targets.
    internals           What a recording keeps of one attention site, before it is rebuilt and
                        checked.
    layer               One recorded layer of a stack: its attention sites, and ways to run it
                        again.
    layer_loop          The one loop over layers: each layer is scored by every measure while it
                        is there.
    output_recording    What a model says, from one pass of the model as it is: the cheapest
                        recording.
    rebuilding          An attention site rebuilt from the discovered structure, and checked
                        against what was seen.
    recording           A recording: one forward pass taken apart, layer by layer, each part
                        checked against what the model really computed.
    target_attention    The attention weights of a few targets, from the query and key that
                        attention is given.
    target_blocks       All rows of every layer, a block at a time, from the last layer down: for
                        products of maps that are never stored.
    target_pass         The forward pass behind a recording of rows: each layer is cut to the
                        wanted targets when it has run, and handed on.
    upcast              Half precision is taken apart in float32: tensors, and one layer at a time
                        as a copy.
    verification        What was found in a model and how well its parts add up: the contents of
                        `mixlens doctor`.
"""
