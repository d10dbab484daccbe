"""Capture attention calls and layer calls of a running model.

Only this package hooks into attention functions and layers. Its context managers remove all hooks
on exit. The package does not interpret the captured tensors.

    attention_call     The inputs and outputs of one attention call, the sources that its targets
                       see, and the context in which calls are captured.
    attention_capture  Capture attention weights and values while a transformers model runs, and
                       interpret its masks.
    batch_axes         Find the batch axis of a recorded argument, and copy one text along it.
    layer_calls        Capture one forward pass layer by layer: inputs, outputs, attention calls and
                       hook points of each layer.
    native_attention   Capture the inputs of the attention implementation that a model was loaded
                       with (sdpa, flash), or hide pairs of tokens from this implementation.
    packed_attention   Combine the attention calls of a layer into one map, for packed sequences and
                       paired streams.
    rerun              Run one recorded layer again, on copies of one text, with edited values,
                       attention output or hidden states.
    softmax_trace      Capture attention in modelling files that do not use transformers' attention
                       interface.
"""
