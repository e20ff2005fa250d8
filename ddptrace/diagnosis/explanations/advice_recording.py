"""Advice on the recording and the job around it, and on parameters that are too fine."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, kibibytes, percent
from ddptrace.diagnosis.rules.gradients import FEWEST_A_BUCKET, FINE_BYTES, MANY_RATIO
from ddptrace.diagnosis.rules.recorded_run import (
    COLD_PART,
    COLD_RATIO,
    DISAGREES_RATIO,
)
from ddptrace.metrics.recording import SLOWED_RATIO

FINE_PARAMETERS = Explanation(
    code="fine_parameters",
    meaning="Many small parameters keep the host launching. Each costs it an operator in backward, "
    "a copy into its bucket and a part of the optimizer, however small it is.",
    how=f"launch_bound is worth listing, a gradient has {kibibytes(FINE_BYTES)} or less on "
    f"average or there are {percent(MANY_RATIO)} as many as kernels in the step, and there are "
    f"{FEWEST_A_BUCKET} or more to a bucket, so that it is not the buckets that are fine. The cost "
    "is the GPU's idle time while the host took in gradients, where the host's operators were "
    "recorded; else it is not known.",
    misleads="Many parameters cost the host, not the GPU: where the host is ahead they cost "
    "nothing. Other buckets change nothing of it. A mean hides a few large ones.",
    picture="""\
host  a b c d e f g h i j k l        one wide parameter:  a
GPU   . # . # . # . # . # . #                             ####""",
    advice="Fewer and larger parameters (fused projections, one flat parameter), torch.compile, "
    "a fused optimizer.",
)

RECORDING_SLOWED_RUN = Explanation(
    code="recording_slowed_run",
    meaning="Recording made the steps longer. The profiler costs the host some time at each "
    "operator and call, so that gaps and late ranks may not exist without it.",
    how="ddptrace capture times steps without a profiler and with it, in the same way. It is "
    f"given when the steps that figures come from took more than {percent(SLOWED_RATIO)} longer; "
    "the cost is by how much, and goes with the recording, not with the job.",
    misleads="Figures of the GPU's own work stay good: durations of kernels, transfers, sizes. "
    "What the host causes does not. Without such timing nothing tells how slow the recording was.",
    picture="""\
without  step |####|####|####|
with     step |##.##.|##.##.|##.##.|    . is the profiler's""",
    advice="Believe launch_bound, sync_wait, input_stall and a straggler by its host only as far "
    "as the unprofiled steps are long as well. Record fewer activities; no stacks, no shapes.",
)

COLD_STEPS = Explanation(
    code="cold_steps",
    meaning="Some recorded steps are not like the others. The first ones, or a single one, took "
    "much longer: caches, autotuning and allocations, or a checkpoint in between.",
    how="Of the steps that count each one's time on its longest rank is held against "
    f"their median. Slow is {COLD_RATIO:g} times as long; slow ones at the start are told, or a "
    f"single one elsewhere, but no more than {percent(COLD_PART)} of all, so that it "
    "takes four. It has no cost: medians "
    "hardly see them.",
    misleads="Where many steps are long, or in turn, the job does more in them (accumulation, "
    "changing shapes), and nothing is said. The first window of each recording does not count "
    "anyhow.",
    picture="""\
step  1 ##############     cold
      2 #####
      3 #####
      4 #####
      5 #####""",
    advice="Let more steps go by before recording; look at what a single slow step did: a "
    "checkpoint, an evaluation, garbage collection, another job.",
)

DDP_LOGGER_DISAGREES = Explanation(
    code="ddp_logger_disagrees",
    meaning="DDP's own log has other times than the trace. DDP averages how long its buckets "
    "took in the steps that it samples; the recorder takes that along.",
    how="On a rank with one DDP module, backward_comm_ns of the manifest is held against the "
    "time from the first bucket's start to the last one's end, the median over the steps with one "
    f"backward pass. One is more than {DISAGREES_RATIO:g} times the other.",
    misleads="DDP's averages are of other steps than the recorded ones, and stamped differently; "
    "they include waiting and the gaps between buckets. A difference is no error in either.",
    picture="""\
trace    buckets   ==  ==  ==
                  |<-------->|    median of the recorded steps
logger            |<------------------>|    average of others""",
    advice="Believe the intervals for the steps recorded here. Record others where the two are "
    "far apart.",
)

EXPLANATIONS = (FINE_PARAMETERS, RECORDING_SLOWED_RUN, COLD_STEPS, DDP_LOGGER_DISAGREES)
