"""Data sets: what an example is, and readers for the files that people have."""
