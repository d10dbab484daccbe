"""Running a recorded layer again: with edits, from the attention output on, or as a linear map.

    intervention           a layer, or the model from a layer on, as a function
    shortcuts, tail        the rest of a layer after attention, on rows
    perceptron             a feed-forward part as matrices
    zeroing                every source's value set to zero, for every target (`zeroed_sources`):
                           `by_rows`, `by_products`, `by_values` if no output projection is known,
                           and on a GPU `by_changes` (`changes` decides, `zeroing_steps`: its
                           element-wise steps)
    jacobian               norms of the derivatives of all layers, by `tangents` that are pushed
                           through each layer's `forward_derivative`
    folding                the rest of a layer as one matrix for each target (`halves`), made of
                           `attention_slopes` and `perceptron_slopes`
    vector_parts           the stream as a sum of vectors, one for each input token;
                           `frozen_parts`: of one logit, by one backward pass
    head_chain             what follows the last layer, as a chain of `head_steps`
    value_map              the value projection as matrices
    attention_gradients    the derivative of an output by every attention weight
    word_embeddings        the model as a function of its word vectors

    fallbacks, slow_paths  why a layer is run in a slower way

Each fast way is compared with the slow one before it is used. A way that is not used is logged
(`logging`, level debug), and `mixlens doctor` shows it.
"""
