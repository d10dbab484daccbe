"""Fine-tuning as the papers do it, seeded, on whatever model is given.

`prompt`: words in a masked place; `classification`: classes of texts.

They share `tokens` (a text as a model takes it), `splitting` (what is learned from), the training
`loop`, its `checkpoint`, `scoring` and `result`.
"""

from __future__ import annotations

from mixlens.finetuning.classification import classifier_finetuned
from mixlens.finetuning.prompt import prompt_finetuned
from mixlens.finetuning.result import Finetuned
from mixlens.finetuning.scoring import Settings
from mixlens.finetuning.splitting import halves

__all__ = ["Finetuned", "Settings", "classifier_finetuned", "halves", "prompt_finetuned"]
