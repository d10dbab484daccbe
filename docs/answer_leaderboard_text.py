"""The prose of `docs/leaderboard/answers.md`. Numbers in it are computed from the cells."""

from __future__ import annotations

BASELINES = ("random", "first", "last", "lexical")
NAMES = {"SmolLM2-135M-Instruct": "SmolLM2", "Gemma-3-270M": "Gemma 3"}
DEFAULT = "flow_routes"  # of lens.answer
DEFAULT_REASON = (
    "It stays the default because it scores every word of an answer in that pass and never forms an"
    " n x n map. `logit_update` needs the attention maps of all targets, for each sentence."
)
BUDGETS = {"About one forward pass": 1.7, "Up to three passes": 3.5, "More": float("inf")}

INTRODUCTION = """---
hide:
  - toc
---

# Which passages does an answer rest on?

This page compares methods that score the documents of a prompt for an answer. The prompts are
generated (`generated:TASK`), so it is known which documents hold the evidence. A prompt counts only
if the model gives the expected answer, and another one without the evidence. The number in a cell
is the mean reciprocal rank of the best evidence document: 1 if it always comes first. Prompts are
plain text, without a chat template, and the model continues the beginning of an answer.

![Cost in forward passes and reciprocal rank of each method, for each model](answers.svg)

The horizontal axis is the CPU time of a method alone, in forward passes of the prompt. A point is
the mean over the tasks of a model, and a grey line spans them.
"""

MARKS = (
    "★: best of its cell. ≈: not different from the best. ○: not better than random. All by paired"
    " permutation tests with Holm's correction, at 5 %. (n): the method ran on the first n counted"
    " prompts only. Brackets: 95 % interval over prompts. `first` and `last` rank the documents in"
    " their order and in reverse, `lexical` by the words that they share with question and answer."
)

ENDING = """
The first two columns of a cell are the method and the number of prompts. *first*: the best document
is evidence. *recall*: evidence documents among the best k, with k their number. *tokens*: evidence
tokens among the best 10 % of the prompt's tokens. *with sink*: the reciprocal rank if the first
token of the prompt, which attracts attention whatever it is, counts for its document. *passes*: CPU
time of the method alone in forward passes. Layer measures share one pass if you ask for several.

Every command resumes if it is stopped. `python -m training.leaderboard.answers --costs 3` times the
methods, and `python -m docs.answer_leaderboard --take OUT` writes this page.
"""

LIMITS = (
    "These are small models, short documents and regular prompts. A test needs about 20 prompts"
    " before it can show a difference, so read the last column rather than small cells. That column"
    " weighs every prompt equally, so the largest cell weighs most, and a method that ran on fewer"
    " prompts has another mix of tasks in it. `key_value` with four documents in SmolLM2 was"
    " extended to 200 counted prompts, a number chosen before the run for the four tasks of this"
    " model with four documents. The run was stopped during the second task, and unfinished cells"
    " were not taken. The added prompts have the layer measures, `logit_update` and the baselines"
    " only. The document with an injected instruction is longer than the others,"
    " which helps every measure that adds up tokens. Every answer is copied from its evidence,"
    " which suits `logit_update`: it credits the tokens whose values write the words of the answer."
    " `lexical` finds the evidence of nearly all prompts, so a high number does not show that a"
    " method sees more than shared words. The table separates methods from each other. Run it on"
    " your model before you rely on one."
)

HEADS_NOTE = (
    "This model is tiny, the prompts have two documents, and the model answers few of them, so this"
    " does not decide the question for a language model. `python -m training.leaderboard.heads`"
    " repeats it on yours."
)
