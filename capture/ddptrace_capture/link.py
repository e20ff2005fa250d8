"""How long all-reduces of many sizes take on the link of a job while nothing else runs.

Buckets of one size tell nothing of others. Ranks measure together, after the last step that is
timed or recorded, in DDP's own group and so with its communicator: it is what buckets go through.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddptrace_capture.ddp import living_modules, reduced_parameters
from ddptrace_capture.errors import CaptureError

LEADER_WAITS_S, OTHERS_WAIT_S = 30.0, 60.0
"""For ranks that are late, or whose recorder failed."""
POLL_S = 0.02
LEAST_BYTES, MOST_BYTES = 1 << 16, 1 << 29
PROBE_BYTES = 1 << 22
ROUNDS = 3
CALLS = 5
AHEAD_CYCLES = 4_000_000
"""So long the GPU spins before it reduces, about 2 ms: else small ones would wait for the host."""
MOST_NS = 8_000_000_000
"""Sizes that would make it longer than this are left out, the largest first."""
FREE_PART = 4
"""One part in so many of the memory that is free may be used."""


@dataclass(frozen=True, slots=True)
class _Group:
    """A group that DDP averages in, as this rank sees it."""

    group: Any
    ranks: tuple[int, ...]
    rank: int
    device: Any
    dtype: Any
    gradient_bytes: int

    @property
    def leads(self) -> bool:
        return self.rank == self.ranks[0]


def measured() -> dict[str, Any]:
    """Return what this rank measured in each group, or in `problem` why it could not."""
    try:
        return {"groups": [_measured(each) for each in _groups()], "problem": None}
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())
        text = str(error) if isinstance(error, CaptureError) else words
        return {"groups": [], "problem": text[:300]}


def _groups() -> list[_Group]:
    """Return the groups of DDP modules that have others in them, in an order all ranks share."""
    import torch.distributed as dist

    found: dict[tuple[int, ...], _Group] = {}
    for module in living_modules():
        ranks = tuple(sorted(dist.get_process_group_ranks(module.process_group)))
        parameters = list(reduced_parameters(module).values())
        if len(ranks) < 2 or not parameters:
            continue
        size = sum(each.numel() * each.element_size() for each in parameters)
        mine = _Group(
            module.process_group, ranks, dist.get_rank(), parameters[0].device,
            parameters[0].dtype, size,
        )  # fmt: skip
        found[ranks] = max(found.get(ranks, mine), mine, key=lambda one: one.gradient_bytes)
    return [found[ranks] for ranks in sorted(found)]


def _measured(mine: _Group) -> dict[str, Any]:
    import torch.distributed as dist

    talk = _Talk(mine, dist.distributed_c10d._get_default_store())
    # Before ranks agree: one that has no room must say so, or the others wait for it forever.
    buffer = _buffer(mine, min(mine.gradient_bytes, MOST_BYTES, _free_bytes(mine)))
    most_bytes = talk.agree_on_most(buffer.numel() * buffer.element_size())
    probe_bytes = min(PROBE_BYTES, most_bytes)
    times = [_time_ns(mine, buffer, probe_bytes) for _ in range(2)]  # the first one connects
    sizes = talk.agree_on_sizes(_affordable(most_bytes, times[-1] / probe_bytes))
    found: dict[int, list[int]] = {size: [] for size in sizes}
    for size in sizes:
        _time_ns(mine, buffer, size)
    for _ in range(ROUNDS):
        for size in sizes:
            found[size].append(round(_time_ns(mine, buffer, size)))
    return {
        "members": [*mine.ranks],
        "operation": "all_reduce",
        "size_bytes": [*found],
        "time_ns": [*found.values()],
    }


def _affordable(most_bytes: int, ns_per_byte: float) -> list[int]:
    """Return the sizes to measure: powers of two and the largest, as many as there is time for."""
    sizes = [*_powers(most_bytes)]
    while len(sizes) > 1 and sum(sizes) * ns_per_byte * CALLS * (ROUNDS + 1) > MOST_NS:
        sizes.pop()
    return sizes


def _powers(most_bytes: int) -> Iterator[int]:
    size = LEAST_BYTES
    while size < most_bytes:
        yield size
        size *= 2
    yield most_bytes


class _Talk:
    """Ranks agree through the store: a collective without all of them would never end.

    Whoever writes first decides, the leader or a rank that has waited too long for it; so all
    ranks read the same.
    """

    def __init__(self, mine: _Group, store: Any) -> None:  # noqa: ANN401 - a store of torch
        name = hashlib.sha256(repr(mine.ranks).encode()).hexdigest()[:16]
        self._store, self._mine = store, mine
        self._prefix = f"ddptrace/link/{name}"

    def agree_on_most(self, most_bytes: int) -> int:
        """Return the least of what ranks offer; CaptureError unless all of them do in time."""
        self._store.set(self._key(self._mine.rank), str(most_bytes))
        least = self._decided("most", self._least() if self._mine.leads else None)
        if least is None:
            raise CaptureError("not every rank came to the end of its last recorded step in time")
        return int(least)

    def agree_on_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Return what the leader would measure."""
        found = self._decided("sizes", [*sizes] if self._mine.leads else None)
        if found is None:
            raise CaptureError("the first rank told no sizes in time")
        return [*map(int, found)]

    def _least(self) -> int | None:
        keys = [self._key(rank) for rank in self._mine.ranks]
        if not self._is_there(keys, LEADER_WAITS_S):
            return None
        return min(int(self._store.get(key)) for key in keys)

    def _decided(self, what: str, value: Any) -> Any:  # noqa: ANN401 - anything that is JSON
        """Return what was decided: the leader's value, or None of who comes first without it."""
        key = self._key(what)
        if self._mine.leads or not self._is_there([key], OTHERS_WAIT_S):
            return json.loads(self._store.compare_set(key, "", json.dumps(value)))
        return json.loads(self._store.get(key))

    def _is_there(self, keys: Sequence[str], patience_s: float) -> bool:
        """Wait for keys: not in the store's own way, which keeps Python from hearing signals."""
        until = time.monotonic() + patience_s
        while not self._store.check([*keys]):
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True

    def _key(self, what: object) -> str:
        return f"{self._prefix}/{what}"


def _free_bytes(mine: _Group) -> int:
    if mine.device.type != "cuda":
        return MOST_BYTES
    import torch

    return int(torch.cuda.mem_get_info(mine.device)[0]) // FREE_PART


def _buffer(mine: _Group, size_bytes: int) -> Any:  # noqa: ANN401 - a tensor of torch
    """Return an array of about this size, or as large a part of it as there is room for."""
    import torch

    count = max(size_bytes // torch.empty(0, dtype=mine.dtype).element_size(), 1)
    try:
        return torch.zeros(count, dtype=mine.dtype, device=mine.device)
    except RuntimeError:  # what is out of memory
        if size_bytes <= LEAST_BYTES:
            raise
        return _buffer(mine, size_bytes // 2)


def _time_ns(mine: _Group, buffer: Any, size_bytes: int) -> float:  # noqa: ANN401 - as above
    """Return how long one of several all-reduces takes, called one after another."""
    piece = buffer[: size_bytes // buffer.element_size()]
    if mine.device.type == "cuda":
        return _on_gpu_ns(mine, piece)
    began_ns = time.perf_counter_ns()
    _reduce(mine, piece)
    return (time.perf_counter_ns() - began_ns) / CALLS


def _on_gpu_ns(mine: _Group, piece: Any) -> float:  # noqa: ANN401 - as above
    import torch

    with torch.cuda.device(mine.device):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        torch.cuda._sleep(AHEAD_CYCLES)
        began.record()
        _reduce(mine, piece)
        ended.record()
        ended.synchronize()
    return float(began.elapsed_time(ended)) * 1e6 / CALLS


def _reduce(mine: _Group, piece: Any) -> None:  # noqa: ANN401 - as above
    import torch.distributed as dist

    for work in [dist.all_reduce(piece, group=mine.group, async_op=True) for _ in range(CALLS)]:
        work.wait()


def joined(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the manifest tells: of each group and call the rank that waited least."""
    told = [record.get("link") for record in records]
    silent = [record["rank"]["rank"] for record in records if record.get("link") is None]
    problems = [one["problem"] for one in told if one is not None and one["problem"]]
    found: dict[tuple[int, ...], dict[str, Any]] = {}
    for group in (group for one in told if one is not None for group in one["groups"]):
        key = tuple(group["members"])
        found[key] = _shortest(found[key], group) if key in found else group
    reason = problems[0] if problems else None
    if silent and not problems:
        reason = f"rank {silent[0]} ended before its last step was recorded, or told nothing"
    if not found and reason is None:
        reason = "no DDP model that several ranks train"
    return {"groups": [found[key] for key in sorted(found)], "reason": reason}


def _shortest(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    pairs = zip(one["time_ns"], other["time_ns"], strict=True)
    times = [[*map(min, *pair)] for pair in pairs]
    return {**one, "time_ns": times}
