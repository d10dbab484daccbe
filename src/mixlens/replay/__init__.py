"""Running a recorded layer again: with edits, from the attention output on, or as a linear map.

    intervention                        a layer, or the model from a layer on, as a function
    tail                                the rest of a layer after attention, on rows
    perceptron                          a feed-forward part as matrices
    zeroing                             every source's value set to zero, for every target
    jacobian                            norms of the derivatives of all layers
    folding                             the rest of a layer as one matrix for each target
    attention_slopes, perceptron_slopes the derivatives that folding is made of

Each fast way is compared with the slow one before it is used. A way that is not used is logged
(`logging`, level debug).
"""
