"""Where text goes, and tables that turn into short lines where a terminal is too narrow."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ddptrace.wording import safe_lines

_UNLIMITED = 10_000


class _SafeConsole(Console):
    """A console on which no name of a trace moves the cursor or begins a line."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return what is written, with spaces for the controls within texts."""
        return super().render(_safe(renderable), options)

    def render_str(self, text: str, **styles: Any) -> Text:  # noqa: ANN401  # as rich has it
        """Return words as a text, with spaces for the controls."""
        return super().render_str(safe_lines(text), **styles)


def _safe(renderable: RenderableType) -> RenderableType:
    if not isinstance(renderable, Text):
        return renderable
    text = renderable.copy()
    text.plain = safe_lines(text.plain)
    return text


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the text goes: `width` is None where lines need not fit, as in a pipe."""

    width: int | None = None
    colour: bool = False

    def console(self) -> Console:
        """Return a console that writes into memory what this destination can show."""
        return _SafeConsole(
            file=io.StringIO(),
            width=self.width or _UNLIMITED,
            force_terminal=self.colour,
            no_color=not self.colour,
            color_system="standard" if self.colour else None,
            highlight=False,
            soft_wrap=self.width is None,
            legacy_windows=False,
        )


def empty_table() -> Table:
    """Return a table without columns, in the style of all tables."""
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")


def print_fitting(console: Console, table: Table, narrow: Iterable[Text]) -> None:
    """Print a table, or the lines that stand for it where it is wider than the terminal."""
    needed = console.measure(table, options=console.options.update(width=_UNLIMITED)).maximum
    if needed <= console.width:
        console.print(table)
        return
    for lines in narrow:
        console.print(lines)
