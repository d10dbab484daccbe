"""Brunner et al. (2020), On identifiability in transformers: one file per figure."""
