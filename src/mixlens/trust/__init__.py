"""Which measure to trust on a model: every measure judged by every evaluation, on the user's own data."""
