"""Run measures over many texts, with shards, journals, engines and stored results.

The packages `measuring` and `evaluations` do the computation for one text.

    aggregates    Aggregate over a corpus without maps on the disk.
    batch         Record a batch of texts once, run every measure, and summarise the scores on the
                  device.
    corpus_run    Run measures over a corpus: split it into shards, measure them with an engine, and
                  write shard by shard.
    example_view  Show one text of a run in the viewer, for its report, with the maps of a few
                  measures.
    job           Describe a run by values that can be sent to a different process.
    journal       The journal of a run: one line per finished piece of work, written to disk before
                  the next one begins.
    lease         Let only one run write to a folder on object storage, which has no locks.
    mixtures      Scores of a batch of texts, with properties of their tokens.
    observing     Ask the same questions about every text, and save the answers text by text.
    results       Read the results of a run on demand, and open saved files (`mixlens.load`).
    settings      Store the settings of a run, and reject runs with different settings in the same
                  folder.
    shard         Read, measure and write one shard.
    store         Write the results of a run as a Parquet data set: one row per text, measure and
                  layer.
    summaries     Summarise a batch: the main sources of each target and layer.
"""
