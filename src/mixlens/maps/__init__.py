"""`MixingMaps` and everything made of them: storage, tables, aggregation over layers, comparison,
identifiability.

Nothing here runs a model, except through a recording.

    alignments                 Word alignments from cross-attention maps: which source word each
                               word of the translation goes back to, as Pharaoh links.
    alternative_attention      Other rows of attention with the same output: one that is far away,
                               and how far each weight can go.
    attention_identifiability  Is attention identifiable?
    collapse                   Rollouts in which one source has taken nearly everything.
    comparison                 Every measure side by side for one target: what each says about the
                               sources, and how far they agree.
    encoder_decoder            ALTI through encoder and decoder: how much of each source token and
                               of each token of the target prefix is in every prediction.
    flow                       Flow: how much can run from a token of a layer to each input token,
                               when every map entry is the width of a pipe.
    labelling                  Numbers from elsewhere, made ready to be maps: tokens, facts and
                               the way of rolling out.
    lazy_views                 How results show themselves.
    merging                    Tokens merged into words or spans: columns (sources) and rows
                               (targets) of all maps at once.
    mixing_maps                MixingMaps: how much of each source token is in each target token
                               of one text, layer by layer, with labels and provenance.
    one_row                    One row out of all layers: what a measure says about one target.
    provenance                 Where numbers come from: measure, options, citation, model,
                               versions.
    relevance                  Relevance through several streams: gradient-weighted attention
                               joined by its authors' rules.
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
    target_row                 Parts of maps: one target's row, with the sources that gave most,
                               and what was measured next to the scores.
    token_identifiability      Can an input token be read off a hidden state?
"""
