"""Ferrando et al. (2022), Measuring the mixing of contextual information in the transformer: its
figures and tables, a file each.
"""
