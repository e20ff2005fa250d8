"""Gradients that are copied back, and small parameters where launching is the limit; in µs."""

from itertools import pairwise

import pytest
from findings import MIB, STEP, backward, costs, figures, findings, of_ddp, reduce
from test_slowdown import named
from traces import trace

# --- copies

COPY = "Memcpy DtoD (Device -> Device)"
BACK = "torch.distributed.ddp.reducer::copy_bucket_to_grad"


def copying(length=200, *, at=8000, inside=True, launch=4500, beside=(), name=COPY, host=()):
    """State a step with a copy, usually behind its last bucket.

    compute  ff bbb .......OO
    comm            111
    mem                222
    """
    rows = [("compute", 0, 2000), backward(2000, 6000, 2000), reduce(6000, 8000, 4000)]
    rows += [("mem", at, at + length, launch, inside), ("compute", 9000, STEP, 9000), *beside]
    known = {2000: "b", 6000: "all_reduce", at: name}
    names = [known.get(row[1], "f") for row in sorted(rows, key=lambda row: row[1])]
    return named(trace(*rows, marks=((0, STEP),), host=host), *names)


NO_VIEW = of_ddp(gradient_as_bucket_view=False)


@pytest.mark.parametrize(("length", "found"), [(99, []), (100, [100_000]), (200, [200_000])])
def test_copies_behind_the_last_bucket_cost_their_time(length, found):
    assert costs("grad_copies", copying(length), manifest=NO_VIEW) == found


def test_what_the_copies_rest_on():
    (found,) = findings("grad_copies", copying(), manifest=NO_VIEW)
    assert figures(found) == {"copies_ns": (200_000, 100_000), "copies": (1, None)}
    assert "gradient_as_bucket_view=True" in found.advice


@pytest.mark.parametrize("module", [{"gradient_as_bucket_view": True}, {}])
def test_with_a_view_or_nothing_told_copies_are_others(module):
    assert costs("grad_copies", copying(), manifest=of_ddp(**module)) == []
    assert costs("grad_copies", copying()) == []


def test_ddps_own_range_says_that_it_copies_back():
    shown = copying(host=[("operator", BACK, 4400, 4600)])
    assert costs("grad_copies", shown) == [200_000]


@pytest.mark.parametrize(
    "options",
    [
        {"inside": False},  # not of backward
        {"launch": 3999},  # before the last bucket
        {"name": "Memcpy DtoH (Device -> Pageable)"},  # to the host
        {"at": 7000},  # during the reduction
        {"beside": [("compute", 7990, 8300, 4400, True)]},  # during compute
    ],
)
def test_other_copies_and_hidden_ones_cost_nothing(options):
    assert costs("grad_copies", copying(**options), manifest=NO_VIEW) == []


# --- fine parameters

TAKING = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"


def fine(
    *, size=4 * MIB, idle=2000, queued=0, operators=False, gradients=(), taking=(), kernels=13
):
    """State a step whose GPU waits for launches in backward before its bucket.

    compute  ff bbb .... b    O
    comm                  111
    """
    end = 3000 + idle
    forward = [at * 2000 // (kernels - 5) for at in range(kernels - 4)]
    rows = [("compute", start, until, start // 3) for start, until in pairwise(forward)]
    rows += [backward(2000, 3000, 1000), backward(end, end + 100)]
    rows += [reduce(end + 100, end + 200, end + 1, size=size), ("compute", 9000, STEP, end + 3)]
    # The host is never silent: it launches all the time.
    rows += [("mem", 9999, STEP, at) for at in range(3000, end, 1000)]
    rows += [backward(end + 200, 9000 - queued, end + 2)]
    host = [("operator", "torch::autograd::AccumulateGrad", at, at + 1) for at in gradients]
    host += [("operator", TAKING, *both) for both in taking]
    if operators:
        host += [("operator", "aten::mm", 1000, end)]
        host += [("annotation", "DistributedDataParallel.forward", 0, 500)]
    return trace(*rows, marks=((0, STEP),), host=host)


def of_parameters(count, buckets=1, size=4 * MIB):
    names = tuple(tuple(f"p{number}" for number in range(count)) for _ in range(buckets))
    return of_ddp(rebuilt_bucket_bytes=(size,) * buckets, bucket_parameters=names)


@pytest.mark.parametrize(
    ("size", "count", "found"),
    [(4 * MIB, 2, 1), (4 * MIB + 4, 2, 0), (4 * MIB, 1, 0), (MIB, 1, 0), (MIB, 9, 1)],
)
def test_parameters_are_fine_up_to_a_size_and_several_a_bucket(size, count, found):
    manifest = of_parameters(count, size=size)
    assert costs("fine_parameters", fine(size=size), manifest=manifest) == [None] * found


@pytest.mark.parametrize(
    ("kernels", "count", "found"), [(6, 2, 1), (7, 2, 0), (10, 3, 1), (11, 3, 0), (6, 1, 0)]
)
def test_larger_parameters_are_fine_where_they_are_many_to_a_kernel(kernels, count, found):
    """They have 100 MiB each."""
    recording = fine(size=100 * MIB * count, kernels=kernels)
    manifest = of_parameters(count, size=100 * MIB * count)
    (said,) = findings("fine_parameters", recording, manifest=manifest) or [None]
    assert (said is not None) == bool(found)
    if said is not None:
        assert figures(said)["parameters_a_kernel"] == (count / kernels, 0.3)


def test_what_fine_parameters_rest_on():
    (found,) = findings("fine_parameters", fine(), manifest=of_parameters(4))
    assert figures(found) == {
        "parameter_bytes": (MIB, 2 * MIB),
        "parameters_a_kernel": (4 / 13, 0.3),
        "parameters_a_bucket": (4.0, 2),
        "launch_bound_ns": (2_000_000, 100_000),
    }


def test_fine_parameters_are_no_matter_where_launching_is_not():
    assert costs("fine_parameters", fine(idle=99), manifest=of_parameters(4)) == []
    assert costs("fine_parameters", fine(idle=100), manifest=of_parameters(4)) == [None]


@pytest.mark.parametrize(
    ("taking", "found"), [((3500, 4500), [1_000_000]), ((3500, 3599), []), ((1000, 2900), [])]
)
def test_where_the_host_is_recorded_they_cost_the_idle_time_in_which_it_takes_them_in(
    taking, found
):
    recording = fine(operators=True, taking=[taking])
    assert costs("fine_parameters", recording, manifest=of_parameters(4)) == found


def test_idle_time_in_which_the_gpu_did_not_wait_for_its_host_is_no_cost():
    recording = fine(queued=1000, operators=True, taking=[(3000, 9000)])
    assert costs("fine_parameters", recording, manifest=of_parameters(4)) == [2_000_000]


@pytest.mark.parametrize(("gradients", "count"), [((1100,), 0), ((1100, 1200), 1)])
def test_without_a_manifest_the_host_tells_how_many_gradients_there_are(gradients, count):
    assert len(costs("fine_parameters", fine(gradients=gradients))) == count


def test_without_sizes_or_parameters_nothing_is_fine():
    assert costs("fine_parameters", fine()) == []
    assert costs("fine_parameters", fine(size=-1, gradients=(1100, 1200))) == []
