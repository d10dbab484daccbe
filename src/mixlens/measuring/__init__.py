"""From a request to scores: record what a measure needs, estimate its memory, run it.

Measures themselves are in `measures`.

    answer_odds         How likely an answer is after each of many prompts, as log-odds.
    batching            Which texts are recorded together: of similar length, as many as fit a
                        bound on memory.
    compared_target     What a comparison is of: a target, its measures, a cue and the explained
                        output.
    comparing           One recording by every measure that applies to it, for one target.
    context_citing      ContextCite: which parts of a context an answer rests on, by leaving parts
                        out.
    estimates           What a measure will need, from shapes alone: memory in bytes, work in
                        products.
    measure             One measure of one recording, as maps: the request is checked, the scores
                        are computed for the whole batch, and each text gets its own part of them.
    measure_many        A measure of whatever was given: one text, or several in batches of
                        similar length.
    measured_batch      One measure of a batch of texts, and the maps of each text without
                        padding.
    memory_check        Whether an estimate fits into memory, and what would, in words.
    recorder            From what a person gives (a text, tensors, a picture, a sound) to a
                        verified recording of it.
    rollout_of_targets  Rollout to the input for a few targets, without maps: rows of the product,
                        from the last layer down.
    rollout_time        How long a rollout of a few targets will take, said before it starts.
    timing              How long a measure will take on a long text, from how long it takes on the
                        first tokens of it.
    unpad               One text's part of a measure's batch: its tokens, and its numbers without
                        padding.
    verifying           What can be measured on a model, and how well it was taken apart: the
                        report of `doctor`.
"""
