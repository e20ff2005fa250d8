"""Orders that differ between ranks, and optimizers that do not wait; in µs."""

import pytest
from findings import STEP, backward, costs, figures, findings, reduce
from test_launch_order import rank
from test_slowdown import named
from traces import run, trace

from ddptrace.diagnosis.rules.danger import EARLY_NS

# --- order of launches


def test_ranks_with_another_order_are_in_danger():
    (found,) = findings(
        "launch_order_mismatch", rank(0, [5, 6], [1, 2], [3, 4]), rank(1, [5, 6], [2, 1], [4, 3])
    )
    assert found.cost_ns is None
    assert figures(found) == {"steps_in_another_order": (2, 1), "first_step": (1, None)}
    assert "deadlock" in found.advice


def test_one_order_on_all_ranks_is_no_danger():
    assert findings("launch_order_mismatch", rank(0, [1, 2]), rank(1, [1, 2])) == []


def test_what_differs_in_more_than_the_order_is_no_danger_that_can_be_told():
    assert findings("launch_order_mismatch", rank(0, [1, 2, 3]), rank(1, [2, 1])) == []


def test_the_first_step_of_a_recording_does_not_count():
    one, other = rank(0, [1, 2], [1, 2], [3]), rank(1, [2, 1], [1, 2], [3])
    assert findings("launch_order_mismatch", one, other) == []


# --- the optimizer


def optimizing(start, *, launch=6000, inside=False, host=("Optimizer.step#AdamW.step",)):
    """State a step whose last bucket is reduced until 8000, and an optimizer from `start` on.

    compute  ff bbbb   OOOOO
    comm             11111
    """
    rows = [("compute", 0, 2000), backward(2000, 6000), reduce(6000, 8000, 2001)]
    rows.append(("compute", start, STEP, launch, inside))
    ranges = [("annotation", name, 5900, 7000) for name in host]
    return trace(*rows, marks=((0, STEP),), host=ranges)


@pytest.mark.parametrize(("start", "count"), [(7000, 1), (7999, 1), (8000, 0), (8500, 0)])
def test_an_optimizer_that_starts_before_its_last_gradients_did_not_wait(start, count):
    found = findings("optimizer_before_comm", optimizing(start))
    assert len(found) == count
    for one in found:
        assert (one.cost_ns, one.ranks) == (None, [0])
        assert figures(one) == {"early_ns": ((8000 - start) * 1000, EARLY_NS), "steps": (1, 1)}
        assert "wrong parameters" in one.advice


def test_less_than_a_microsecond_is_no_overlap():
    recording = optimizing(7999)
    recording.ops.start_ns[-1] += 1
    assert costs("optimizer_before_comm", recording) == []


def test_what_is_launched_before_the_optimizer_s_range_or_behind_it_is_something_else():
    assert costs("optimizer_before_comm", optimizing(7200, launch=7000)) == []
    assert costs("optimizer_before_comm", optimizing(7200, launch=6999)) == [None]


def test_an_optimizer_inside_backward_waits_for_its_own_bucket():
    assert costs("optimizer_before_comm", optimizing(7000, inside=True)) == []


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int", [None]),
        ("FusedAdam", [None]),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor", []),
        ("augment_images", []),
    ],
)  # fmt: skip
def test_without_ranges_only_a_kernel_with_the_name_of_an_optimizer_is_one(name, found):
    recording = named(optimizing(7000, host=()), "f", "b", "all_reduce", name)
    assert costs("optimizer_before_comm", recording) == found


def test_a_kernel_launched_before_the_end_of_backward_is_none_of_the_optimizer():
    """Gradients are set to zero by kernels of the same name, before the forward pass."""
    recording = optimizing(9000, host=())
    zeroed = named(recording, "multi_tensor_apply_kernel<Zero>", "b", "all_reduce", "f")
    assert costs("optimizer_before_comm", zeroed) == []


def test_the_nodes_of_a_graph_have_one_launch_which_tells_no_order():
    recording = optimizing(7000)
    recording.ops.in_graph[-1] = True
    assert costs("optimizer_before_comm", recording) == []


def test_the_next_forward_pass_is_no_optimizer():
    """It is launched behind backward, in the next step."""
    rows = [backward(2000, 6000), reduce(6000, 8000, 2001), ("compute", 7000, STEP, 6500)]
    recording = trace(
        *rows,
        marks=((0, 6400), (6400, STEP)),
        host=[("annotation", "Optimizer.step#SGD.step", 6300, 6400)],
    )
    assert findings("optimizer_before_comm", of=run(recording)) == []
