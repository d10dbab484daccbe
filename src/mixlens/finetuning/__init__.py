"""Fine-tune models with the papers' protocols and a fixed seed.

`prompt` trains on words at a mask, `classification` on classes of texts.

They share `training_data` (texts as model inputs, training and held-out examples), the training
`loop`, its `checkpoint`, `scoring` and `result`.
"""

from __future__ import annotations

from mixlens.finetuning.classification import classifier_finetuned
from mixlens.finetuning.prompt import prompt_finetuned
from mixlens.finetuning.result import Finetuned
from mixlens.finetuning.scoring import Settings
from mixlens.finetuning.training_data import halves

__all__ = ["Finetuned", "Settings", "classifier_finetuned", "halves", "prompt_finetuned"]
