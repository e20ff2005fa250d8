"""Whether ranks hold the same parameters: hashes of a rank, and what the launcher says of them."""

import pytest

from ddptrace_capture import replicas


def model(*ranks, name="Net", **hashes):
    return {"module": name, "ranks": [*ranks], "hashes": hashes}


def record(rank, *models, size=2, problem=None, steps=30, replica=True):
    told = {"models": [*models], "problem": problem} if replica else None
    return {"rank": {"rank": rank}, "world_size": size, "steps_seen": steps, "replica": told}


def test_replicas_with_the_same_hashes_are_equal():
    mine = model(0, 1, weight="a", bias="b")
    found = replicas.compared([record(0, mine), record(1, mine)])
    assert found == {"equal": True, "reason": None, "ranks": 2, "parameters": 2, "step": 29}


def test_a_parameter_that_differs_is_named():
    first, second = model(0, 1, weight="a", bias="b"), model(0, 1, weight="a", bias="c")
    found = replicas.compared([record(0, first), record(1, second)])
    assert (found["equal"], found["reason"]) == (False, "1 of 2 parameters differ, first bias")


def test_the_last_of_three_ranks_counts_as_much():
    same, other = model(0, 1, 2, weight="a"), model(0, 1, 2, weight="b")
    found = replicas.compared([record(rank, same, size=3) for rank in (0, 1)] + [
        record(2, other, size=3)
    ])  # fmt: skip
    assert found["equal"] is False


def test_a_parameter_that_one_rank_lacks_differs():
    found = replicas.compared([
        record(0, model(0, 1, weight="a")), record(1, model(0, 1, weight="a", bias="b")),
    ])  # fmt: skip
    assert (found["equal"], found["reason"]) == (False, "1 of 1 parameters differ, first bias")


def test_ranks_of_other_groups_may_hold_other_parameters():
    found = replicas.compared([
        record(0, model(0, 2, weight="a"), size=4), record(1, model(1, 3, weight="b"), size=4),
        record(2, model(0, 2, weight="a"), size=4), record(3, model(1, 3, weight="b"), size=4),
    ])  # fmt: skip
    assert (found["equal"], found["parameters"]) == (True, 2)


def test_models_of_one_class_may_be_told_in_any_order():
    first, second = model(0, 1, weight="a"), model(0, 1, weight="b")
    found = replicas.compared([record(0, first, second), record(1, second, first)])
    assert found["equal"] is True
    found = replicas.compared([record(0, first, second), record(1, first, first)])
    assert found["equal"] is False


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([record(0, model(0, 1, weight="a"))], "rank 1 ended before"),
        ([record(0, model(0, 1, weight="a")), record(1, replica=False)], "rank 1 ended before"),
        ([record(0, model(0, 1, w="a")), record(1, problem="lost")], "rank 1: lost"),
        (
            [record(0, model(0, 1, w="a")), record(1, model(0, 1, w="a"), steps=31)],
            "different steps",
        ),
        ([record(0, model(0, w="a")), record(1, model(1, w="a"))], "a model of its own"),
    ],
)
def test_what_cannot_be_told_is_not_told(records, reason):
    found = replicas.compared(records)
    assert (found["equal"], found["parameters"], found["step"]) == (None, None, None)
    assert reason in found["reason"]


@pytest.mark.torch
class TestHash:
    """The hash of one tensor."""

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize("kind", ["float32", "bfloat16", "float64", "int8"])
    def test_one_bit_makes_another_hash(self, kind):
        values = self.torch.ones(1000, dtype=getattr(self.torch, kind))
        changed = values.clone()
        changed.view(self.torch.uint8)[-1] ^= 1
        assert replicas._hash(values) == replicas._hash(values.clone())
        assert replicas._hash(values) != replicas._hash(changed)

    def test_the_order_in_memory_does_not_matter_but_that_of_the_values(self):
        values = self.torch.arange(12.0).reshape(3, 4)
        assert replicas._hash(values.t().contiguous().t()) == replicas._hash(values)
        assert replicas._hash(values.t()) != replicas._hash(values)

    def test_pieces_are_the_whole(self, monkeypatch):
        values = self.torch.arange(100.0)
        whole = replicas._hash(values)
        monkeypatch.setattr(replicas, "_PIECE_BYTES", 12)
        assert replicas._hash(values) == whole
        assert len([*replicas._pieces(values)]) == 34

    def test_nothing_random_and_no_gradient_is_touched(self):
        values = self.torch.ones(4, requires_grad=True)
        before = self.torch.get_rng_state()
        replicas._hash(values)
        assert self.torch.equal(before, self.torch.get_rng_state())
        assert values.grad is None

    def test_what_cannot_be_read_is_said_and_not_raised(self, monkeypatch):
        def broken():
            raise RuntimeError("lazy\nparameter")

        monkeypatch.setattr(replicas, "living_modules", broken)
        assert replicas.replica() == {
            "models": [],
            "problem": "its parameters cannot be read: RuntimeError: lazy parameter",
        }
