"""Explain an answer: passages by removal, learned head weights, hops, ranked passages.

Files of this folder start from a prompt, an answer and the passages of the prompt, and run measures
or the model itself to score the passages. Measures of one text are in `measures`, and ContextCite
is in `measuring`.

    answered_prompt     A prompt with its answer, as token ids, and the passages of the prompt.
    leave_one_out       Remove one passage at a time, and score the change of the answer.
    passage_scores      Scores of the passages of a prompt for an answer.
    prefix_reuse        Run shortened prompts on the keys and values of the tokens in front of the
                        removed ones.
"""
