"""Maps for people: the terminal, figures and reports."""
