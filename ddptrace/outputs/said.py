"""All that a report says in sentences, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.outputs.buckets import bucket_lines
from ddptrace.outputs.findings import finding_lines, ledger_lines
from ddptrace.outputs.recording import sentences
from ddptrace.outputs.stragglers import straggler_lines
from ddptrace.report import Report


def said(report: Report) -> Iterator[str]:
    """Give the sentences on the ledger, the findings, who is late, the buckets, the recording."""
    yield from ledger_lines(report)
    yield from finding_lines(report)
    yield from straggler_lines(report)
    yield from bucket_lines(report)
    yield from sentences(report)
