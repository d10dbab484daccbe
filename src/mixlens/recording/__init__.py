"""One forward pass of any Hugging Face transformer, taken apart and verified.

inputs, stand_in                what the model is given
capture                         overhearing attention: the only file that touches transformers
calls                           the layers of a pass, what they are called with and return
model_structure                 the stacks and sites of a model, from a short probe
events, discovery, structure    one layer: what happens in it, and what follows from that
projection, norms               modules read as matrices and as linearised norms
differences                     how far two tensors are apart, and how far rounding brings them
site, layer, recording          the result: attention sites, layers, the whole pass
witnesses, verification         what proves the result right, and the report of it
rerun                           running one layer again on other tensors
remembered                      findings, kept until a model's numbers change
"""
