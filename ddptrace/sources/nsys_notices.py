"""The sentences that an Nsight Systems export earns: what it warns of, and why it is no use."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from ddptrace.errors import TraceFileError
from ddptrace.model import Warn
from ddptrace.sources.nsys_losses import Launches
from ddptrace.sources.nsys_ranks import Identity
from ddptrace.sources.nsys_tables import Graphs, Tables
from ddptrace.wording import counted, listed, ranges

_NODES = "nsys profile --cuda-graph-trace=node"


def diagnostics(
    path: str,
    who: Sequence[Identity],
    noted: Mapping[int | None, Sequence[str]],
    launched: Mapping[int, Launches],
) -> list[Warn]:
    """Return the warnings that repeat what nsys itself noted about these processes.

    What it notes about launchers and helpers, which use no GPU, is left out. Where it says that
    events might be missing, `launched` tells whether any are.
    """
    doubted = _doubted(who, noted)
    known = all(launched[process].count for process in doubted)
    repeated = {
        process: [said for said in texts if not (known and _INCOMPLETE.match(said))]
        for process, texts in noted.items()
    }
    ranks: dict[str, list[int]] = {}
    for one in who:
        for said in repeated.get(one.process, ()):
            ranks.setdefault(said, []).append(_rank(one))
    about_all = dict.fromkeys(repeated.get(None, ()), "")
    about_some = {
        said: f" (rank {ranges(some)})" if len(who) > 1 else "" for said, some in ranks.items()
    }
    return [
        *(_incomplete(path, who, doubted, launched) if known else ()),
        *(
            Warn("nsys_diagnostic", f"{path}: nsys noted{whom}: {said}")
            for said, whom in (about_all | about_some).items()
        ),
    ]


# nsys says so of each recording that ends before its program, with or without a reason.
_INCOMPLETE = re.compile(r"Not all (\w+) events might have been collected\b")


def _rank(one: Identity) -> int:
    return -1 if one.rank is None else one.rank


def _doubted(
    who: Sequence[Identity], noted: Mapping[int | None, Sequence[str]]
) -> dict[int, set[str]]:
    """Return the processes of which nsys says that events might be missing, and which events."""
    found = {
        one.process: {
            match[1]
            for said in (*noted.get(None, ()), *noted.get(one.process, ()))
            if (match := _INCOMPLETE.match(said))
        }
        for one in who
    }
    return {process: kinds for process, kinds in found.items() if kinds}


def _incomplete(
    path: str,
    who: Sequence[Identity],
    doubted: Mapping[int, Collection[str]],
    launched: Mapping[int, Launches],
) -> list[Warn]:
    """Return the one warning about events that might be missing: whether any are."""
    if not doubted:
        return []
    kinds = " and ".join(sorted(set().union(*doubted.values())))
    noted = f"nsys noted: Not all {kinds} events might have been collected"
    counts = [launched[process] for process in doubted]
    where = " inside the steps" if all(each.in_steps for each in counts) else ""
    lost = sum(each.lost for each in counts)
    if not lost:
        # Without the name of the file, so that it is said once for all files of a run.
        usual = "usual when a recording ends before its program"
        return [Warn("nsys_diagnostic", f"{noted} ({usual}); every launch{where} has its kernel")]
    of = sum(each.count for each in counts)
    whose = [_rank(one) for one in who if one.process in doubted and launched[one.process].lost]
    whom = f" (rank {ranges(whose)})" if len(who) > 1 else ""
    have = "has" if lost == 1 else "have"
    return [
        Warn(
            "nsys_diagnostic",
            f"{path}: {noted}: {lost} of {counted(of, 'kernel launch')}{where} {have} no "
            f"kernel{whom}, so that figures are too low; record again, with fewer steps",
        )
    ]


def without_kernels(path: str, groups: Mapping[str, Collection[int]]) -> list[Warn]:
    """Return the warnings about processes without kernels, beside others; the keys say why."""
    return [
        Warn(
            "process_without_kernels",
            f"{path}: {counted(len(processes), 'process')} "
            f"{_WITHOUT[why].format(ids=listed([str(process) for process in processes]))}",
        )
        for why, processes in groups.items()
        if processes
    ]


def open_steps(path: str, count: int) -> list[Warn]:
    """Return the warning about steps that the recording ended in."""
    if not count:
        return []
    return [
        Warn(
            "open_step",
            f"{path}: the recording ended inside {counted(count, 'step range')}, left out; end it "
            "between two steps",
        )
    ]


def calls_lost(path: str, *, unlaunched: bool) -> list[Warn]:
    """Return the warning about steps that nothing can be given to, since no launch was recorded."""
    if not unlaunched:
        return []
    return [
        Warn(
            "calls_not_recorded",
            f"{path}: step ranges are there, but not the calls that launched the operations, so "
            "none can be given to its step; record with --trace=cuda,nvtx",
        )
    ]


def names_lost(path: str, count: int, of: int) -> Warn | None:
    """Return the warning about kernels without names, any of which may be communication."""
    if not count:
        return None
    return Warn(
        "names_not_recorded",
        f"{path}: {count} of {counted(of, 'kernel')} {'has' if count == 1 else 'have'} no name, so "
        "that communication cannot be told from compute: its time is unknown, and that of compute "
        "may hold some; export it again with nsys",
    )


def no_names(path: str, count: int) -> TraceFileError:
    """Return the error for a report in which no kernel has a name."""
    return TraceFileError(
        path,
        f"none of its {counted(count, 'kernel')} has a name (they are not in StringIds), so that "
        "communication cannot be told from compute; export it again with nsys",
    )


def _opaque(graphs: Graphs) -> str:
    total_ns = int((graphs.end_ns - graphs.start_ns).sum())
    launches = counted(graphs.start_ns.size, "graph launch")
    return (
        f"{launches} ({total_ns / 1e3:,.0f} µs on the GPU) were traced as whole CUDA graphs: their "
        f"kernels, and any communication among them, are not visible; record with {_NODES}"
    )


_CAUSES = (
    "Usual causes: the capture range was not reached in this process; torch.profiler or another "
    "tool holds CUPTI; --trace lacks cuda; the container may not read GPU counters"
)


_WITHOUT = {
    "lost": "launched kernels of which none was recorded ({ids}); what they did is missing. "
    + _CAUSES,
    "untimed": "with kernels of which none has usable times ({ids}); what they did is missing: "
    "export it again",
    "copies": "only copied or set memory on the GPU ({ids}): no rank, and left out",
}


def only_graphs(path: str, graphs: Graphs) -> TraceFileError:
    """Return the error for a report whose GPU work is whole graphs and nothing else."""
    return TraceFileError(path, _opaque(graphs))


def no_times(path: str, tables: Tables) -> TraceFileError:
    """Return the error for a report in which nothing on the GPU has usable times."""
    kernels = tables.untimed.total()
    unreadable = tables.unreadable.total()
    count = kernels or unreadable + tables.dropped.total()
    noun = "kernel" if kernels else "operation"
    if kernels and tables.absent:
        columns = " and ".join(tables.absent)
        why = f"its table has no column{'s' if tables.absent[1:] else ''} {columns}"
    elif unreadable:
        why = "they are no numbers"
    else:
        why = "they are 0, or end before they start"
    return TraceFileError(
        path, f"none of its {count} GPU {noun}s has usable times ({why}); export it again with nsys"
    )


def no_process(path: str, count: int, owners: Collection[int], gpus: int) -> TraceFileError:
    """Return the error for operations of which nothing tells the process, where there are several.

    `owners` are the ids of those processes; none where only several GPUs tell that there may be.
    """
    whose = f"of its {len(owners)} processes ({listed(list(map(str, owners)))})" if owners else ""
    ran = "" if owners else f", which ran on {gpus} GPUs,"
    belong = "belongs" if count == 1 else "belong"
    return TraceFileError(
        path,
        f"does not tell which {whose or 'process'} {counted(count, 'GPU operation')}{ran} {belong} "
        "to (no globalPid); export it again with nsys",
    )


def no_gpu_work(path: str, tables: Tables, launches: int) -> TraceFileError:
    """Return the error for a report without GPU operations, or with copies but no kernels."""
    if launches:
        launched = counted(launches, "kernel launch")
        return TraceFileError(path, f"{launched} but no GPU kernels in this report. {_CAUSES}")
    if tables.dropped or tables.unreadable:
        return no_times(path, tables)
    return TraceFileError(
        path,
        "holds no GPU work: record it with nsys profile --trace=cuda,nvtx, and let the capture "
        "range reach it",
    )
