"""Kobayashi et al. (2020), Attention is not only a weight: its figures and tables, a file each."""
