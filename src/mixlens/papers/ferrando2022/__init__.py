"""Ferrando et al. (2022), Measuring the mixing of contextual information in the transformer: one
file per figure or table.
"""
