"""Advice on the recording and the job around it, and on parameters that are too fine."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, percent
from ddptrace.metrics.recording import SLOWED_RATIO

FINE_PARAMETERS = Explanation(
    code="fine_parameters",
    meaning="The model has very many small parameters. Each costs the host an operator in "
    "backward, a copy into its bucket and a part of the optimizer, however small it is.",
    how="Parameters of the buckets are counted, and their median size, beside the operators and "
    "kernels that a step launches.",
    misleads="Many parameters cost the host, not the GPU: where the host is ahead they cost "
    "nothing.",
    picture="""\
host  a b c d e f g h i j k l        one wide parameter:  a
GPU   . # . # . # . # . # . #                             ####""",
    advice="Keep weights that belong together in one parameter, use fused or foreach optimizers, "
    "torch.compile.",
)

RECORDING_SLOWED_RUN = Explanation(
    code="recording_slowed_run",
    meaning="Recording made the steps longer. The profiler costs the host some time at each "
    "operator and call, so that gaps and late ranks may not exist without it.",
    how="ddptrace capture times steps without a profiler and with it, in the same way. Advice is "
    f"given when the steps that figures come from were more than {percent(SLOWED_RATIO)} longer.",
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
    meaning="The recorded steps are from the start of the job. Memory is still being allocated, "
    "kernels chosen and compiled, NCCL connected, and DDP has not rebuilt its buckets.",
    how="The numbers of the recorded steps are low, or their times still fall from step to step.",
    misleads="A job that was resumed may count on from where it was, and still be cold. A job with "
    "changing shapes is never warm.",
    picture="""\
step  1 ##############
      2 ########
      3 #####
      4 #####     record from here on""",
    advice="Record later steps: ddptrace capture waits for a number of them first.",
)

DDP_LOGGER_DISAGREES = Explanation(
    code="ddp_logger_disagrees",
    meaning="DDP's own log has other times than the trace. DDP measures averages of forward, "
    "backward and communication in some of its steps; the recorder takes them along.",
    how="The averages in the manifest (ddp_averages) are held against the same times of the "
    "recorded steps.",
    misleads="They are averages over other steps than the recorded ones, and DDP's time of "
    "communication runs from the first to the last bucket, waiting included: it is not the length "
    "of a union.",
    picture="""\
trace   comm   ==  ==  ==     counted: the time in =
DDP     comm  |<-------->|    counted: from first to last""",
    advice="Believe the trace of the recorded steps; record others where the two are far apart.",
)

EXPLANATIONS = (FINE_PARAMETERS, RECORDING_SLOWED_RUN, COLD_STEPS, DDP_LOGGER_DISAGREES)
