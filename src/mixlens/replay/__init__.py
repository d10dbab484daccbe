"""Run recorded layers and models again: with edits, from the attention output on, or as linear
maps; and the parts that several measures share.

    attention_gradients  How an explained output depends on every attention weight, from one
                         backward pass.
    attention_slopes     The derivative of plain softmax attention, written out: o = W_O [sum_j
                         A_ij v_j], A = softmax(c q k^T + bias).
    attribution          What the gradient measures share: one explained output, the layers at
                         which it is explained, one number per token.
    explained_embedding  The embedding of a text as an output to explain: what made it, or what
                         made it similar to a different text.
    explained_output     The output that a gradient or an erasure explains: one number per text,
                         such as the probability of a class or of a word.
    fallbacks            Ways that are slower but always right: that one is taken is logged
                         (`logging`, level debug).
    folding              The derivative of a layer with everything after its attention folded into
                         one matrix for each target.
    forward_derivative   Tangents pushed through one layer, in a way that agrees with its reverse
                         derivative.
    frozen_parts         Each input token's part of one logit by one backward pass, for rules that
                         stay linear.
    halves               A layer in two halves: what its attention sites return, and the rest as a
                         function of that.
    head_chain           What follows the last layer, as a chain of products, norms and
                         activations: found by numbers.
    head_steps           The steps of a model's head: what each makes of the state that logits are
                         read off, and of its parts.
    intervention         Interventions on a recorded model: a layer as a function of what it is
                         given, and the whole model from one layer's input on.
    jacobian             Squared Frobenius norms of the blocks of d e_i / d x_j, for every layer
                         of a stack at once.
    layer_rest           The rest of a layer after an attention site, as a function of rows.
    logit_parts          What `alti_logit` and `logit_update` share: what each source adds to a
                         logit in each layer.
    mlp                  The feed-forward part of a layer as matrices, if it is a plain or gated
                         perceptron: found and checked by numbers.
    mlp_scopes           What the norm-based measures after the feed-forward part share.
    mlp_slopes           The derivative of everything after an attention block that ends in a
                         perceptron, as one matrix for each target.
    predictions          What a model would say: its likeliest words at the mask or after the last
                         token, or classes.
    probabilities        Turn the logits of a head into probabilities, with the function that the
                         model's own API applies.
    route_shares         The shares of which information flow routes are made.
    shortcuts            The submodules around a layer's attention whose output is known, and the
                         layer run with these outputs given.
    slow_paths           Which layers of a recording do not allow the fast forms, and why: for
                         `mixlens doctor`.
    tangents             Vectors that are pushed through layers, and the squared lengths of what
                         comes out.
    value_map            The value projection of an attention site as matrices, one for each head:
                         found by numbers.
    vector_parts         The stream as a sum of vectors, one for each input token, layer by layer.
    word_embeddings      A recorded model as a function of the vectors that its word embedding
                         gives.
    zeroed_sources       Sources whose value is set to zero, and how the wanted targets read them.
    zeroing              What happens to every target when one source's value is set to zero:
                         exact, without running whole sequences again.
    zeroing_delta_proof  Whether a layer's distances may be computed by products on what changed
                         (`by_changes`), and these distances for a few targets.
    zeroing_deltas       Value Zeroing on a GPU: distances straight from products on what changed.
    zeroing_products     Value Zeroing for feed-forward parts that are perceptrons, by products of
                         matrices.
    zeroing_rows         Value Zeroing by the layer's own code: the rest of a layer on rows, or
                         whole sequences.
    zeroing_steps        The element-wise steps between the products of `by_changes`, in plain
                         torch or by a fused kernel on a GPU.
    zeroing_values       Value Zeroing with the values themselves: the whole layer on a sequence
                         in which one is zero.
"""
