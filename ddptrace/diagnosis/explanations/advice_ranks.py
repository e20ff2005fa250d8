"""Advice on ranks and streams: what runs beside what, and in which order."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, kibibytes, microseconds, percent
from ddptrace.diagnosis.rules.beside import SHARED_RATIO
from ddptrace.diagnosis.rules.danger import EARLY_NS
from ddptrace.diagnosis.rules.slow_group import LEAST_BYTES, SLOW_RATIO
from ddptrace.metrics.slowdown import BESIDE, LEAST_PLACES

SAME_STREAM = Explanation(
    code="same_stream",
    meaning="Gradients are reduced on the stream that computes. Work of one stream runs one "
    "after the other, so nothing of it can be hidden, whatever the buckets are.",
    how=f"More than {percent(SHARED_RATIO)} of a step's gradient collectives carry the stream "
    "that computed longest, and what is exposed is worth listing. The cost is the exposed "
    "transfer there, as far as compute of backward that was launched later could have hidden it; "
    "unknown where nothing tells of backward.",
    misleads="A collective after all of backward has nothing left to overlap with, on whatever "
    "stream. A hook may run kernels of its own on the stream of the collectives, which is fine.",
    picture="""\
stream 7   ####bwd####=====####bwd####=====opt
           wanted:
stream 7   ####bwd########bwd####opt
stream 20            =====     =====""",
    advice="Let DDP launch the collectives, or use async_op=True, which uses NCCL's own stream; "
    "look for a communication hook or a custom all-reduce that does not.",
)

COMM_SLOWS_COMPUTE = Explanation(
    code="comm_slows_compute",
    meaning="Kernels are slower beside communication. NCCL's kernels take multiprocessors and "
    "memory bandwidth from the compute that hides them: overlap is not free.",
    how=f"Kernels of one name and direction that ran beside communication for {percent(BESIDE)} of "
    f"their time are compared with those alone, at {LEAST_PLACES} or more places of a step each, "
    "when both are even enough to be one kernel. The cost is what those beside it took longer than "
    "the median alone.",
    misleads="Sizes are not recorded: one name may stand for several kernels, and then they are "
    "left out. So the figure covers only part of the compute. The clock of the GPU changes within "
    "a step as well.",
    picture="""\
comm          ==========
compute  #A#  ##A##  ##A##  #A#
              slower        alone""",
    advice="Let NCCL use fewer multiprocessors (NCCL_MAX_CTAS), send less (bf16 gradients), or "
    "reduce less often.",
)

SLOW_LINK = Explanation(
    code="slow_link",
    meaning="One group's link is slower than that of the others. Its transfers take longer than "
    "the same ones of other groups of ranks.",
    how="Groups without a common rank that do the same (operation, size, number of ranks) are "
    f"compared by their median transfer, from {kibibytes(LEAST_BYTES)} on, since smaller ones are "
    f"fixed cost. One is slow when it takes {SLOW_RATIO:g} times as long as the others. The cost "
    "is what a step's transfers in the slow group took longer than the others', as far as "
    "exposed.",
    misleads="Within a group all ranks share one transfer, so it is not known which of its links "
    "is the slow one, and a job with one group has nothing to compare with. Groups with a rank in "
    "common go different ways by intention.",
    picture="""\
ranks 0-1  ====          0 --- 1
ranks 2-3  ====          2 --- 3
ranks 4-5  ==========    4 . . 5   slow""",
    advice="Compare the links of its GPUs and network cards with the others' (nvidia-smi topo "
    "-m); NCCL_DEBUG=INFO tells which path NCCL takes.",
)

LAUNCH_ORDER_MISMATCH = Explanation(
    code="launch_order_mismatch",
    meaning="Ranks launched collectives in different orders. Nothing is slow, but a deadlock or "
    "wrong sums may come of it: NCCL pairs the collectives of a group by their order.",
    how="In each step that counts, ranks that launched the same collectives (group, operation, "
    "size) are compared in the order of the launches. It has no cost.",
    misleads="Collectives of different groups have no common order by themselves. Those launched "
    "by different threads may come either way.",
    picture="""\
rank 0  launches  A  B  C
rank 1  launches  A  C  B      B on rank 0 meets C on rank 1""",
    advice="One order on all ranks: no set or dict order that differs, no collectives from "
    "several threads.",
)

OPTIMIZER_BEFORE_COMM = Explanation(
    code="optimizer_before_comm",
    meaning="The optimizer ran before communication had ended. Gradients that were still being "
    "averaged may have been used: a danger of wrong parameters, not a cost.",
    how="The first kernel of the optimizer that was launched behind all of backward starts "
    f"{microseconds(EARLY_NS)} or more before the last bucket of its step ends. The optimizer's "
    "kernels are those launched inside its recorded range, else those with such a name.",
    misleads="An optimizer that takes the gradients bucket by bucket, and waits for each, does "
    "so rightly. A start that is early by no more than rounding is allowed.",
    picture="""\
compute  ####backward####opt###
comm                 ========
                         |<->| averaged and used at once""",
    advice="Let the optimizer's stream wait for that of backward (wait_stream). A communication "
    "hook must return a future that is done only when its collective is.",
)

EXPLANATIONS = (
    SAME_STREAM,
    COMM_SLOWS_COMPUTE,
    SLOW_LINK,
    LAUNCH_ORDER_MISMATCH,
    OPTIMIZER_BEFORE_COMM,
)
