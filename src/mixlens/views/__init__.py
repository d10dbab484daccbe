"""Views of maps: the terminal, figures and reports.

* `style`: colours, type and one style per measure; `labels`, `fonts`: readable tokens
* `terminal`: heat maps and ranked sources as text
* `canvas`: create and save figures
* `plots` of maps, `figures` of papers, `matrix` for heat maps, `compared` measures
* `charts`, `document`: charts of a ranking, and a report as one page
"""
