"""Ferrando et al. (2023), Explaining How Transformers Use Context to Build Predictions."""
