"""Report the results of a benchmark: in the terminal, as Markdown, as an HTML page, and in
files.
"""
