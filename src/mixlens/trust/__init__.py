"""Which measure to trust on a model: every measure judged by every evaluation, on the user's own
data.

`benchmark(lens, dataset) -> Ranking` in Python, `mixlens benchmark` on the command line.
"""

from __future__ import annotations

from mixlens.trust.ranking import Ranking
from mixlens.trust.run import benchmark

__all__ = ["Ranking", "benchmark"]
