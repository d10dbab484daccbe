"""The viewer, a page that shows maps, comparisons, answers and rankings.

It runs in HTML files, in notebook frames and widgets, and on the web server. Its source code is in
`web/` of the repository, and the built files are in `built/`.

    answer_block    Describe an answer for the viewer: its words, the documents, and the scores of
                    words, sentences and documents by each method.
    packing         Encode scores as text: normalised, in float16 and base64. If they do not fit
                    into the page, keep only the largest.
    page            Write the payload and the viewer into one HTML file, or into a frame of a
                    notebook.
    payload         Build the payload of the viewer, one JSON object with maps, an answer, a
                    comparison or a ranking.
    text            Describe tokens for the viewer: the text of each token, and the words and
                    segments that group them.
    widget          Show the viewer as a notebook widget (anywidget). You can change the text and
                    the measures in the cell.
"""
