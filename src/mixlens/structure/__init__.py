"""Infer the structure of a model from its activations: layers, attention, MLPs, norms, gates,
layouts.

The result is a `ModelStructure`, which is plain data. Do not add code that computes scores here.

    attention_reading  Infer the structure of one attention block from the activations of one run.
    find_layers        Find the layers of a model in one forward pass that captures all attention,
                       and layers that are spread over several module lists.
    language_structure  Infer the structure of a multimodal language model from its text tokens
                       alone.
    layer_discovery    Infer the structure of a layer from the activations of one run.
    layer_structure    The structure of a transformer layer as plain data, with methods that
                       compute its residual sums.
    layer_trace        Trace one layer, module by module, while it runs, and compare the tensors.
    layouts            Convert the hidden states of layers with other layouts to [batch, tokens,
                       d_model], and submodules whose tensors have the tokens first.
    mlp_reading        Infer the part of a layer after its last attention block, or parallel to it,
                       from the activations of one run.
    model_discovery    Infer the structure of a whole model from a short probe made from the user's
                       input.
    model_structure    The structure of a whole model: its stacks of layers, their attention, and
                       the backend that captures it.
    norms              Find the linear part of a norm by evaluating it: N(u) = gain * centred(u) /
                       sigma(u) + shift.
    probe              Build small batches for structure discovery.
    probe_passes       Run the model on a probe: with captured attention, with another batch size,
                       and natively.
    user_hooks         Detect hooks that the user registered on layers, such as steering hooks.
"""
