"""One forward pass of any Hugging Face transformer, taken apart and verified.

inputs, encoding, decoder_inputs, processing, checks, padding, stand_in, labels, pictures
                                what the model is given, and what its tokens are called
prompts, chats, documents       a prompt, or a chat with its turns and the documents in them
template_limits                 how long a chat template may run, and how much it may write
continuation, generation, generation_options
                                what follows it, and which position produced it
capture, native_attention       overhearing attention: the only files that touch transformers'
softmax_trace, torch_attention  attention that does not pass its interface
mask_reading                    what a mask means to the attention that a model was loaded with
bare_products                   products with bare parameters, seen as linear modules
listener                        who hears it
calls                           the layers of a pass, what they are called with and return
layouts, packed_attention, paired_attention, turned_parts, spread_layers
                                layers whose states are not rows of tokens, or that are not one
                                module, seen as if they were
probe, hearing, passes          a short probe, and the passes in which a model shows its layers
model_discovery, model_structure
                                the stacks and sites of a model
events, evidence                one layer: what happens in it
discovery, attention_reading, feed_forward_reading, open_reading, sources, structure
                                and what follows from that
projection, norms, gates        modules read as matrices, as linearised norms and as factors
differences, doubts             how far two tensors are apart, and how far rounding brings them
internals, rebuilding           an attention site from what was kept of it, checked
site, block, layer, recording   the result: attention sites, layers, the whole pass
outputs                         a pass of which only the output and the layers' inputs are kept
rows, row_pass, row_attention   the same for a few targets of a long text
row_blocks                      and for all targets, a block at a time, from the last layer down
witnesses, verification, unpadded
                                what proves the result right, and the report of it
rerun, batch_axes, casts, wide  running one layer again on other tensors, in float32 or better
batch_independence, rotary      whether texts, or copies of one, may be run in one batch
placement, memory               where weights are, and how much memory is free
turns                           one thread at a time works with a model
fingerprint, model_changes      the state of a model, and whether it is still the recorded one
remembered, untouched           findings kept until a model's numbers change; a model put back
uncompiled                      compiled modules run as they are written
hooks_of_others                 hooks that somebody else put on layers
"""
