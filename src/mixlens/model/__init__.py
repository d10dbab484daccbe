"""One model: loading, wrappers, placement, locking, caching, generation, and its outputs.

Code that knows the structure of a layer does not belong here.

    casts               Modules that cast themselves while they run, as the routers of Switch and
                        NLLB-MoE do.
    checkpoint_weights  Weights that a checkpoint lacks, or stores in a form that cannot be right.
    fingerprint         The fingerprint of a model's state: weights, modules, their code,
                        attributes, hooks and config.
    free_memory         How much memory is free, and whether an error says that there was too
                        little.
    hub_errors          Why the hub did not give a model or a data set, and what to do about it.
    hub_timeout         A hub that does not answer.
    json_values         JSON that somebody else may have written: parsed without surprises, and
                        checked for its form.
    loading             Loading a model and its tokenizer by hub name or folder, as the class that
                        it was saved as.
    model_cache         What was found out about a module, remembered until its numbers, its
                        parts, their code or their settings change.
    model_changes       Which change took a model out of the state in which it was recorded.
    model_lock          One thread at a time works with a model.
    module_walk         Every part of a model, without names, and a copy of a part.
    placement           Where the weights of a model are: on a device as plain numbers, packed, or
                        away.
    pooling             From the states of a text's tokens to one vector, as a sentence encoder
                        makes it.
    precision           How exactly float32 products are taken: torch's own switch, for one call.
    rotary              Rotary positions whose frequencies depend on the length of the input.
    sentence_encoder    A SentenceTransformer: the texts that it reads, and the embedding that it
                        makes of token states.
    sentence_folder     Folders that sentence-transformers saved: which model inside them is the
                        encoder.
    uncompiled          Run compiled modules as they are written while a model is measured.
    wrappers            What people hold instead of a transformers model, and the model inside it.
"""
