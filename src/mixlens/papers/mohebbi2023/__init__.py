"""Mohebbi et al. (2023), Quantifying context mixing in transformers: one file per figure or
table.
"""
