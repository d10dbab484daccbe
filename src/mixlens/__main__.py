"""`python -m mixlens`: the command line."""

from __future__ import annotations

from mixlens.cli import main

if __name__ == "__main__":
    main()
