"""Brunner et al. (2020), On identifiability in transformers: a file for each figure."""
