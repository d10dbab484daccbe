"""Mohebbi et al. (2023), Quantifying context mixing in transformers: its figures and tables, a file
each.
"""
