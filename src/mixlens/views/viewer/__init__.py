"""The viewer: one page that shows maps, comparisons and rankings, in four hosts.

Its source is in `web/` of the repository, its build in `built/`.

    answer_block    Describe an answer for the viewer: its words, the documents, and scores of
                    words, sentences and documents by each method.
    packing         Encode scores as text: normalised, in float16 and base64, complete or only the
                    largest, as fits into a page of a given size.
    page            Write the payload and the viewer into one HTML file, or into a frame of a
                    notebook.
    payload         Build the payload of the viewer: maps, an answer, a comparison or a ranking as
                    one JSON object.
    text            Describe tokens for the viewer: the text of each token, and their grouping into
                    words and segments.
    widget          The viewer as a notebook widget: change the text or the measures in the cell
                    (anywidget).
"""
