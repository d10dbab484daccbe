"""The prose of `docs/leaderboard/answers.md`. Numbers in it are computed from the cells."""

from __future__ import annotations

BASELINES = ("random", "first", "last", "lexical")
LANGUAGES = {"en": "English", "de": "German"}
NAMES = {
    "SmolLM2-135M-Instruct": "SmolLM2",
    "Gemma-3-270M": "Gemma 3",
    "causal": "Bundled model",
}
MODELS = {
    "SmolLM2-135M-Instruct": (
        "SmolLM2-135M-Instruct has 30 layers and 135 million parameters. We read it from a file"
        " with four bits a weight."
    ),
    "Gemma-3-270M": (
        "Gemma-3-270M has 18 layers and 270 million parameters. We read it from a file with four"
        " bits a weight. On the CPU we had time for 30 prompts in a cell, and not for"
        " `gradient_x_input`, `value_zeroing_segments` and `context_cite`."
    ),
    "causal": (
        "The causal model of the package has 6 layers and 0.85 million parameters. It was trained"
        " on prompts of the same templates and words. It shows how the methods behave on a tiny"
        " model that finds the answer, not how they behave on language models. Its cost is mostly"
        " that of Python, so it has no column of costs."
    ),
}
MODEL_OPTIONS = {
    "SmolLM2-135M-Instruct": "--model FOLDER/smollm2 --name SmolLM2-135M-Instruct",
    "Gemma-3-270M": "--model FOLDER/Gemma-3-270M --counted 30 --removal 0 --most 100",
    "causal": "--model mixlens/bundled/causal --removal 200",
}
DEFAULT = "alti"  # of lens.answer
DEFAULT_REASON = (
    "Both score every word of an answer in that pass and form no n x n map. `logit_update` needs"
    " the attention maps of all targets, for each sentence, and `leave_one_out` a pass for each"
    " document. To use another method, pass `methods=`."
)
BUDGETS = {"About one forward pass": 1.7, "Up to three passes": 3.5, "More": float("inf")}

INTRODUCTION = """---
hide:
  - toc
---

# Which passages does an answer rest on?

This page compares methods that score the documents of a prompt for an answer. The prompts are
generated (`generated:TASK`), so it is known which documents hold the evidence. A prompt counts only
if the model gives the expected answer, and another one without the evidence. The number of a method
is the mean reciprocal rank of the best evidence document: 1 if it always comes first. Prompts are
plain text, without a chat template, and the model continues the beginning of an answer.

![Cost in forward passes and reciprocal rank of each method, for each model](answers.svg)

In the panels with costs, the horizontal axis is the CPU time of a method alone, in forward passes
of the prompt. A point is the mean over the cells of a model, and a grey line spans its tasks. A
cell is one task with one number of documents in one language.
"""

MARKS = (
    "★: best of its column, among the methods that ran on half of the prompts or on 100. ≈: not"
    " different from the best. ○: not better than random. All by paired permutation tests with"
    " Holm's correction over the methods, at 5 %. Several cells in one column have equal weights."
    " The 95 % interval is over prompts. *first*: the best document is evidence. *recall*: evidence"
    " documents among the best k, with k their number. *tokens*: evidence tokens among the best 10"
    " % of the prompt's tokens. *with sink*: the reciprocal rank if the first token of the prompt,"
    " which attracts attention in every prompt, counts for its document. It belongs to no document"
    " if the tokenizer begins with a token of its own, as that of Gemma does. Columns by the number"
    " of documents hold the tasks that were run with so many. *passes*: CPU time of the method"
    " alone in forward passes. Layer measures share one pass if you ask for several. `first` and"
    " `last` rank the documents in their order and in reverse, `lexical` by the words that they"
    " share with question and answer."
)

TWO_DOCUMENTS = (
    "In two tasks, the answer rests on two documents. This table has the recall of both: evidence"
    " documents among the best two. ○: not better than random."
)

ACCURACY = (
    "Prompts that a model answers, of those that were tried. A run stops at the wanted number of"
    " prompts that count, or if fewer than 5 of the first 100 count. ✗: fewer than 10 prompts"
    " count, so this page leaves the cell out of all other tables."
)

ENDING = """
`python -m training.leaderboard.models` makes the folder of models. Every command resumes if it is
stopped. `--device cuda --workers 14` runs 14 processes on one GPU. `python -m
training.leaderboard.answers --costs 3` times the methods, `python -m training.leaderboard.heads`
learns weights of heads, and `python -m docs.answer_leaderboard --take OUT` writes this page.
"""

LIMITS = (
    "These are small models, short documents and regular prompts. A test needs about 20 prompts"
    " before it can show a difference. The cells of SmolLM2 were planned with 200 prompts that"
    " count. The run was stopped by the clock, with about the same number of prompts in all cells."
    " In this model, `gradient_x_input`, `value_zeroing_segments` and `context_cite` ran on the"
    " first 40 of each cell. The document with an injected instruction is longer than the others,"
    " which helps every measure that adds up tokens. Every answer is copied from its evidence,"
    " which suits `logit_update`: it credits the tokens whose values write the words of the answer."
    " `lexical` also knows the answer, and it finds the evidence of nearly all prompts, so a high"
    " number does not show that a method sees more than shared words. The tables separate methods"
    " from each other. Run them on your model before you rely on one."
)

HEADS_INTRODUCTION = (
    "Weights of heads, learned on one task of a model and tested on another, or on the other half"
    " of the same. The prompts have four documents. A row is one pair of tasks, with at most 100"
    " prompts for the fit and 100 for the test. *better* and *worse* count the rows in which"
    " learned weights differ from equal weights, or learned weights of a feature from those of"
    " attention, by paired tests with Holm's correction over the rows of a model."
)

HEADS_NOTE = (
    "In SmolLM2, learned weights help `attention` and `contribution_weights`, which find little"
    " more than random numbers with equal weights. `attention_norm` and `flow_routes` do well with"
    " equal weights. Weights that were learned on another task make them worse on average, so learn"
    " the weights on prompts like yours, or use a feature that needs none. The bundled model finds"
    " the evidence of nearly all prompts with equal weights, except those of `two_hop`, so there is"
    " little to learn. `python -m training.leaderboard.heads` repeats the comparison on your model."
)
