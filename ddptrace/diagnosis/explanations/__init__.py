"""What each finding means: one record for each code of the closed lists."""

from __future__ import annotations

from difflib import get_close_matches

from ddptrace.diagnosis.explanations import (
    advice_buckets,
    advice_ranks,
    advice_recording,
    communication,
    compute,
    idle,
)
from ddptrace.diagnosis.explanations.record import Explanation

BOTTLENECKS = {
    one.code: one
    for one in (*compute.EXPLANATIONS, *communication.EXPLANATIONS, *idle.EXPLANATIONS)
}
"""Findings that may be the verdict."""

ADVICE = {
    one.code: one
    for one in (
        *advice_buckets.EXPLANATIONS,
        *advice_ranks.EXPLANATIONS,
        *advice_recording.EXPLANATIONS,
    )
}
"""Findings that are worth knowing, and never the verdict."""

EXPLANATIONS: dict[str, Explanation] = {**BOTTLENECKS, **ADVICE}
_LEAST_ALIKE = 0.5


def nearest(code: str) -> list[str]:
    """Return the codes most like an unknown one, the nearest first; maybe none."""
    return get_close_matches(code.lower().replace("-", "_"), EXPLANATIONS, cutoff=_LEAST_ALIKE)
