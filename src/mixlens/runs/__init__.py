"""Running over many texts: what `trust`, `experiments` and `mixlens run` share.

* `settings`: what a run was made with, and the refusal to resume with different settings.
* `journal`: one line on the disk for each piece of work that is done.
* `observing`: the same questions asked of every text, written down text by text.

A run over a corpus:

* `job`: what is to be done; `corpus_run`: begins, resumes and finishes it.
* `shard`: measures one shard and writes it; `batch`: one batch on the device; `fetching`: brings
  numbers back without waiting; `engines`: who does which shard when.
* `summaries`, `aggregates`: what is kept of maps; `store`: Parquet; `results`: reads it.
"""
