"""Turn a request into scores: record the inputs of a measure, estimate its memory and run it. The
measures themselves are in `measures`.

    answer_odds         Log-probability and log-odds of an answer after each of many prompts.
    batching            Group texts of similar length into batches that fit into memory.
    compared_target     Resolve the target, measures, cue and explained output of a comparison.
    comparing           Apply every suitable measure to one target of a recording.
    context_citing      ContextCite: find the parts of a context that support an answer, by leaving
                        parts out.
    estimates           Estimate the memory and work of a measure from shapes alone.
    generate            Generate an answer, and record the positions that produced its tokens.
    measure             Measure a recording: check the request, score the batch, and split it into
                        maps per text.
    measure_many        Measure one text, or several in batches of similar length.
    measured_batch      One measure of a batch of texts, and the maps of each text without padding.
    read_positions      Find the positions whose logits are read, before the model runs, because a
                        vocabulary is wide.
    recorder            Record a text, tensors, an image or audio, verified.
    rollout_of_targets  Roll out a few targets to the input without storing maps, from the last
                        layer down.
    timing              Estimate the time of a measure or a rollout from the first tokens.
    verifying           Report which measures support a model, and whether its structure was
                        verified (`doctor`).
    whole_maps          Measure a few targets from whole maps, if their layers cannot be restricted
                        to them.
"""
