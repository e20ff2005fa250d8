"""A page as one file that fetches nothing: its shell, its policy, its data, its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

from plotly.offline import get_plotlyjs

from ddptrace.outputs.html.looks import style_rules
from ddptrace.outputs.html.timelines import packed

_SCRIPTS = (
    *("base.js", "lanes.js", "timeline.js", "timeline_use.js"),
    *("charts.js", "link_charts.js", "tables.js", "page.js"),
)
_FAILED = (
    '<p id="failed" class="failed" role="alert" hidden>The pictures could not be drawn:</p>'
    '<noscript><p class="failed">The pictures and the tables of a chosen step need JavaScript; the '
    "verdict, the findings and the facts do not.</p></noscript>"
)


@dataclass(frozen=True, slots=True)
class Page:
    """What goes into a page: its title, the HTML of its body, JSON and packed data by their id."""

    title: str
    body: Iterable[str]
    documents: dict[str, str]
    blocks: dict[str, str] = field(default_factory=dict)


def page_of(page: Page) -> str:
    """Return a page as text; the same page gives the same text."""
    script = _script()
    blocks = page.blocks | {"plotly": _plotly()}
    parts = [
        head(page.title, [script, get_plotlyjs()]),
        f"<h1>{escape(page.title)}</h1>",
        _FAILED,
        *page.body,
        "</main>",
        *(data(name, json, "application/json") for name, json in page.documents.items()),
        *(data(name, text, "text/plain") for name, text in blocks.items()),
        f"<script>{script}</script>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def head(title: str, scripts: Iterable[str]) -> str:
    """Return the start of a page, up to its heading; only these scripts may run in it."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{_style()}</style></head>
<body><main>"""


def _policy(scripts: Iterable[str]) -> str:
    """Return what the browser may do: run these scripts, and fetch nothing."""
    hashes = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def data(name: str, text: str, kind: str) -> str:
    """Return data as an element that the script reads; no `<` in it can end the element."""
    safe = text.replace("<", "\\u003c")
    return f'<script type="{kind}" id="{name}">{safe}</script>'


@cache
def _plotly() -> str:
    """Return plotly's script, packed: its text is longer than all else in a page."""
    return packed(get_plotlyjs().encode())


@cache
def _script() -> str:
    joined = "\n".join(_asset(name) for name in _SCRIPTS)
    return f"(() => {{\n{joined}\n}})();"


@cache
def _style() -> str:
    return f"{_asset('style.css')}\n{style_rules()}"


def _asset(name: str) -> str:
    return (files("ddptrace.outputs.html") / "page" / name).read_text(encoding="utf-8")
