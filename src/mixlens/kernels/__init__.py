"""The exact fast algebra that the measures share.

Nothing here ever holds a tensor of targets x sources x d_model: what a measure needs of the vectors
T_ij follows from small matrices per source (`gram`), per head (`projector`) or from a few sources
at a time (`gains`). `decomposition` says what T_ij is.
"""
