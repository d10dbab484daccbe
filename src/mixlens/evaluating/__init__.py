"""Parts that evaluations share: cases, statistics, samples, and models with a synthetic ground
truth.

The evaluations themselves are in `evaluations`.

    case            A case: one example recorded by a model, with what every measure says about
                    it, computed once.
    compiled_cases  Transformers compiled from programs, and what is truly in their outputs.
    contracts       What an evaluation says of itself and what it gives back.
    drawn_pairs     Pairs of a target and a source with their weight and norm, drawn from every
                    text, for the rank correlations of `norm_statistics`.
    known_evidence  A prompt with known evidence under one model.
    online_code     How many bits a sequence of labels takes when it is sent in blocks, each by a
                    probe trained on the blocks before it.
    pair_sample     A uniform sample of all pairs of a data set, drawn text by text without
                    knowing the other texts.
    parallel        A sentence and its translation given to an encoder-decoder model word by word.
    planted_cases   The planted cases: a model with a plan, a text of eight tokens, a target, and
                    the sources that are truly in it.
    planted_models  Transformers whose weights are set by hand, so that it is known where
                    everything comes from.
    recovery        How well scores of a prompt's tokens recover known evidence.
    released_probe  The probe of the code released with Mohebbi et al.
    sources         What evaluations that compare rows share: which sources count, and which
                    output of the model is explained.
    states          Hidden states of one recorded text, and which of its tokens are which.
    statistics      Honest intervals: the bootstrap over examples, differences between two
                    measures on the same examples, rank correlation.
    value_maps      The affine map from what attention reads to each head's value vectors, found
                    by numbers.
"""
