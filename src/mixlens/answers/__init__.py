"""Explain an answer by the passages of its prompt.

These modules take a prompt, its passages and an answer. They score the passages with measures, or
by running the model on a changed prompt. The measures themselves are in `measures`, and ContextCite
is in `measuring`.

    answer              Answer: a generated or given answer, and the passages of the prompt that it
                        rests on.
    answer_files        Write an answer to a file, and read it again.
    answer_of_maps      The answer of maps that were measured on generated text, for their page.
    answer_parts        Sentences and words of an answer, and the part of the prompt that each
                        source token is in.
    answered_prompt     A prompt with its answer, as token ids, and the passages of the prompt.
    attention_edges     Run an answer with attention edges blocked.
    explain_answer      Generate or take an answer, and score the passages of its prompt.
    fit_heads           Fit head weights on prompts with answers, and write them to a file.
    head_examples       Features and outputs from which head weights are learned, of prompts with
                        answers.
    head_fitting        Learn the weights of attention heads from hidden sources.
    hops                Hops: which tokens of a prompt an answer rests on, through the reasoning
                        between them.
    knockout            Attention knockout: block the attention to one passage, in windows of
                        layers.
    leave_one_out       Remove one passage at a time, and score the change of the answer.
    method_scores       Score the sources of an answer by one or several methods.
    passage_scores      Scores of the passages of a prompt for an answer.
    prefix_reuse        Run shortened prompts on the keys and values of the tokens in front of the
                        removed ones.
    printing            Print an answer with numbered citations, and the cited passages below it.
    prompt_parts        The parts of a prompt: its documents, the question, the system prompt,
                        earlier turns and the text that the chat template adds.
"""
