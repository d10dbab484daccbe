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
        "SmolLM2-135M-Instruct has 30 layers and 135 million parameters. We used a checkpoint with"
        " 4-bit weights."
    ),
    "Gemma-3-270M": (
        "Gemma-3-270M has 18 layers and 270 million parameters. We used a checkpoint with 4-bit"
        " weights. On the CPU, we had time for only 30 prompts per cell, and none for"
        " `gradient_x_input`, `value_zeroing_segments` and `context_cite`."
    ),
    "causal": (
        "The bundled causal model has 6 layers and 0.85 million parameters. It was trained on"
        " prompts with the same templates and words. It shows how the methods behave on a tiny"
        " model that finds the answer, but not how they behave on large language models. Python"
        " overhead dominates its run time, so the table has no costs."
    ),
}
MODEL_OPTIONS = {
    "SmolLM2-135M-Instruct": "--model FOLDER/smollm2 --name SmolLM2-135M-Instruct",
    "Gemma-3-270M": "--model FOLDER/Gemma-3-270M --counted 30 --removal 0 --most 100",
    "causal": "--model mixlens/bundled/causal --removal 200",
}
DEFAULT = "alti"  # of lens.answer
DEFAULT_REASON = (
    "Both score all words of an answer in a single pass, without n × n maps. In contrast,"
    " `logit_update` needs the attention maps of all targets for each sentence, and"
    " `leave_one_out` needs one pass for each document. To use another method, pass `methods=`."
)
BUDGETS = {"About one forward pass": 1.7, "Up to three passes": 3.5, "More": float("inf")}

INTRODUCTION = """---
hide:
  - toc
---

# Which passages does an answer rest on?

This page compares methods that score the documents of a prompt for an answer. The prompts are
generated (`generated:TASK`), so we know which documents contain the evidence. A prompt counts only
if the model gives the expected answer, and a different one without the evidence. The score of a
method is the mean reciprocal rank of the best evidence document. It is 1 if this document always
comes first. The prompts are plain text, without a chat template, and the model continues the
beginning of an answer.

![Cost in forward passes and reciprocal rank of each method, for each model](answers.svg)

In the panels with costs, the horizontal axis shows the CPU time of a method when it runs alone, in
forward passes of the prompt. A *cell* is one task with a given number of documents in one language.
A point is the mean over the cells of a model, and a grey line shows the range of its tasks.
"""

MARKS = (
    "★: best of its column, among the methods that ran on half of the prompts or on 100 prompts. ≈:"
    " not significantly different from the best. ○: not significantly better than random. We used"
    " paired permutation tests at 5 %, with Holm's correction over the methods. If a column"
    " combines several cells, they have equal weights. The 95 % interval is over prompts. *first*:"
    " fraction of prompts whose best document is evidence. *recall*: fraction of the evidence"
    " documents among the best k, where k is the number of evidence documents. *tokens*: fraction"
    " of the evidence tokens among the best 10 % of the prompt's tokens. *with sink*: the"
    " reciprocal rank if the first token of the prompt, an attention sink, counts for its document."
    " If the tokenizer adds a special token at the start, as Gemma's does, the first token belongs"
    " to no document. The columns *4 documents*, *8 documents* and so on contain only the cells"
    " with this number of documents. *passes*: CPU time of the method when it runs alone, in"
    " forward passes. Several layer measures in one call share a pass. Baselines: `first` and"
    " `last` rank the documents in their order and in reverse, and `lexical` ranks them by the"
    " number of words that they share with question and answer."
)

TWO_DOCUMENTS = (
    "In two tasks, the answer rests on two documents. This table shows the recall, which is the"
    " fraction of the evidence documents among the best two. ○: not better than random."
)

ACCURACY = (
    "The table shows how many of the prompts that we tried a model answers. A run stops when enough"
    " prompts count, or if fewer than 5 of the first 100 count. ✗: fewer than 10 prompts count, so"
    " this page leaves the cell out of all other tables."
)

ENDING = """
`python -m training.leaderboard.models` creates the folder of models. If you stop a command, run it
again to resume. `--device cuda --workers 14` runs 14 processes on one GPU. `python -m
training.leaderboard.answers --costs 3` times the methods, `python -m training.leaderboard.heads`
learns head weights, and `python -m docs.answer_leaderboard --take OUT` writes this page.
"""

LIMITS = (
    "These results come from small models, short documents and regular prompts. A test needs about"
    " 20 prompts to show a difference. For SmolLM2, we planned 200 prompts per cell, but stopped"
    " the run early, when all cells had about the same number of prompts. On this model,"
    " `gradient_x_input`, `value_zeroing_segments` and `context_cite` ran on the first 40 prompts"
    " of each cell. The document with an injected instruction is longer than the others, which"
    " favours every measure that sums the scores of tokens. Every answer is copied from its"
    " evidence, which favours `logit_update`, because it scores how much each token's value"
    " increases the logit of the answer. `lexical` also uses the words of the answer. It finds the"
    " evidence of nearly all prompts, so a high score does not show that a method uses more than"
    " shared words. Use the tables to compare methods with each other, and repeat them on your"
    " model before you rely on a method."
)

HEADS_INTRODUCTION = (
    "We learned a weight for each head on one task, and tested the weights on a different task or"
    " on the other half of the same task. The prompts have four documents. A line of the table"
    " combines pairs of tasks, with at most 100 prompts for the fit and 100 for the test. *better*"
    " and *worse* count the pairs in which learned weights differ significantly from equal weights,"
    " or from learned weights for `attention` (paired tests with Holm's correction over all pairs"
    " of a model)."
)

HEADS_NOTE = (
    "On SmolLM2, learned weights help `attention` and `contribution_weights`, which are hardly"
    " better than random scores with equal weights. `attention_norm` and `flow_routes` do well with"
    " equal weights. On average, weights that were learned on a different task make them worse."
    " Learn the weights on prompts like yours, or use a measure without learned weights. With equal"
    " weights, the bundled model finds the evidence of nearly all prompts except those of"
    " `two_hop`, so there is little to learn. `python -m training.leaderboard.heads` repeats the"
    " comparison on your model."
)
