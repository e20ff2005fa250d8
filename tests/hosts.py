"""Host ranges stated in µs, and why the GPU idled beside them."""

from traces import step_rows

from ddptrace.metrics.idle import IdleCauses, idle_causes
from ddptrace.metrics.recorded import Recorded

PARTS = ("input_ns", "sync_ns", "launch_ns", "unknown_ns")
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def causes(recording) -> list[IdleCauses | None]:
    """Return the causes of each step."""
    return idle_causes(Recorded.of(recording), step_rows(recording))


def only(recording) -> IdleCauses:
    """Return the causes of the only step."""
    (found,) = causes(recording)
    assert found is not None
    return found


def parts(found: IdleCauses | None) -> list[int]:
    """Return input, sync, launch and unknown in µs."""
    assert found is not None
    return [getattr(found, name) // 1000 for name in PARTS]


def call(start, end, name="cudaLaunchKernel", thread=0):
    """State a call of the runtime."""
    return ("call", name, start, end, thread)


def operator(start, end, name="aten::mul", thread=0):
    """State an operator."""
    return ("operator", name, start, end, thread)


def sync(start, end, thread=0):
    """State a call that returns when the GPU has ended its work."""
    return call(start, end, "cudaStreamSynchronize", thread)


def loading(start, end, kind="annotation"):
    """State a data loader's own range."""
    return (kind, LOADER, start, end)
