"""Short identifiers and marked numbers of the documentation stay on one line."""

from __future__ import annotations

import pytest

from docs.unbroken import on_page_content

SPACE = "\N{NO-BREAK SPACE}"


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p><code>--layer</code></p>", '<p><code class="unbroken">--layer</code></p>'),
        ("<code>mixlens map TEXT</code>", "<code>mixlens map TEXT</code>"),
        (f"<code>{'a' * 31}</code>", f"<code>{'a' * 31}</code>"),
        ("<td>1.00 ★</td>", f"<td>1.00{SPACE}★</td>"),
        ("<td>0.24 ±0.12 ≈○</td>", f"<td>0.24{SPACE}±0.12{SPACE}≈○</td>"),
        ("<td>0.93 to 0.95</td>", f"<td>0.93{SPACE}to{SPACE}0.95</td>"),
        ("<td>1.00 of the texts</td>", "<td>1.00 of the texts</td>"),
    ],
)
def test_short_code_and_marked_numbers_do_not_break(html: str, expected: str) -> None:
    assert on_page_content(html) == expected
