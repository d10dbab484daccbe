"""A small German-English translation model, so that word alignments can be measured without a hub.

See README.md.
"""
