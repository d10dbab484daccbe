"""Infer the structure of a model from its activations: layers, attention, MLPs, norms, gates,
layouts.

The result is a `ModelStructure`, plain data. Code that computes scores does not belong here.

    attention_reading  Infer the structure of one attention block from the activations of one run.
    find_layers        Find the layers of a model from one pass in which all attention is captured.
    language_structure  Infer the structure of a language model that also reads images or audio,
                       from its words alone.
    layer_discovery    Infer the structure of a layer from the activations of one run.
    layer_structure    The structure of a transformer layer as plain data, and the sums that it
                       describes.
    layer_trace        Trace one layer, module by module, while it runs.
    layouts            View layers whose hidden states are not [batch, tokens, d_model] in that
                       form.
    mlp_reading        Infer the part of a layer after, or next to, its last attention block from
                       the activations of one run.
    model_discovery    Infer the structure of a whole model on a short probe made from the user's
                       input.
    model_structure    The structure of a whole model: its stacks of layers, their attention, and
                       the backend that captures it.
    norms              Find the linear part of a norm by evaluating it: N(u) = gain * centred(u) /
                       sigma(u) + shift.
    probe              Build small batches for structure discovery.
    probe_passes       The probe passes of discovery: with captured attention, with another batch
                       size, and natively.
    spread_layers      Treat layers that are spread over several module lists (XLM, Flaubert) as
                       one.
    trace_matching     Compare the tensors in the trace of one layer.
    transposed_parts   Handle submodules that put tokens before the batch: [tokens, batch, channel].
    user_hooks         Detect hooks that the user put on layers, for instance to steer a model.
"""
