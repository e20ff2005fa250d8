"""Which part of the step grew: parts, kernels and buckets, all adding up to the step's change."""

from dataclasses import replace

import pytest
from check_runs import a_run, checked, sample, series
from ledgers import MS, ledger

from ddptrace.check.figures import BucketTime, KernelTime
from ddptrace.check.growth import growth


def with_ledgers(*ledgers, kernels=(), buckets=(), step_us=10_000):
    run = a_run(ranks=[series(one.rank, step=[step_us] * 9) for one in ledgers])
    return replace(
        run,
        ledgers=list(ledgers),
        kernels=[KernelTime(0, name, 1, round(ms * MS)) for name, ms in kernels],
        buckets=[BucketTime(0, number, 4, round(ms * MS)) for number, ms in buckets],
    )


def pieces(found, part):
    return {one.name: one.change_ns / MS for one in found.pieces if one.part == part}


def test_the_parts_add_up_to_the_steps_change():
    base = with_ledgers(ledger(compute=7, straggler=1, input_stall=2))
    found = growth([base], [with_ledgers(ledger(compute=8, straggler=3, input_stall=1))], None)
    changed = {one.part: one.difference_ns / MS for one in found.parts if one.difference_ns}
    assert changed == {"compute": 1, "straggler": 2, "input_stall": -1}
    assert found.change_ns == sum(one.difference_ns for one in found.parts) == 2 * MS
    assert (found.baseline_ns, found.current_ns) == (10 * MS, 12 * MS)


def test_kernels_and_what_is_left_add_up_to_compute():
    base = with_ledgers(ledger(compute=7), kernels=[("gemm", 4), ("norm", 2)])
    now = with_ledgers(ledger(compute=9), kernels=[("gemm", 4.5), ("norm", 2), ("spin", 1)])
    found = pieces(growth([base], [now], None), "compute")
    assert found == {"spin": 1.0, "gemm": 0.5, None: 0.5}
    assert list(found) == ["spin", "gemm", None]
    assert sum(found.values()) == 2


def test_buckets_and_what_is_left_add_up_to_exposed_communication():
    base = with_ledgers(ledger(straggler=1, comm_bandwidth=2), buckets=[(0, 1), (1, 2)])
    now = with_ledgers(ledger(straggler=1, comm_bandwidth=5), buckets=[(0, 1), (1, 4)])
    assert pieces(growth([base], [now], None), "exposed_comm") == {"bucket 1": 2.0, None: 1.0}


def test_a_few_pieces_are_named_the_largest_changes_first():
    base = with_ledgers(ledger(compute=30), kernels=[(f"k{n}", 1) for n in range(9)])
    now = with_ledgers(ledger(compute=66), kernels=[(f"k{n}", 1 + n) for n in range(9)])
    found = pieces(growth([base], [now], None), "compute")
    assert list(found) == ["k8", "k7", "k6", "k5", "k4", None]
    assert sum(found.values()) == 36


@pytest.mark.parametrize(("grown_ms", "named"), [(0.04, True), (0.039, False)])
def test_a_piece_is_named_from_a_fiftieth_of_the_steps_change_on(grown_ms, named):
    base = with_ledgers(ledger(compute=7), kernels=[("gemm", 4)])
    now = with_ledgers(ledger(compute=9), kernels=[("gemm", 4 + grown_ms)])
    assert ("gemm" in pieces(growth([base], [now], None), "compute")) is named


def test_where_only_one_run_tells_of_kernels_none_is_named():
    base = with_ledgers(ledger(compute=7))
    now = with_ledgers(ledger(compute=9), kernels=[("gemm", 4.5)])
    assert growth([base], [now], None).pieces == []


def test_a_rank_is_held_against_itself():
    """Rank 1 became late: it computes longer, and rank 0 waits for it."""
    base = with_ledgers(ledger(rank=0, compute=9, straggler=1.1), ledger(rank=1, compute=10))
    late = ledger(rank=1, compute=15)
    now = with_ledgers(ledger(rank=0, compute=9, straggler=5.9), late)
    found = growth([base], [now], None)
    assert found.rank == 1
    assert {one.part for one in found.parts if one.difference_ns} == {"compute"}
    assert growth([base], [now], 0).rank == 0


def test_a_rank_or_ledger_that_is_not_there_tells_nothing():
    base = with_ledgers(ledger(compute=9))
    assert growth([base], [base], 3) is None
    assert growth([base], [a_run([10_000] * 9)], None) is None
    assert growth([base], [with_ledgers(ledger(rank=1, compute=9))], None) is None


def test_of_several_runs_the_one_in_the_middle_tells():
    base = [with_ledgers(ledger(compute=ms)) for ms in (5, 9, 7)]
    now = [with_ledgers(ledger(compute=ms)) for ms in (8, 20, 10, 11)]
    found = growth(base, now, None)
    assert (found.baseline_ns, found.current_ns) == (7 * MS, 10 * MS)


def test_a_check_tells_it_of_the_rank_of_the_limit_that_failed():
    base = with_ledgers(ledger(rank=0, compute=9), ledger(rank=1, compute=9))
    now = with_ledgers(ledger(rank=0, compute=12), ledger(rank=1, compute=11), step_us=12_000)
    assert checked(base, now, "step@1:5%").growth.rank == 1
    assert checked(base, now, "step:5%").growth.rank == 0


def test_the_rest_leads_from_the_median_steps_to_the_change_that_the_limit_found():
    """The median steps differ by 1 ms, the medians over the steps by 2 ms."""
    base = with_ledgers(ledger(compute=10), step_us=10_000)
    now = with_ledgers(ledger(compute=11), step_us=12_000)
    found = checked(base, now, "step:5%")
    growth_ns = found.growth.change_ns + found.growth.rest_ns
    assert growth_ns == found.limits[0].change_ns == 2 * MS
    assert checked(base, now, "compute:5%").growth.rest_ns is None
    assert checked(base, now, "step:99%", "step@0:5%").growth.rest_ns == 1 * MS


@pytest.mark.parametrize("case", ["late-compute", "slow-link", "one-bucket", "tiny-buckets"])
def test_everything_adds_up_on_real_runs(case):
    runs = [sample(name) for name in ("healthy", case)]
    found = growth(runs[:1], runs[1:], None)
    assert sum(one.difference_ns for one in found.parts) == found.change_ns
    for part in ("compute", "exposed_comm"):
        whole = sum(one.difference_ns for one in found.parts if one.group == part)
        named = [one.change_ns for one in found.pieces if one.part == part]
        assert sum(named) == (whole if named else 0)
    assert found.pieces


def test_a_planted_kernel_is_named_first():
    runs = [sample(name) for name in ("healthy", "late-compute")]
    first = growth(runs[:1], runs[1:], 1).pieces[0]
    assert "spin_kernel" in first.name
    assert first.baseline_ns == 0
    assert first.change_ns > 35 * MS
