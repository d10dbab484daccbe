"""`MixingMaps`, and functions to store them, convert them to tables, aggregate them over layers,
compare them and test identifiability.

No function in this package runs a model directly. Some functions take a recording, which may run
layers of its model again.

    alignments                 Word alignments from cross-attention maps: the source word of each
                               word of the translation, as Pharaoh links.
    alternative_attention      Alternative attention weights with the same output, and bounds of
                               each weight.
    attention_identifiability  Is attention identifiable? Measure the freedom of the attention
                               weights of each head.
    comparison                 Compare all measures for one target, with their agreement.
    encoder_decoder            ALTI through encoder and decoder: how much each source token and each
                               token of the target prefix contribute to every prediction.
    flow                       Flow: the maximum flow from a token of a layer to each input token,
                               with map entries as capacities.
    labelling                  Turn existing scores into maps.
    mixing_maps                MixingMaps: how much each source token contributes to each target
                               token of one text, layer by layer, with labels and provenance.
    one_row                    Aggregate the layers of one target into one set of scores.
    provenance                 Record the provenance of scores: measure, options, citation, model,
                               versions.
    ranked_scores              Scores of named parts: ranked, as a table, and in a JSON file.
    relevance                  Relevance through several streams: gradient-weighted attention,
                               aggregated by its authors' rules.
    rollout                    Rollout: the product of the layers' maps, R_l = M_l R_(l-1) with R_0
                               = M_0, so that R_l reads from layer l down to the input.
    route_graph                A route as a graph: its edges, their scores, and its files.
    routes                     The route of one target: the part of the network that builds its
                               state, as a graph.
    segment_sums               Sum sources by segment, with the score of the first token, and select
                               the tokens of one segment.
    selection                  Select or merge parts of maps: layers, targets, heads, and the tokens
                               of words or spans.
    storage                    Store maps in one file: the numbers as safetensors, everything else
                               as JSON in its header.
    tables                     Return scores with their labels, as an xarray and as a long table.
    target_row                 One target of maps with its largest sources.
    token_identifiability      Identify an input token from a hidden state.
"""

from __future__ import annotations

import importlib
from typing import Any


def view(name: str) -> Any:
    """Return a module of `mixlens.views`, such as "plots".

    Modules that define results must not import `mixlens.views` at the top, so they load the code
    for figures and HTML pages through this function on first use.
    """
    return importlib.import_module(f"mixlens.views.{name}")
