"""Keep short identifiers and marked numbers on one line. Browsers break `--layer` after its
hyphens, and a narrow cell between a number and its mark.
"""

from __future__ import annotations

import re
from typing import Any

_CODE = re.compile(r"<code>([^<\s]{1,30})</code>")
_MARKED = re.compile(r"(?<=<td>)(-?\d+\.\d+) (to \d+\.\d+|[±★≈○↺][^<]*)(?=</td>)")


def on_page_content(content: str, **_: Any) -> str:
    """Return the page with classes and spaces that do not break."""
    content = _CODE.sub(r'<code class="unbroken">\1</code>', content)
    return _MARKED.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), content)
