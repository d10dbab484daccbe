"""Can the weights, or the tokens, be read off what a transformer computes?

`attention`: which other attention weights would have given the same output (Brunner et al. 2020,
section 3). `tokens`: from how many hidden states the input token can be told again (section 4):
probes back to the embeddings, and the test by nearest neighbour.
`mixlens.evaluations.token_identifiability` runs them over texts.
"""
