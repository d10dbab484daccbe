"""The only code that touches attention functions and layer calls of a running model.

Every hook is undone by a context manager. Nothing is interpreted here.

    attention_call     What one attention call saw and returned, and who listens to such calls.
    attention_capture  Capture of attention internals while a transformers model runs.
    bare_products      Products with bare parameters, seen as if a linear module made them
                       (XLNet's queries, values and output projection).
    batch_axes         Which axis of a recorded argument carries the batch, and copies of one of
                       its rows.
    layer_calls        One forward pass, seen layer by layer: what each transformer layer was
                       called with, what it returned, and its attention calls.
    mask_reading       What a mask means to the attention that a model was loaded with, as numbers
                       that eager code adds.
    native_attention   Overhearing the attention that a model was loaded with (sdpa, flash):
                       queries, keys and values.
    packed_attention   Attention over rows that follow each other on one axis: one call for each
                       image or window, or one call for all of them with a mask between them.
    paired_attention   Attention of two streams in a layer (the words and boxes of LXMERT): a call
                       for each of them.
    rerun              Runs one recorded layer again: on copies of one row of the batch, with
                       edited values, attention output or hidden states.
    restore_model      A model is left as it was: what it changes in itself while it runs is put
                       back.
    softmax_trace      Attention of modelling files that do not route through transformers'
                       interface.
    torch_attention    Torch's own multi-head attention taken apart
                       (`F.multi_head_attention_forward`, which `nn.MultiheadAttention` calls):
                       WavLM, and image towers after the first CLIP.
    witnesses          Hooks that keep the tensors a running layer really had: a recording proves
                       itself by them.
"""
