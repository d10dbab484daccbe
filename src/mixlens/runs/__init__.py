"""Runs over many texts: shards, journals, results and engines.

The computation for one text is in `measuring` and `evaluations`.

    aggregates    Aggregates over a corpus that need no maps on the disk.
    batch         One batch of texts: recorded once, measured by every measure, summarised where
                  the scores are.
    corpus_run    A run over a corpus: cut into shards, measured by an engine, written shard by
                  shard.
    example_view  One text of a run in the viewer, for its report: the maps of a few measures,
                  side by side.
    fetching      Tensors on their way from a device, which goes on working meanwhile.
    job           What a run is to do, in values that can be sent to a different process.
    journal       The journal of a run: one line for each piece of work that is done, on disk
                  before the next one begins.
    mixtures      Scores of texts next to each other, and what is known of their tokens.
    observing     The same questions asked of every text, written down text by text.
    opening       `mixlens.load`: what was saved, a file of maps or the folder of a run.
    results       The results of a run, read as they are asked for: `mixlens.load("results/")`.
    settings      What a run was made with, and the guard that keeps runs with different settings
                  apart.
    shard         One shard: its texts are read, measured and written.
    sketches      Quantiles without the values: counts in bins that grow with the value.
    store         The results of a run as a Parquet data set: one row for each text, measure and
                  layer.
    summaries     What is kept of a batch by default: for each target and layer where its mixture
                  comes from.
    tags          Parts of speech of tokens, from those of the words of a text.
"""
