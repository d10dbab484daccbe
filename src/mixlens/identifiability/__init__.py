"""Can the weights, or the tokens, be read off what a transformer computes?

`attention`: which other attention weights would have given the same output (Brunner et al. 2020, section 3).
"""
