"""Modarressi et al. (2023), DecompX: Explaining Transformers Decisions by Propagating Token
Decomposition.
"""
