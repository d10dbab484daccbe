"""Utilities for whole models: loading, wrappers, placement, locking, caching, generation and
outputs. Code that depends on the structure of a layer does not belong here.

    checkpoint_weights  Find weights that are missing from a checkpoint, unexpected, or stored in a
                        wrong format.
    distributed         Support models that are spread over several processes by tensor
                        parallelism, and reject other distributed models.
    fingerprint         The fingerprint of a model's state: weights, modules, their code,
                        attributes, hooks and config.
    hub_access          Detect an unreachable hub, and explain why a model or data set could not be
                        downloaded.
    json_values         Parse JSON from untrusted files and check its structure.
    linearity           Check that modules that replace a linear layer are linear in their inputs.
    loading             Load a model and its tokenizer by hub name or folder, with the model class
                        that it was saved with.
    model_changes       Describe how a model differs from its recorded state.
    module_walk         Iterate over the submodules of a model, look them up by path, and copy them.
    placement           Determine whether the weights of a model are on a device or offloaded.
    plain_shards        Find the shards of tensor-parallel models in transformers 5.2 to 5.15.
    processes           Synchronise the processes that share a model.
    readable_weights    Read offloaded, packed or distributed weights as plain tensors.
    restore_model       Restore attributes, buffers, submodules and compiled code of a model after
                        it was measured.
    rotary              Handle rotary embeddings whose frequencies depend on the length of the
                        input.
    sentence_encoder    Tokenise and embed texts like a SentenceTransformer.
    sentence_folder     Read folders that sentence-transformers saved, and pool token states
                        according to their settings.
    session             Per-model session: lock, checks, settings, fingerprint and cache.
    wrappers            Unwrap PEFT, compiled and parallel models, pipelines and sentence encoders.
"""
