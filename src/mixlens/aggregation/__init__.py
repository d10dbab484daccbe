"""New maps made of maps.

* `selection`: some layers, some targets, one head, or all heads merged
* `merging`: tokens merged into words or spans
* `segments`: sources summed by segment, with the first token apart or left out
* `rollout` (a product) and `flow` (a network): layers joined, back to the input
* `relevance`: gradient-weighted attention joined through encoder and decoder
* `target_row`: one row for one target, out of all layers
"""
