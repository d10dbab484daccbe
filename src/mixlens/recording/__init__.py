"""Recording: one forward pass of any Hugging Face transformer, taken apart and verified."""
