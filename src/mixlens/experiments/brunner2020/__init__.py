"""Brunner et al.

(2020), On identifiability in transformers: its figures and tables, a file each.
"""
