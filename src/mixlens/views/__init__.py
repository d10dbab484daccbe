"""Maps for people: the terminal, figures and reports.

* `style`: colours, type and one style per measure; `labels`, `fonts`: tokens as people read them
* `terminal`: heat maps and ranked sources as text
* `canvas`, `embedding_figure`: where figures are drawn
* `plots` of maps, `figures` of papers, `compared` measures
* `charts`, `document`: charts of a ranking, and a report as one page
"""
