"""All that a report says in sentences, in the order in which it is read."""

from __future__ import annotations

from collections.abc import Iterator

from ddptrace.outputs.buckets import bucket_lines
from ddptrace.outputs.findings import finding_lines, ledger_lines
from ddptrace.outputs.recording import sentences
from ddptrace.outputs.stragglers import straggler_lines
from ddptrace.report import Report
from ddptrace.wording import one_line


def said(report: Report) -> Iterator[str]:
    """Give the sentences on the ledger, the findings, who is late, the buckets, the recording.

    Each is one line, whatever the names in it.
    """
    for lines in (ledger_lines, finding_lines, straggler_lines, bucket_lines, sentences):
        yield from map(one_line, lines(report))
