"""How long a bucket that waited for another one still takes to start, beside compute and not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from whatif_jobs import PLAIN, recorded, step_of, steps, with_cap

from ddptrace.metrics.comm_table import NONE
from ddptrace.metrics.measured import Measured
from ddptrace.whatif.models import DEFAULT_PAUSE_NS, Pauses, pauses
from ddptrace.whatif.predict import predict

SINGLE = replace(PLAIN, buckets=[[place] for place in range(8)], room=40, per_mib=40)
"""Seven of eight buckets wait: four beside compute, for 40 µs, those after it for 3."""


def test_a_bucket_waits_for_room_beside_compute(tmp_path):
    run = recorded(SINGLE, tmp_path)
    found = pauses(Measured.of(run))
    assert found.beside_ns == pytest.approx(40_000)
    assert found.alone_ns == pytest.approx(3_000)
    predicted = predict(run, [1, 5, 8])
    assert predicted.replayed_step_ns == pytest.approx(predicted.recorded_step_ns, rel=0.002)
    for cap, step_us in steps(predicted).items():
        assert step_us == pytest.approx(step_of(with_cap(SINGLE, cap)), rel=0.01)


@pytest.mark.parametrize(("buckets", "expected"), [(8, DEFAULT_PAUSE_NS), (9, 40_000)])
def test_few_pauses_beside_compute_tell_nothing(buckets, expected, tmp_path):
    """Of 8 buckets four wait beside compute, of 9 five."""
    places = [[place] for place in range(buckets)]
    job = replace(SINGLE, sizes=[4] * buckets, buckets=places, per_mib=60, steps=1)
    assert pauses(Measured.of(recorded(job, tmp_path))).beside_ns == pytest.approx(expected)


def test_beside_compute_the_mean_counts_and_else_the_usual(tmp_path):
    """One wait of each kind is 80 µs longer: of 16 beside compute, and of 12 after it."""
    measured = Measured.of(recorded(SINGLE, tmp_path))
    measured.collected.transfer_ns[[3, 7]] -= 80_000
    assert pauses(measured) == Pauses(pytest.approx(40_000 + 80_000 / 16), pytest.approx(3_000))


def test_a_pause_is_never_shorter_than_nothing(tmp_path):
    measured = Measured.of(recorded(SINGLE, tmp_path))
    measured.collected.transfer_ns[:] += 50_000
    assert pauses(measured) == Pauses(0, 0)


def test_a_bucket_that_the_host_launched_late_waited_for_the_host(tmp_path):
    """Those that their gradients would let start are launched once the one before is reduced."""
    measured = Measured.of(recorded(SINGLE, tmp_path))
    for table in measured.collected.tables.values():
        table.launch_ns[:] = table.start_ns
    assert pauses(measured) == Pauses()


def test_a_bucket_behind_one_that_is_not_known_tells_nothing(tmp_path):
    """Of the last two buckets of a step, both after compute, the first one is not known."""
    measured = Measured.of(recorded(replace(SINGLE, room=3), tmp_path))
    measured.buckets.bucket[6::8] = NONE
    assert pauses(measured) == Pauses()


def test_a_bucket_that_one_rank_comes_to_late_did_not_wait(tmp_path):
    """Rank 1 is 180 µs late, and a bucket is reduced long before its next one is ready there."""
    job = replace(SINGLE, late={"1": 180}, per_mib=10)
    assert pauses(Measured.of(recorded(job, tmp_path))) == Pauses()
