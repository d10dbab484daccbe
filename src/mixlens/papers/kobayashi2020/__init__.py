"""Kobayashi et al. (2020), Attention is not only a weight: one file per figure or table."""
