"""Write a report as one self-contained HTML page.

The page includes its style and charts, adapts to light and dark mode, and looks like the viewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from mixlens.views.style import css

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src {}; img-src data: blob:; base-uri"
    " 'none'; form-action 'none'"
)
_STYLE = """
body { background: var(--paper); color: var(--ink); font: 15px/1.5 var(--font) }
body { max-width: 74rem; margin: 0 auto; padding: 14px 24px 28px; box-sizing: border-box }
h1 { font-size: 1.5rem; margin: .6rem 0 .2rem } h2 { font-size: 1.1rem; margin-top: 2rem }
.quiet, small { color: var(--quiet) } small { font-size: .8em }
.verdict { border-left: 4px solid var(--mark); background: var(--band); padding: .6rem 1rem }
.verdict p:first-child { font-weight: 600; font-size: 1.05rem } .verdict p { margin: .35rem 0 }
.wide { overflow-x: auto } figure { margin: 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .8rem }
caption { text-align: left; color: var(--quiet); padding-bottom: .4rem }
th, td { padding: .3rem .4rem; text-align: right; vertical-align: top }
th, td { border-bottom: 1px solid var(--line) } td { white-space: nowrap }
thead th { font-weight: 600; vertical-align: bottom }
th[scope=row], .left { text-align: left }
th[scope=row] { position: sticky; left: 0; background: var(--paper); font-weight: 600 }
td.left { white-space: normal }
tr.baseline { font-style: italic } td small { display: block } td.best { font-weight: 700 }
.sign { color: var(--mark); margin-left: .3em; text-decoration: none }
dt { font-weight: 600; margin-top: .6rem } dd { margin-left: 1.2rem } svg { color: var(--ink) }
a { color: var(--mark) } code { overflow-wrap: anywhere }
"""


def document(title: str, about: str, body: Iterable[str], *, script: str = "'none'") -> str:
    """Return the whole page. `body` is HTML, whereas `title` and `about` are plain text.

    `script` is the only source of scripts that the page allows. Without this restriction, a script
    in a frame would have the rights of the page around it.
    """
    inside = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY.format(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}: {escape(about)}</title>\n"
        f"<style>{css()}{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{escape(title)}</h1>\n"
        f'<p class="quiet">{escape(about)}</p>\n{inside}\n</main>\n</body>\n</html>\n'
    )


def breakable(name: str) -> str:
    """Escape a name for HTML, and allow line breaks after underscores to keep tables narrow."""
    return escape(name).replace("_", "_<wbr>")


def table(
    label: str, heads: Iterable[str], rows: Iterable[Iterable[str]], *, left: bool = False
) -> str:
    """Return an HTML table. The first entry of each row is its header.

    In a narrow window, the table scrolls.
    """
    kind = ' class="left"' if left else ""
    head = "".join(f'<th scope="col"{kind}>{breakable(text)}</th>' for text in heads)
    lines = []
    for name, *cells in (list(row) for row in rows):
        row_cells = "".join(f"<td{kind}>{escape(text)}</td>" for text in cells)
        lines.append(f'<tr><th scope="row">{escape(name)}</th>{row_cells}</tr>')
    inside = "\n".join(lines)
    return (
        f'<div class="wide" role="region" aria-label="{escape(label)}" tabindex="0"><table><thead>'
        f"<tr>{head}</tr></thead>\n<tbody>{inside}</tbody></table></div>"
    )
