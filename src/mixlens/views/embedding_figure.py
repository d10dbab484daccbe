"""A matplotlib figure whose files hold text in TrueType fonts."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# 42 is TrueType. Many publishers reject matplotlib's default, 3, which cannot be edited.
_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42}


class EmbeddingFigure(Figure):
    """A `Figure` that embeds TrueType fonts in PDF and PostScript files."""

    def savefig(self, fname: Any, **kwargs: Any) -> None:
        """Save the figure like `Figure.savefig`, and restore rcParams afterwards."""
        with mpl.rc_context(_FONTS):
            super().savefig(fname, **kwargs)
