"""`ddptrace explain`: what a finding means."""

from __future__ import annotations

from typing import Annotated

import typer

from ddptrace.cli.terminal import write
from ddptrace.errors import UsageError
from ddptrace.wording import one_line

_MOST_SHOWN = 40


def explain(
    finding: Annotated[
        str | None,
        typer.Argument(metavar="[FINDING]", help="The code of a finding, such as straggler."),
    ] = None,
) -> None:
    """Explain a finding: what it means, how it is computed, when it misleads, what to try.

    Without FINDING: the list of all findings. Exit codes: 0 fine, 2 no such finding.
    """
    from ddptrace.diagnosis.explanations import EXPLANATIONS, nearest
    from ddptrace.outputs.explanation import render, render_list

    if finding is None:
        write("-", render_list())
        return
    if finding not in EXPLANATIONS:
        raise UsageError(_unknown(finding[:_MOST_SHOWN], nearest(finding[:_MOST_SHOWN])))
    write("-", render(EXPLANATIONS[finding]))


def _unknown(finding: str, near: list[str]) -> str:
    hint = f"did you mean {' or '.join(near)}?" if near else "`ddptrace explain` lists all"
    return f"explain {one_line(finding)}: no such finding; {hint}"
