"""`MixingMaps` and everything computed from them: storage, tables, aggregation over layers,
comparison, identifiability.

Nothing here runs a model, except through a recording.

    alignments                 Word alignments from cross-attention maps: which source word each
                               word of the translation goes back to, as Pharaoh links.
    alternative_attention      Alternative attention weights with the same output, and bounds of
                               each weight.
    attention_identifiability  Is attention identifiable?
    collapse                   Rollouts in which one source has taken nearly everything.
    comparison                 All measures side by side for one target, and their agreement.
    encoder_decoder            ALTI through encoder and decoder: how much of each source token and
                               of each token of the target prefix is in every prediction.
    flow                       Flow: how much can run from a token of a layer to each input token,
                               when every map entry is the width of a pipe.
    labelling                  Turn scores from elsewhere into maps.
    lazy_views                 Load views of results on demand.
    merging                    Tokens merged into words or spans: columns (sources) and rows
                               (targets) of all maps at once.
    mixing_maps                MixingMaps: how much of each source token is in each target token
                               of one text, layer by layer, with labels and provenance.
    one_row                    Aggregate the layers of one target into one row.
    provenance                 Where numbers come from: measure, options, citation, model,
                               versions.
    relevance                  Relevance through several streams: gradient-weighted attention,
                               aggregated by its authors' rules.
    rollout                    Rollout: the maps of the layers multiplied, R_l = M_l R_(l-1) with
                               R_0 = M_0, so that R_l reads from layer l down to the input.
    route_graph                A route as a graph: its edges, the shares behind them, and how it
                               is written down.
    routes                     The route of one target: the part of a network that its state is
                               made of, as a graph.
    segment_sums               Sources summed by segment, the share of the first token, and the
                               tokens of one segment.
    selection                  Parts of maps: some layers, some targets, one head, or all heads
                               merged.
    storage                    Maps in one file: the numbers as safetensors, everything else as a
                               JSON text in its header.
    tables                     Scores with their labels: as an xarray, and as a long table.
    target_row                 One target of maps with its largest sources, and extras.
    token_identifiability      Identify an input token from a hidden state.
"""
