"""What a finding means, as plain text that fits a narrow terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

from ddptrace.diagnosis.explanations import ADVICE, BOTTLENECKS
from ddptrace.diagnosis.explanations.record import Explanation

WIDTH = 80
_INDENT = "  "


def render(one: Explanation) -> str:
    """Return all that is told of one finding, under a heading each."""
    kind = "a bottleneck" if one.code in BOTTLENECKS else "advice, never the verdict"
    parts = {
        "How it is computed": one.how,
        "When it misleads": one.misleads,
        "What to try": one.advice,
    }
    sections = [f"{heading}\n{_wrapped(text)}" for heading, text in parts.items()]
    picture = f"Picture\n{textwrap.indent(one.picture, _INDENT)}"
    return "\n\n".join([f"{one.code}: {kind}\n{_wrapped(one.meaning)}", picture, *sections]) + "\n"


def render_list() -> str:
    """Return every code with what it means, a line each."""
    return "\n".join(
        [
            "Bottlenecks: the costliest is the verdict, if it costs enough.",
            *_lines(BOTTLENECKS),
            "",
            "Advice: worth knowing, never the verdict.",
            *_lines(ADVICE),
            "",
            "More on one: ddptrace explain CODE",
            "",
        ]
    )


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _lines(explanations: Mapping[str, Explanation]) -> list[str]:
    width = max(map(len, (*BOTTLENECKS, *ADVICE)))
    return [f"{_INDENT}{code:{width}}  {one.first_sentence}" for code, one in explanations.items()]
