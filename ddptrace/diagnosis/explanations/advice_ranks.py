"""Advice on ranks and streams: what runs beside what, and in which order."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, percent
from ddptrace.metrics.slowdown import BESIDE, LEAST_PLACES

SAME_STREAM = Explanation(
    code="same_stream",
    meaning="Communication runs on the stream of compute. Work of one stream runs one after the "
    "other, so nothing of it can be hidden.",
    how="Collectives and compute kernels of a step carry the same stream. DDP gives NCCL a stream "
    "of its own; collectives that the script calls may not.",
    misleads="A blocking collective of the script may be meant so. In a recording of several "
    "contexts equal numbers need not be equal streams.",
    picture="""\
stream 7   ####bwd####=====####bwd####=====opt
           wanted:
stream 7   ####bwd########bwd####opt
stream 20            =====     =====""",
    advice="Call collectives with async_op=True and wait for them late, or from a stream of "
    "their own.",
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
    advice="Let NCCL use fewer multiprocessors (NCCL_MAX_NCHANNELS, NCCL_MAX_CTAS), send less "
    "(bf16 gradients), or reduce less often.",
)

SLOW_LINK = Explanation(
    code="slow_link",
    meaning="One part of the network is slower than the rest. Collectives over it take longer than "
    "the same ones elsewhere.",
    how="Transfers of like operations and sizes are compared between groups of ranks or between "
    "runs of it; a collective is as slow as its slowest link, so within one group it is not "
    "known which rank's link that is.",
    misleads="Groups of other sizes and operations move other amounts: compare bus bandwidths, not "
    "times. Small collectives show latency, not bandwidth.",
    picture="""\
group 0-1  ==                0 --- 1
group 2-3  ==                |     :  slow
group 1-3  ========          2 --- 3""",
    advice="NCCL_DEBUG=INFO tells which path each pair takes; look for a link that fell back to "
    "TCP or shared memory, or runs at a lower rate.",
)

LAUNCH_ORDER_MISMATCH = Explanation(
    code="launch_order_mismatch",
    meaning="Ranks launched collectives in different orders. NCCL needs one order; with several "
    "groups or streams a run that works today may hang tomorrow.",
    how="In a step in which ranks launched the same collectives (group, operation, size), their "
    "orders are compared.",
    misleads="Collectives of different groups have no common order by themselves. Those launched "
    "by different threads may come either way.",
    picture="""\
rank 0  launches  A  B  C
rank 1  launches  A  C  B      B on rank 0 meets C on rank 1""",
    advice="Launch collectives from one thread and in one order on all ranks; do not let the order "
    "depend on data or on the rank.",
)

OPTIMIZER_BEFORE_COMM = Explanation(
    code="optimizer_before_comm",
    meaning="The optimizer ran before communication had ended. Gradients that are still being "
    "averaged may have been used.",
    how="Kernels launched by the optimizer begin before the last all-reduce of gradients of their "
    "step ends.",
    misleads="An optimizer that is meant to overlap (an optimizer in backward, ZeRO, parameters "
    "that do not belong to DDP) does so rightly. Other kernels of the optimizer's range, such as "
    "setting gradients to zero, are no updates.",
    picture="""\
compute  ####backward####opt###
comm                 ========
                         |<->| averaged and used at once""",
    advice="Compare the gradients of the ranks after backward. A communication hook must return a "
    "future that is done only when its collective is.",
)

EXPLANATIONS = (
    SAME_STREAM,
    COMM_SLOWS_COMPUTE,
    SLOW_LINK,
    LAUNCH_ORDER_MISMATCH,
    OPTIMIZER_BEFORE_COMM,
)
