"""Which measure to trust on a model: every measure judged by every evaluation, on the user's own
data.

`benchmark(lens, dataset) -> Ranking` in Python, `mixlens benchmark` on the command line.

* `plan`: which measures are asked by which evaluations; `run`: every text, then the ranking
* `observing`: what the evaluations see of one text; `findings`: what all texts say
* `standings`, `marks`: ranks with intervals, and tests against the best and against chance
* `ranking`, `verdict`: the result, and what it says in plain words
* `submission`: a row of the leaderboard; `report`: files, pages and the terminal
"""

from __future__ import annotations

from mixlens.benchmark.ranking import Ranking
from mixlens.benchmark.run import benchmark

__all__ = ["Ranking", "benchmark"]
