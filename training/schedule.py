"""Step size over a run that ends after a number of steps or, if that comes first, after a number of
seconds.
"""

from __future__ import annotations

import time


class Schedule:
    """Linear rise, then linear fall to zero; progress is the further of steps and time."""

    def __init__(self, peak: float, steps: int, seconds: float | None = None, warmup: int = 400):
        self.peak, self.steps, self.seconds = peak, steps, seconds
        self.warmup = min(warmup, max(1, steps // 10))
        self.began = time.monotonic()

    def progress(self, step: int) -> float:
        """From 0 to 1; with a time limit the step count of a run depends on the machine."""
        done = step / self.steps
        if self.seconds is not None:
            done = max(done, (time.monotonic() - self.began) / self.seconds)
        return min(1.0, done)

    def rate(self, step: int, progress: float) -> float:
        """The learning rate at this step."""
        return self.peak * min(1.0, (step + 1) / self.warmup) * (1.0 - progress)
