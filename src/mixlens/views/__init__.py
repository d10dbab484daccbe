"""Views of maps: the terminal, figures and reports.

* `style`: colours, fonts and one style per measure
* `labels`, `fonts`: readable tokens
* `terminal`: heat maps and ranked sources as text
* `canvas`, `embedding_figure`: create and save figures
* `plots`: figures of maps
* `figures`: charts of numbers
* `matrix`: heat maps
* `compared`: figures of comparisons
* `charts`: charts of a ranking
* `document`: reports as one HTML page
"""
