"""The viewer: one page that shows maps, comparisons and rankings, in four hosts.

Its source is in `web/` of the repository, its build in `built/`.

    answer_payload  An answer as the viewer is given it: its words, the documents, and scores of
                 words, sentences and documents by each method.
    packing      Scores as text: shares in float16, written in base64, whole or only the largest.
    page         The payload and the viewer in one HTML file, and the same file inside a notebook.
    page_budget  What of the maps fits into a page of a given size.
    payload      What the viewer is given: maps, a comparison or a ranking as one JSON object.
    text         A row of tokens as the viewer shows it: what each token writes, and how tokens
                 group into words and segments.
    widget       The viewer with a kernel behind it: change the text or the measures in the cell
                 (anywidget).
"""
