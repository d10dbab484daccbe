"""Reports of a benchmark: in the terminal, as Markdown, as a page, and its files."""
