"""Re-run recorded layers and models: with edits, from the attention output on, or linearised.

This package also contains the code that several measures share.

    attention_slopes     Closed-form derivatives of plain softmax attention, and of the rest of a
                         layer with an MLP.
    attribution          Shared code of the gradient measures, which attribute an output of the
                         model to the input of one or more layers, or to word vectors.
    explained_answer     Explain a whole answer: F = sum of log p(t_k | prompt, t_<k) over its
                         tokens, with one backward pass.
    explained_output     The model output that a gradient or an erasure measure explains: one number
                         per text, such as the probability of a class or of a word. The model's
                         most likely outputs.
    fallbacks            Log when a measure falls back to a slower implementation.
    folding              Compute the derivative of a layer faster: fold everything after its
                         attention into one matrix per target.
    forward_derivative   Push tangents through one layer, and check that the result agrees with
                         reverse-mode differentiation.
    head_chain           Read the head of a model as a chain of matrix products, norms and
                         activations.
    head_steps           The steps of a model's head, applied to the final state and to the parts
                         of that state.
    intervention         Run a layer, or the model from one layer on, as a function of its input.
    jacobian             Squared Frobenius norms of the blocks of d e_i / d x_j, for every layer of
                         a stack at once.
    layer_rest           The rest of a layer after its attention, as a function of single tokens.
    logit_parts          The contribution of each source to a logit in each layer, for `alti_logit`
                         and `logit_update`.
    mlp                  Read the MLP of a layer as matrices, if it is plain or gated.
    mlp_scopes           Shared code of the norm-based measures that include the MLP.
    probabilities        Convert the logits of a head to probabilities, with the same function as
                         the model's own API.
    resolve_output       Choose the output that a measure explains: an answer, a word or class, or
                         an embedding.
    route_shares         The normalised scores of information flow routes.
    shortcuts            Skip a layer's attention by making the submodules around it return outputs
                         that are already known.
    value_map            Find the value projection of an attention module from its outputs.
    vector_parts         The residual stream as a sum of vectors, one for each input token, layer by
                         layer.
    zeroing_fast         Fast Value Zeroing: propagate only changes through the rest of the layer.
    zeroing_literal      Value Zeroing with the layer's own code: slow, but correct for every layer
                         that can be recorded.
    zeroing_steps        The elementwise steps between the matrix products of `zeroing_fast`, in
                         plain PyTorch or fused on a GPU.
"""
