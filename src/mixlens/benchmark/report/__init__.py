"""The report of a benchmark: on a terminal, as Markdown, as one page, and its files."""
