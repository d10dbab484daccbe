"""Timings against the naive forms, as ratios.

`make bench` runs them; docs/performance.md says what they mean.
"""
