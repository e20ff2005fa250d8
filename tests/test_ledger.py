"""Where a step went, in parts that add up to it; times are µs, a character is a millisecond."""

from __future__ import annotations

from dataclasses import replace

from hosts import call, loading, operator
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import MB, backward, both, bucket, diagnosis, forward, ledger, other
from ranks import PAIR, comm, rank
from traces import run, trace

from ddptrace.diagnosis.ledger import PARTS, causes, total_ns
from ddptrace.metrics.measured import Measured
from ddptrace.model import Group

APART = Group("apart", (0, 1), 2)
LENGTH = 3000


def ledgers(*traces):
    """Return the causes of all steps of a run."""
    return [one for rows in causes(Measured.of(run(*traces))) for one in rows]


# --- stated steps


def test_every_part_has_its_cause():
    """
    host     LLLLLLLLLLLLLL..ooooooo   L: in the data loader, o: it runs operators
    gpu      ..............fbb......c   f, b: compute, c: a copy
    comm     .................rrr....   r: exposed, of which 1 ms waits on rank 0
    """
    rows = [forward(14_000, 15_000, 13_990), backward(15_000, 17_000, 14_000)]
    copy = ("mem", 23_000, 24_000, 22_990)
    host = [
        loading(0, 14_000),
        call(13_990, 13_999),
        call(14_000, 14_010),
        operator(16_000, 22_980),
        call(22_990, 22_999),
    ]
    marks = [(0, 30_000)]
    first = [*rows, other(17_000, 20_000, 14_100, MB), copy]
    second = [*rows, other(18_000, 20_000, 14_100, MB), copy]
    said = diagnosis(
        rank(0, *first, host=host, marks=marks), rank(1, *second, host=host, marks=marks)
    )
    assert ledger(said, 0) == {
        "compute": 3000,
        "straggler": 1000,
        "comm_bandwidth": 2000,
        "exposed_mem": 1000,
        "input_stall": 13_990,
        "launch_bound": 3010,
    }
    # Rank 1 idles until it has joined, which it had been asked to do long before.
    assert ledger(said, 1)["idle_unknown"] == 1000


def test_a_part_of_several_operations_at_once_counts_once():
    """
    comm     .rrrr....
    comm 2   ...rrrr..   of another group; 6 ms in all, not 8
    """
    found = ledgers(
        *both(
            forward(0, 1000),
            other(1000, 5000, 500, MB),
            other(3000, 7000, 600, MB, group=APART),
        )
    )[0].ledger
    assert found.comm_bandwidth_ns == 6_000_000


def test_unmatched_communication_has_no_cause_but_its_time():
    """Rank 1 has no record of the second collective."""
    rows = [forward(0, 1000), other(1000, 2000, 500, MB)]
    more = other(2000, 3000, 600, MB, op="broadcast", group=APART)
    found = ledgers(rank(0, *rows, more), rank(1, *rows, ("compute", 2000, 3000)))
    assert found[0].ledger.comm_unknown_ns == 2_000_000
    assert found[0].transfer is None
    assert found[1].ledger.comm_unknown_ns == 0


def test_without_communication_in_the_recording_there_is_no_ledger():
    said = diagnosis(trace(forward(0, 1000), comm_missing=True))
    assert said.ledger == []


def test_lost_graphs_leave_idle_time_and_ledger_unknown():
    lost = trace(forward(0, 1000), forward(2000, 3000), lost_graph_launch_ns=(1_500_000,))
    (found,) = ledgers(lost)
    assert (found.row.idle_ns, found.ledger, found.idle) == (None, None, None)


def test_of_a_single_rank_nobody_knows_what_is_waiting():
    rows = forward(0, 1000), backward(1000, 2000), bucket(2000, 4000, 1500, 100 * MB)
    found = ledgers(rank(0, *rows))[0].ledger
    assert (found.comm_unknown_ns, found.straggler_ns) == (2_000_000, 0)


def test_a_cpu_run_has_idle_time_without_causes():
    """
    compute  fbb..
    comm     ...r.   gloo's own thread; then 1 ms of nothing
    """
    rows = forward(0, 1000), backward(1000, 3000), bucket(3000, 4000, 3000, MB)
    said = diagnosis(*both(*rows, device="host", marks=[(0, 5000)]))
    found = ledger(said)
    assert found["idle_unknown"] == 1000
    assert sum(found.values()) == 5000


def test_without_step_marks_the_whole_recording_has_a_ledger():
    rows = forward(0, 1000), other(1000, 3000, 500, MB)
    said = diagnosis(*both(*rows, marks=()))
    assert [(one.rank, one.step, one.step_ns) for one in said.ledger] == [
        (0, None, 3_000_000),
        (1, None, 3_000_000),
    ]


# --- any step


@st.composite
def _rows(draw, count):
    """Draw the rows of a rank with so many collectives, in the order in which it calls them."""
    at = 0
    rows = []
    for number in range(count):
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["compute", "compute", "mem"]))
            start = at + draw(st.integers(0, 300))
            end = start + draw(st.integers(0, 400))
            launch = max(start - draw(st.integers(0, 600)), 0)
            rows.append((kind, start, end, launch, draw(st.booleans())))
            at = draw(st.sampled_from([start, end]))
        rows.append((number, at, at + draw(st.integers(1, 500))))
        at += draw(st.integers(0, 500))
    return rows


@st.composite
def jobs(draw):
    """Draw the recordings of two or three ranks in one or two steps."""
    told = [
        {
            "op": draw(st.sampled_from(["all_reduce", "all_reduce", "all_gather"])),
            "size": draw(st.sampled_from([-1, 1000, 100_000, 10 * MB, 400 * MB])),
            "group": draw(st.sampled_from([PAIR, APART])),
            "seq": number,
        }
        for number in range(draw(st.integers(0, 6)))
    ]
    in_backward = draw(st.lists(st.booleans(), min_size=len(told), max_size=len(told)))
    found = []
    for number in (0, 1):
        rows = [
            (kind, *more)
            if isinstance(kind, str)
            else comm(more[0], more[1], more[0], in_backward[kind], **told[kind])
            for kind, *more in draw(_rows(len(told)))
        ]
        rows.append(("compute", 8000, 8100))
        if rows[:-1] and draw(st.booleans()):
            rows.pop(draw(st.integers(0, len(rows) - 2)))
        gradients = [
            ("operator", "torch::autograd::AccumulateGrad", start, start + 1)
            for start in draw(st.lists(st.integers(0, 8000), max_size=3))
        ]
        marks = draw(st.sampled_from([[(0, 9000)], [(0, LENGTH), (LENGTH, 9000)], []]))
        host = [*gradients, *((loading(0, 500),) if draw(st.booleans()) else ())]
        found.append(rank(number, *rows, marks=marks, host=host))
    return found


def _moved(one, by_ns):
    ops, host = one.ops, one.host
    times = {name: getattr(ops, name) + by_ns for name in ("start_ns", "end_ns", "launch_ns")}
    return replace(
        one,
        ops=replace(ops, **times),
        host=replace(host, start_ns=host.start_ns + by_ns, end_ns=host.end_ns + by_ns),
        marks=tuple(
            replace(mark, start_ns=mark.start_ns + by_ns, end_ns=mark.end_ns + by_ns)
            for mark in one.marks
        ),
    )


@settings(deadline=None, max_examples=60)
@given(jobs())
def test_the_parts_add_up_to_the_step_and_none_is_negative(traces):
    for one in ledgers(*traces):
        found = one.ledger
        assert total_ns(found) == found.step_ns == one.row.step_ns
        assert min(getattr(found, name) for name in PARTS) >= 0
        assert found.compute_ns == one.row.compute_ns
        assert found.exposed_mem_ns == one.row.exposed_mem_ns
        if one.transfer is not None:
            assert one.transfer.total_ns == one.row.exposed_transfer_ns


@settings(deadline=None, max_examples=20)
@given(jobs(), st.tuples(*[st.integers(-(10**9), 10**9)] * 2))
def test_a_shifted_clock_changes_no_part(traces, shift):
    moved = [_moved(one, by_ns) for one, by_ns in zip(traces, shift, strict=True)]
    before, after = (causes(Measured.of(run(*each))) for each in (traces, moved))
    for old, new in zip(before, after, strict=True):
        assert [one.ledger for one in old] == [one.ledger for one in new]


@settings(deadline=None, max_examples=20)
@given(
    ends=st.lists(st.integers(1, 999_983), min_size=2, max_size=20, unique=True),
    sizes=st.lists(st.integers(1, 10**9), min_size=20, max_size=20),
)
def test_rounding_loses_no_nanosecond(ends, sizes):
    """Lengths that no share divides evenly."""
    ends = sorted(ends)
    starts = [0, *ends[:-1]]
    rows = [
        comm(start, end, start, True, group=PAIR, size=size)
        for start, end, size in zip(starts, ends, sizes, strict=False)
    ]
    odd = [trace(("compute", 0, 1, 0, True), *rows, rank=number) for number in (0, 1)]
    odd = [replace(one, ops=replace(one.ops, end_ns=one.ops.end_ns - 7)) for one in odd]
    for one in ledgers(*odd):
        assert total_ns(one.ledger) == one.ledger.step_ns
