"""Mohebbi et al. (2023b), Homophone Disambiguation Reveals Patterns of Context Mixing in Speech
Transformers.
"""
