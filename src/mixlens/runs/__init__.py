"""Running over many texts: what `trust`, `experiments` and `mixlens run` share.

* `settings`: what a run was made with, and the refusal to resume with different settings.
* `journal`: one line on the disk for each piece of work that is done.
* `observing`: the same questions asked of every text, written down text by text.
* `example_view`: one text of a run in the viewer, for its report.

A run over a corpus:

* `job`: what is to be done; `corpus_run`: begins, resumes and finishes it.
* `shard`: measures one shard and writes it; `engines`: who does which shard when.
* `batch`: one batch on the device; `fetching`: brings its numbers back without waiting.
* `mixtures`: the scores of a batch; `tags`: parts of speech.
* `summaries`, `aggregates` (with `sketches` of quantiles): what is kept of maps.
* `store`: Parquet; `results`: reads it.
"""
