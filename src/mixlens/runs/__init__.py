"""Running over many texts: what `trust`, `experiments` and `mixlens run` share.

* `settings`: what a run was made with, and the refusal to go on with different settings.
* `journal`: one line on the disk for each piece of work that is done.
* `observing`: the same questions asked of every text, written down text by text.
"""
