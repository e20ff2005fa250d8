"""The bottlenecks of communication: a late rank, the link, fixed cost, the schedule."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, kibibytes, microseconds, percent
from ddptrace.metrics.lateness import EXPLAINS
from ddptrace.metrics.link import SMALL_BYTES
from ddptrace.metrics.stragglers import NOISE_NS, NOISE_OF_TRANSFER
from ddptrace.metrics.transfers import DOMINATED, LAST_BYTES, SMALLEST_BYTES

STRAGGLER = Explanation(
    code="straggler",
    meaning="The others wait for one rank that arrives late. Their collective has begun and cannot "
    "move before the last rank is there. Waiting belongs to the late rank, not to the link.",
    how="A rank waits in a collective for its duration less the shortest duration of any rank; no "
    "common clock is needed. The straggler of a step is the rank with the smallest sum of waits, "
    "when the others waited longer than it did, in the median, by more than "
    f"{microseconds(NOISE_NS)} and by more than {percent(NOISE_OF_TRANSFER)} of the transfer. The "
    "cost is what the rank that loses most would have less of: exposed waiting (no compute ran "
    "meanwhile), the transfer that is exposed on it and not on the late rank, and what its kernels "
    "beside the waiting took longer than the same ones of the late rank; no more than it was "
    "ahead, the median over the steps. A cause is named that explains "
    f"{percent(EXPLAINS)} of the delay at least: the GPU computed longer (compute), the host "
    "launched nothing at the start of the step (input), or the GPU idled otherwise (host).",
    misleads="The rank with the longest collectives is not the slow one: the slow one is last and "
    "does not wait. What is lost is the cost, not late_ns: a delay that is hidden under compute "
    "costs no more than that compute is slowed. With the late rank fixed the next one may show. "
    "Ranks that share one GPU take turns on it, so nobody is named. A profiler that slows one "
    "host makes a straggler.",
    picture="""\
rank 0  compute ########                  opt     # compute
        comm            wwwwwwwwww====            w waiting, = transfer
rank 1  compute ##################        opt
        comm                      ====
                        |<------>| late_ns; exposed here, so it is the cost""",
    advice="Give the late rank what the others have: as much data, the same kernels and GPU clock, "
    "a host without other work. The finding names the cause.",
)

COMM_BANDWIDTH = Explanation(
    code="comm_bandwidth",
    meaning="Transfers take longer than the compute to hide them. All ranks are there and data "
    "moves, but there is more of it than the link carries while backward computes.",
    how="Transfer is the shortest duration of a collective over its ranks: the part without "
    "waiting. Of a step's exposed transfer, what another schedule could hide is bucket_schedule "
    "and what is fixed cost is comm_latency; the rest is this. When all of it is gradients that "
    "is transfer_ns less available_ns of the evidence: the transfers of all buckets less the "
    "compute from the first ready gradient to the end of backward. bandwidth_gb_s is that of a "
    "very large transfer, from a line through sizes and times; null where the sizes are too "
    "much alike for one.",
    misleads="The duration of a collective is not its transfer: waiting for a late rank looks like "
    "a slow link on the early ranks of a single recording. Where one rank's link is slow all ranks "
    "show it. NCCL kernels that share the GPU with compute are slower than alone.",
    picture="""\
compute  ####forward####backward####                        opt
comm                     ====1========2========3========4====
                         |  hidden  ||  comm_bandwidth      |
                         available_ns""",
    advice="Send less or over a faster link: gradients as bf16 (a communication hook), no_sync "
    "over several micro-batches, larger batches. Check with NCCL_DEBUG=INFO that NCCL uses NVLink "
    "or RDMA and not shared memory or TCP.",
)

COMM_LATENCY = Explanation(
    code="comm_latency",
    meaning="Collectives cost time however little they carry. Each one has a fixed cost; with many "
    "small ones that is most of what is exposed.",
    how="For each group and operation a straight line is put through the sizes and transfers of "
    "the run; where it meets size 0 is the fixed cost (fixed_ns). The share of it in each exposed "
    "transfer is summed up. Where no line can be drawn, collectives below "
    f"{kibibytes(SMALL_BYTES)} count as fixed cost only, larger ones as none. A collective of "
    f"which it is {percent(DOMINATED)} or more is never put down to the schedule.",
    misleads="Many collectives cost nothing as long as they are hidden: compare the cost, not "
    "their number. Where ranks share one GPU each collective holds the turns of the other ranks, "
    "which looks like fixed cost: then confidence is low. Collectives of one size give no line.",
    picture="""\
transfer |              . *          * measured, one size each
         |         * .
         |    * .
fixed_ns |.*                         everything below this line is paid
         |                           again by each collective
         +------------------ size""",
    advice="Send fewer, larger messages: raise bucket_cap_mb, put small collectives of your own "
    "into one tensor or group them.",
)

BUCKET_SCHEDULE = Explanation(
    code="bucket_schedule",
    meaning="Buckets could have been hidden and came too late. There was enough compute in "
    "backward, but communication began after it: one large bucket, a first bucket that is late, "
    "or an early bucket that waits for a late parameter.",
    how="An ideal schedule hides transfers under the compute that is left once the first gradient "
    "is ready (available_ns). What must stay exposed is the larger of transfer_ns - available_ns "
    f"and the last bucket, of which up to the time of {kibibytes(LAST_BYTES)} is accepted; with "
    f"one bucket only, the time of {kibibytes(SMALLEST_BYTES)}. The exposed transfer of buckets "
    "beyond that is the cost. Where the size and the time of each gradient are known, the cost is "
    "what a replay of the step saves with the best of the usual caps (ddptrace whatif).",
    misleads="On a rank that waits for a straggler, buckets end late for no fault of the schedule: "
    "see to the straggler first. The smallest cap is not the best one: each bucket has a fixed "
    "cost. bucket_cap_mb does not split a parameter: a large embedding is one bucket.",
    picture="""\
one bucket     compute  ###forward######backward#######       opt
               comm                                    ======
                                                       cost
four buckets   compute  ###forward######backward#######  opt
               comm                     ==  ==  ==     ==
                                                       last bucket: none""",
    advice="Lower bucket_cap_mb when there is one bucket; let DDP rebuild its buckets "
    "(find_unused_parameters=False, or static_graph=True) when one waits for a late parameter; "
    "register parameters in the order of the forward pass.",
)

EXPLANATIONS = (STRAGGLER, COMM_BANDWIDTH, COMM_LATENCY, BUCKET_SCHEDULE)
