"""The bucket cap that DDP gets from outside, in a process group of one rank."""

import inspect

import pytest

from ddptrace_capture import ddp
from ddptrace_capture.bucket_cap import BucketCap

pytestmark = pytest.mark.torch
torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
DDP = torch.nn.parallel.DistributedDataParallel


@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def cap():
    found = BucketCap(4.0)
    yield found
    found.close()


class Mine(DDP):
    """A class of the user's own, with a cap of its own."""

    def __init__(self, module):
        super().__init__(module, bucket_cap_mb=3)


def net():
    return torch.nn.Linear(4, 4)


def told(model, cap):
    """Return what the manifest tells of a model: its cap, what was asked for, what was set."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ddp, "living_modules", lambda: [model])  # those of earlier tests may live
        (mine,) = ddp.ddp_modules(cap)
    return mine["bucket_cap_bytes"] >> 20, mine["asked_bucket_cap_mb"], mine["set_bucket_cap_mb"]


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("make", "asked"),
    [
        (lambda: DDP(net()), None),
        (lambda: DDP(net(), bucket_cap_mb=None), None),
        (lambda: DDP(net(), bucket_cap_mb=50), 50.0),
        (lambda: DDP(net(), None, None, 0, None, True, None, 2.5), 2.5),
        (lambda: Mine(net()), 3.0),
    ],
)
def test_the_cap_is_set_however_the_script_asks_and_what_it_asked_is_told(cap, make, asked):
    assert told(make(), cap) == (4, asked, 4)


@pytest.mark.usefixtures("group")
def test_a_list_of_caps_gives_way_too(cap):
    if "bucket_cap_mb_list" not in inspect.signature(DDP.__init__).parameters:
        pytest.skip("this PyTorch has one cap for all buckets")
    model = DDP(net(), bucket_cap_mb_list=[1, 7])
    assert told(model, cap) == (4, [1.0, 7.0], 4)
    assert model.bucket_bytes_cap_list == []


@pytest.mark.usefixtures("group")
def test_a_set_cap_limits_the_first_bucket_as_the_same_argument_does(cap):
    set_from_outside = DDP(net())
    cap.close()
    written = DDP(net(), bucket_cap_mb=4)
    assert set_from_outside.bucket_bytes_cap_default == written.bucket_bytes_cap_default


@pytest.mark.usefixtures("group")
def test_without_an_override_what_the_script_asked_is_told():
    assert told(DDP(net()), None) == (25, None, None)
    assert told(DDP(net(), bucket_cap_mb=25), None) == (25, 25.0, None)
    for cap_mb in (50, 0.02, 0.1, 2.7, 0.5):
        model = DDP(net(), bucket_cap_mb=cap_mb)
        assert told(model, None) == (int(cap_mb), cap_mb, None)


@pytest.mark.usefixtures("group")
def test_after_close_nothing_is_left():
    before = DDP.__init__
    cap = BucketCap(4.0)
    assert DDP.__init__ is not before
    cap.close()
    assert DDP.__init__ is before
    assert told(DDP(net()), cap) == (25, None, None)


def test_a_wrong_call_has_the_error_of_torch(cap):
    with pytest.raises(TypeError, match=r"__init__.*no_such"):
        DDP(net(), no_such=1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'module'"):
        DDP()


def test_several_models_keep_what_each_asked_for(cap):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        first, second = DDP(net(), bucket_cap_mb=1), DDP(net(), bucket_cap_mb=2)
        assert (told(first, cap), told(second, cap)) == ((4, 1.0, 4), (4, 2.0, 4))
    finally:
        dist.destroy_process_group()
