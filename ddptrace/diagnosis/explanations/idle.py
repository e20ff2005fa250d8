"""The bottlenecks of an idle GPU: its input, calls that wait for it, slow launching."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import (
    Explanation,
    microseconds,
    milliseconds,
    percent,
)
from ddptrace.metrics.host_work import BLOCKING_COPY_NS
from ddptrace.metrics.idle import ARRIVAL_NS
from ddptrace.metrics.pauses import LIMITS

_OPERATORS, _CALLS = LIMITS["operators"], LIMITS["calls"]

INPUT_STALL = Explanation(
    code="input_stall",
    meaning="The GPU idles while the host has no batch for it. The host is in its data loader, or "
    "silent, between the last kernel launch of one step and the first of the next.",
    how="Idle time of the GPU that ended with an operation launched late counts when the host was "
    "in a data loader's own range before that launch. Where no such range was recorded, it counts "
    "when the host was silent at the start of the step: in no operator and no call, for "
    f"{milliseconds(_OPERATORS.ns)} and {percent(_OPERATORS.ratio)} of the step at least "
    f"({milliseconds(_CALLS.ns)} and {percent(_CALLS.ratio)} where operators were not recorded). "
    "loader_ns is what was in the loader's own range.",
    misleads="A slow loader costs nothing while the host is further ahead of the GPU than the "
    "loader takes. A silent host may also be busy in Python: logging, a checkpoint, evaluation. "
    "If one rank alone stalls, the others' waiting is that rank's straggler.",
    picture="""\
host  launch launch|......next batch......|launch launch
GPU   ####comp#####                        ####comp#####
                   |<---- input_stall ---->|""",
    advice="More workers (num_workers, prefetch_factor, persistent_workers), cheaper transforms, "
    "pinned memory, or fetch the next batch while the GPU works.",
)

SYNC_WAIT = Explanation(
    code="sync_wait",
    meaning="The host waits for the GPU, which then has no work. A call such as .item() returns "
    "when all kernels are done; only then does the host launch the next one, and the GPU idles.",
    how="A synchronising call is cudaStreamSynchronize and the like, cudaMemcpy, cudaFree, or a "
    f"copy whose call took {microseconds(BLOCKING_COPY_NS)} or more and returned after the copy "
    "had ended. When the GPU ran out of work inside it, idle time from there on is put down to it, "
    "up to as long as the call blocked the host, since so much earlier it would have launched "
    "otherwise; not beyond the step, and only where the GPU waited for the host.",
    misleads="A call in which the GPU does not run out of work costs nothing, however long it "
    "blocks: the host merely waits for its turn. Which line of Python made the call is not "
    "recorded without stacks. A profiler slows the host behind the call and makes it dearer.",
    picture="""\
host  launch|..... .item() .....|launch launch
GPU     ####comp################    ####comp####
                                |<->| sync_wait""",
    advice="Keep values on the GPU: no .item(), .cpu(), print or bool of a tensor in the step; log "
    "every few steps; copy with non_blocking=True from pinned memory.",
)

LAUNCH_BOUND = Explanation(
    code="launch_bound",
    meaning="The host launches more slowly than the GPU runs. It was at work in operators and "
    "calls, and kernels are too short to keep the GPU busy until the next launch.",
    how="A gap counts when the call that launched the operation after it returned after the gap "
    f"had begun, up to {microseconds(ARRIVAL_NS)} after that return, and neither the input nor a "
    "synchronising call explains it. kernel_ns against interval_ns in the evidence shows it: the "
    "median kernel, and the median time from one launch to the next.",
    misleads="A profiler makes each launch slower, so a recording may be launch bound where the "
    "job is not: compare with the steps timed without one. A host that is silent, not busy, is in "
    "idle_unknown_ns of the ledger.",
    picture="""\
host  launch 1  launch 2  launch 3  launch 4
GPU        ##1#      ##2#      ##3#      ##4#
               |<--->| launch_bound""",
    advice="Give the host less to launch: torch.compile or CUDA graphs, a fused optimizer "
    "(fused=True or foreach), larger batches, fewer and larger parameters.",
)

EXPLANATIONS = (INPUT_STALL, SYNC_WAIT, LAUNCH_BOUND)
