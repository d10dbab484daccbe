"""How a model is put together, found by numbers: layers, attention, MLPs, norms, gates, layouts.

The result is a `ModelStructure`, plain data. Code that computes scores does not belong here.

    attention_reading  One attention block, read from the numbers of one run: from A V to the
                       residual sum.
    attention_sources  Whose tokens an attention reads: its own, those of a different stack, or
                       both at once.
    find_layers        Which modules of a model are its layers, from one pass in which all
                       attention is overheard.
    gates              Factors between A V and the output projection: gates (Qwen3-Next, AFMoE)
                       and sinks that scale the output (Granite).
    layer_discovery    Finds out how a layer is put together from the numbers of one run, and from
                       nothing else.
    layer_structure    How a transformer layer is put together: the facts that discovery finds, as
                       plain data, and the sums that they describe.
    layer_trace        What happens inside one layer, module by module, when it runs: the evidence
                       from which its structure is read.
    layouts            Layers whose hidden states are not [batch, tokens, d_model]: a view of them
                       in that form.
    mlp_reading        What a layer does after its last attention block, or next to it, read from
                       the numbers of one run.
    model_discovery    Finds out how a whole model is put together, on a probe like the user's own
                       input.
    model_structure    How a whole model is put together: its stacks of layers, the sites they
                       offer, and the back end that overhears them.
    norms              The linear part of a norm, found by numbers: N(u) = gain * centred(u) /
                       sigma(u) + shift.
    open_reading       A layer whose output is not known as a sum: its attention is heard, and the
                       rest is run as it is.
    probe              The small batches on which a model shows how it is put together.
    probe_passes       The few passes in which a model shows its layers: with attention overheard,
                       with a different number of rows, and natively.
    projection         The output projection as a matrix, whatever module holds it (Linear,
                       Conv1D, an adapter, a quantised layer).
    spread_layers      Layers that are spread over several lists of modules (XLM, Flaubert), seen
                       as one.
    trace_matching     What one run of a layer shows, and how its tensors are compared.
    transposed_parts   Parts of a layer that have the tokens before the rows, [tokens, batch,
                       channel].
    unpadded_runs      Does a model compute the same without padding?
    user_hooks         Hooks that somebody put on the layers of a model, for instance to steer it.
"""
