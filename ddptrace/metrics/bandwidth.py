"""How fast a collective was, as NCCL's own tests define it (nccl-tests, doc/PERFORMANCE.md)."""

from __future__ import annotations

_BYTES_A_GB = 10**9
_NS_A_S = 10**9


def algbw_gb_s(size_bytes: int | None, transfer_ns: int | None) -> float | None:
    """Return the size of the whole array over the time, in GB/s; None where one is unknown or 0."""
    if not size_bytes or not transfer_ns:
        return None
    return size_bytes / _BYTES_A_GB / (transfer_ns / _NS_A_S)


def busbw_gb_s(algbw: float | None, operation: str | None, ranks: int | None) -> float | None:
    """Return what the links carried, in GB/s: comparable between operations and numbers of ranks.

    None for an operation that NCCL's tests have no factor for, or of an unknown number of ranks.
    """
    factor = _factor(operation, ranks)
    return None if algbw is None or factor is None else algbw * factor


def _factor(operation: str | None, ranks: int | None) -> float | None:
    if operation in ("broadcast", "reduce", "send", "recv", "send_recv"):
        return 1.0
    if not ranks:
        return None
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if operation in ("reduce_scatter", "all_gather", "all_to_all", "gather", "scatter"):
        return (ranks - 1) / ranks
    return None
