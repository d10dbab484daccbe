"""Code that evaluations share: cases, statistics, samples, and models with a synthetic ground
truth.

The evaluations themselves are in `evaluations`.

    case            Record one example with a model, and compute each measure of it once.
    contracts       Define the description of an evaluation, and its result.
    drawn_pairs     Sample target-source pairs with their weight and norm from every text, for the
                    rank correlations of `norm_statistics`.
    known_evidence  Evaluate scores on a prompt with known evidence.
    online_code     Compute the code length of labels sent in blocks, each by a probe trained on the
                    earlier blocks. The probe of the code released with Mohebbi et al.
    parallel        Pass a sentence and its translation to an encoder-decoder model word by word.
    planted_cases   Synthetic cases: a hand-built model, a text of eight tokens, a target, and its
                    true sources.
    planted_models  Build transformers with weights set by hand, so that the sources of each state
                    are known.
    recovery        Measure how well scores of a prompt's tokens recover known evidence: documents
                    and tokens.
    sources         Choose the sources and the explained output for evaluations that compare scores
                    of one target.
    states          Extract the hidden states of a recorded text, and assign its tokens to
                    categories.
    statistics      Statistics: bootstrap intervals over examples, paired differences between two
                    measures, rank correlation.
"""
