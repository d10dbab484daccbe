"""Fine-tune models with published protocols and a fixed seed.

`prompt` trains a language model to predict words at a mask, and `classification` trains a text
classifier. Both use the modules `training_data` (tokenisation, split into training and held-out
examples), `loop`, `checkpoint`, `scoring` and `result`.
"""

from __future__ import annotations

from mixlens.finetuning.classification import classifier_finetuned
from mixlens.finetuning.prompt import prompt_finetuned
from mixlens.finetuning.result import Finetuned
from mixlens.finetuning.scoring import Settings
from mixlens.finetuning.training_data import halves

__all__ = ["Finetuned", "Settings", "classifier_finetuned", "halves", "prompt_finetuned"]
