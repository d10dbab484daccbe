"""Maps for people: the terminal."""
