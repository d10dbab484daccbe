"""Fine-tune models with the protocols of the papers and a fixed seed.

`prompt` trains a language model to predict words at a mask, and `classification` trains a text
classifier. They share `training_data` (tokenisation, and the split into training and held-out
examples), the training `loop`, its `checkpoint`, `scoring` and `result`.
"""

from __future__ import annotations

from mixlens.finetuning.classification import classifier_finetuned
from mixlens.finetuning.prompt import prompt_finetuned
from mixlens.finetuning.result import Finetuned
from mixlens.finetuning.scoring import Settings
from mixlens.finetuning.training_data import halves

__all__ = ["Finetuned", "Settings", "classifier_finetuned", "halves", "prompt_finetuned"]
