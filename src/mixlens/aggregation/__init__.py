"""New maps made of maps.

* `selection`: some layers, some targets, one head, or all heads merged
* `merging`: tokens merged into words or spans
* `segments`: sources summed by segment, with the first token in a column of its own or left out
* `rollout` (a product) and `flow` (a network): layers joined, back to the input
* `collapse`: rollouts in which one source has taken nearly everything
* `relevance`: gradient-weighted attention joined through encoder and decoder
* `routes`: what one target's state is made of, as a graph (`route_graph`)
* `target_row`: one row for one target out of all layers, and how they are read by default
"""
