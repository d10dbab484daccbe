"""Kobayashi et al. (2020), Attention is not only a weight: the data that its figures and tables
use.
"""

from __future__ import annotations

DATA = "992 passages of Wikipedia"
FILES = ("wikitext2/test.txt", "wikitext*/test*")
TEXTS = 992
LONGEST = 126
