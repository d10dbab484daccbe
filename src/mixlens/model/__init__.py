"""Everything about a model as a whole: loading, wrappers, placement, locking, caching, generation
and outputs. Code that depends on the structure of a layer does not belong here.

    checkpoint_weights  Find weights that a checkpoint lacks, or stores in a wrong form.
    distributed         Models that are spread over several processes: tensor parallelism is
                        measured, the rest refused.
    fingerprint         The fingerprint of a model's state: weights, modules, their code,
                        attributes, hooks and config.
    hub_access          Detect a hub that does not answer, and explain why it did not return a
                        model or a data set.
    json_values         Parse JSON from outside and check its form.
    linearity           Check that modules in the place of a linear layer are linear in their
                        inputs.
    loading             Load a model and its tokenizer by hub name or folder, as the class that it
                        was saved as.
    model_changes       Describe the change between a model and its recorded state.
    module_walk         Walk over all submodules of a model, by path too, and copy a submodule;
                        products with bare parameters count as submodules.
    placement           Find where the weights of a model are: on a device, or offloaded.
    processes           The processes that share a model, and how they stay in step.
    readable_weights    Copy a layer with its weights as plain numbers, if they are offloaded,
                        packed or spread over processes.
    restore_model       Restore attributes, buffers, submodules and compiled code of a model after
                        it was measured.
    rotary              Handle rotary positions whose frequencies depend on the length of the input.
    sentence_encoder    Tokenise and embed texts like a SentenceTransformer.
    sentence_folder     Read folders that sentence-transformers saved, and pool the states of tokens
                        as they say.
    session             Per-model session: lock, torch settings, fingerprint and cache.
    wrappers            Unwrap PEFT, compiled and parallel models, pipelines and sentence encoders.
"""
