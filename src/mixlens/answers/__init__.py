"""Attribute an answer to the passages of its prompt.

These modules score how much an answer depends on each passage of its prompt, either with a measure
or by running the model on a changed prompt. The measures themselves are in `measures`, and
ContextCite is in `measuring`.

    answer              Store an answer with the scores of the passages in its prompt.
    answer_files        Save answers to files and load them: arrays as safetensors, everything else
                        as JSON.
    answer_of_maps      Convert maps of generated text to an `Answer`, which the viewer shows next
                        to the maps.
    answer_parts        Split an answer into sentences and words, and find the prompt part of each
                        source token.
    answered_prompt     Represent a prompt and its answer as token ids, and find the passages of the
                        prompt.
    attention_edges     Compute the logits of an answer while some attention edges are blocked.
    explain_answer      Score the passages of a prompt for an answer that is passed or generated.
    fit_heads           Fit head weights on prompts with answers, and write them to a file.
    head_examples       Compute the features and outputs from which head weights are learned.
    head_fitting        Learn the weights of attention heads from the effect of hiding sources.
    hops                Trace an answer through its reasoning to the tokens of the prompt (hops).
    knockout            Attention knockout: block the attention from an answer to a passage, in
                        windows of layers.
    leave_one_out       Remove one passage at a time, and score the change of the answer.
    method_scores       Score the sources of an answer by one or several methods.
    passage_scores      Scores of the passages of a prompt for an answer.
    prefix_reuse        Run shortened prompts on cached keys and values of the tokens before the
                        removed passage.
    printing            Print an answer with numbered citations, and the cited passages below it.
    prompt_parts        The parts of a prompt: its documents, the question, the system prompt,
                        earlier turns and the text that the chat template adds.
"""
