"""Reducing in each micro-step: what could be avoided, and when it could not; in µs."""

import pytest
from findings import MIB, STEP, backward, costs, figures, findings, of_ddp, reduce
from ranks import PAIR, comm
from traces import trace

from ddptrace.manifest import DdpModule, Manifest, RankFacts

CODE = "reduce_each_microstep"


def passes(count, length=60, *, sizes=None, start=0, buckets=1):
    """State a step: forward, backward and all-reduces of each micro-batch, then the optimizer.

    compute  ff bb .. ff bb .. OOO
    comm           11       11
    """
    rows = []
    for number in range(count):
        at = start + number * 1000
        size = sizes[number] if sizes else MIB
        rows += [("compute", at, at + 200, at), backward(at + 200, at + 400)]
        for place in range(buckets):
            begin = at + 400 + place * length
            rows.append(reduce(begin, begin + length, at + 201 + place, size=size))
    return [*rows, ("compute", start + 9000, start + STEP, start + 9000)]


def one_step(*rows, **options):
    return trace(*rows, marks=((0, STEP),), **options)


def test_all_but_the_last_reduction_could_be_avoided():
    (found,) = findings(CODE, one_step(*passes(4)))
    assert (found.cost_ns, found.ranks) == (180_000, [0])
    assert figures(found) == {
        "avoidable_ns": (180_000, 100_000),
        "reductions": (4, 2),
        "exposed_bucket_ns": (240_000, None),
        "optimizer_steps": (None, None),
    }
    assert "4 times a step" in found.advice
    assert "no_sync" in found.advice


@pytest.mark.parametrize(("length", "found"), [(99, []), (100, [100_000])])
def test_it_is_listed_from_one_percent_of_the_step(length, found):
    assert costs(CODE, one_step(*passes(2, length))) == found


def test_a_step_that_reduces_once_has_nothing_to_avoid():
    assert costs(CODE, one_step(*passes(1, 500, buckets=3))) == []


def test_each_micro_step_may_have_several_buckets():
    assert costs(CODE, one_step(*passes(3, 100, buckets=2))) == [400_000]


def test_hidden_reductions_cost_nothing():
    rows = [*passes(2, 300), ("compute", 0, 9000, 0)]
    assert costs(CODE, one_step(*rows)) == []


def optimizers(*starts):
    return [("annotation", "Optimizer.step#SGD.step", at, at + 10) for at in starts]


@pytest.mark.parametrize(
    ("starts", "found"),
    [((), [150_000]), ((9000,), [150_000]), ((500, 9000), [150_000]), ((500, 1500, 9000), [])],
)
def test_an_optimizer_that_runs_as_often_needs_each_reduction(starts, found):
    recording = one_step(*passes(3, 75), host=optimizers(*starts))
    assert costs(CODE, recording) == found


def test_the_other_recording_of_the_rank_tells_how_often_the_optimizer_runs():
    cheap = one_step(*passes(2, 200), part="figures")
    full = trace(
        *passes(2, 200, start=20_000),
        marks=((20_000, 20_000 + STEP, 7),),
        part="full",
        host=optimizers(20_500, 29_000),
    )
    assert costs(CODE, cheap, full) == []
    assert costs(CODE, cheap) == [200_000]


def test_reductions_of_other_sizes_are_of_other_buckets():
    assert costs(CODE, one_step(*passes(2, 200, sizes=(MIB, 2 * MIB)))) == []
    assert costs(CODE, one_step(*passes(2, 200, sizes=(-1, -1)))) == []


def test_with_several_modules_each_may_reduce_its_own():
    recording = one_step(*passes(2, 200))
    both = Manifest(ranks=(RankFacts(rank=0, ddp=(DdpModule(), DdpModule())),))
    assert costs(CODE, recording, manifest=both) == []
    assert costs(CODE, recording, manifest=of_ddp()) == [200_000]


def test_a_recording_without_steps_may_hold_several():
    assert costs(CODE, trace(*passes(4), marks=())) == []


def test_waiting_for_a_late_rank_is_not_avoided():
    """Rank 1 comes 150 µs later each time; the transfer itself takes 50."""

    def rank(number, wait):
        rows = []
        for at in (0, 1000):
            rows += [("compute", at, at + 200, at), backward(at + 200, at + 400)]
            rows.append(comm(at + 550 - wait, at + 600, at + 201, True, group=PAIR, size=MIB))
        return one_step(*rows, ("compute", 9000, 5000 + 5000, 9000), rank=number)

    assert costs(CODE, rank(0, 150), rank(1, 0)) == []
    assert costs(CODE, rank(0, 150), rank(1, 150)) == [200_000]
