"""The verdicts of runs in which no cause costs enough, and of those that cannot be judged."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, percent
from ddptrace.diagnosis.finding import VERDICT_PART
from ddptrace.diagnosis.rules.compute import BOUND_RATIO, TAIL_RATIO, TAIL_TIMES

_NO_CAUSE = f"It is the verdict only when no cause costs {percent(VERDICT_PART)} of the median step"

COMPUTE_BOUND = Explanation(
    code="compute_bound",
    meaning="Communication is hidden, kernels are what is left. This is how a healthy job looks: "
    "a faster step needs faster kernels, or fewer of them.",
    how=f"{_NO_CAUSE}, and compute is {percent(BOUND_RATIO)} or more of the median step on its "
    "longest rank (compute_ratio). It has no cost: nothing would go if it were removed. The "
    "evidence lists the kernels that took the most time.",
    misleads="Smaller findings may still be listed, and are worth a look where they are cheap to "
    "mend. Compute includes kernels that communication beside them slows down. A busy GPU is not a "
    "well used one: kernels may be slow for their work.",
    picture="""\
compute  ####forward########backward##########opt#
comm                       === === === === ==
                           hidden""",
    advice="Look at the largest kernels: precision, shapes, fusion (torch.compile), a better "
    "attention kernel.",
)

COMPUTE_TAIL = Explanation(
    code="compute_tail",
    meaning="A long last kernel of backward decides. Communication is hidden, but the last bucket "
    "can only start behind that kernel, whatever the schedule.",
    how=f"{_NO_CAUSE}, compute is {percent(BOUND_RATIO)} or more of it, and the backward kernel "
    f"that ends last took {TAIL_TIMES} times the median backward kernel and {percent(TAIL_RATIO)} "
    "of the step at least (last_kernel_ns). It has no cost.",
    misleads="The kernel may be long because it is the largest layer, where nothing is wrong. "
    "Buckets of another size do not help: all earlier ones are hidden already.",
    picture="""\
compute  ####forward####b#b#b#b#########last#########opt
comm                      == == ==                 ==
                                                   last bucket""",
    advice="Split that kernel or make it faster. The embedding's gradient is often it: look at "
    "its kernel first.",
)

NO_COMMUNICATION = Explanation(
    code="no_communication",
    meaning="The run does not communicate. No comm kernel ran in the steps that count.",
    how="Communication was recorded, so far as the recording tells, and its time is 0 in every "
    f"step that counts. {_NO_CAUSE}. It has no cost.",
    misleads="Custom collectives count as compute until they are named: --comm-kernel REGEX. "
    "Copies between GPUs are copies. Steps inside no_sync() do not communicate although the job "
    "does.",
    picture="""\
rank 0  compute  ####forward####backward####opt#
        comm
rank 1  compute  ####forward####backward####opt#
        comm""",
    advice="Look at each rank alone. If the job should communicate, check that the model is "
    "wrapped in DistributedDataParallel, and that the recorded steps reduce.",
)

UNKNOWN = Explanation(
    code="unknown",
    meaning="What was recorded does not tell the cause. No verdict is made rather than a wrong "
    "one.",
    how="No step was recorded whole or no step is marked, or collectives were called and their "
    "kernels not recorded, or no cause costs "
    f"{percent(VERDICT_PART)} of the median step and compute is less than {percent(BOUND_RATIO)} "
    "of it: then the ledger shows where the rest is. It has no cost and no confidence.",
    misleads="It does not say that all is well. Much idle_unknown_ns means that the GPU waited for "
    "itself or for a silent host; much comm_unknown_ns, that collectives could not be matched.",
    picture="""\
compute  ####        ####        ####
comm
idle         ????????    ????????""",
    advice="Record whole steps of all ranks with marks (ddptrace capture does), with the host's "
    "operators, and name custom collectives.",
)

EXPLANATIONS = (COMPUTE_BOUND, COMPUTE_TAIL, NO_COMMUNICATION, UNKNOWN)
