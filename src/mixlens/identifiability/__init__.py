"""Can the weights, or the tokens, be read off what a transformer computes?

* `attention`: how much freedom attention weights have (Brunner et al. 2020, section 3)
* `alternatives`: other weights that would have given the same output
* `tokens`: from how many hidden states the input token can be recognised (section 4): probes back
  to the embeddings, and the test by nearest neighbour. `mixlens.evaluations.token_identifiability`
  runs them over texts.
"""
