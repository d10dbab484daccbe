"""Rank measures on a model: evaluate every measure by every evaluation, on the user's own data.

Use `benchmark(lens, dataset) -> Ranking` in Python, or `mixlens benchmark` on the command line.

* `plan`: choose measures and evaluations; `run`: evaluate every text, then rank
* `observing`: observe one text; `findings`: combine the observations of all texts
* `standings`, `marks`: ranks with intervals, and tests against the best and against chance
* `ranking`, `verdict`: the result, and its summary in plain words
* `submission`: a leaderboard entry; `report`: files, pages and the terminal
"""

from __future__ import annotations

from mixlens.benchmark.ranking import Ranking
from mixlens.benchmark.run import benchmark

__all__ = ["Ranking", "benchmark"]
