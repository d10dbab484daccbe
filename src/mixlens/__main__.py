"""Run the command line with `python -m mixlens`."""

from __future__ import annotations

from mixlens.cli import main

if __name__ == "__main__":
    main()
