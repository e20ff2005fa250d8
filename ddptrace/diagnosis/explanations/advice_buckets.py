"""Advice on DDP's buckets: when they reduce, in which order, and what surrounds them."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation, percent
from ddptrace.diagnosis.rules.layout import BUNCHED, LONG_RATIO, REBUILT_AFTER
from ddptrace.diagnosis.rules.micro_steps import FEWEST_REDUCTIONS

REDUCE_EACH_MICROSTEP = Explanation(
    code="reduce_each_microstep",
    meaning="Gradients are reduced in each micro-step of a step. With gradient accumulation only "
    "the last backward pass before the optimizer needs to communicate.",
    how=f"Within one step {FEWEST_REDUCTIONS} or more backward passes reduce the same buckets "
    "(backward_pass of the collectives, from 0; sizes must be alike), and the optimizer does not "
    "run as often. The cost is the exposed transfer of all passes but the last. With several DDP "
    "modules nothing is said, since each may reduce its own.",
    misleads="The cost is what is exposed now; hidden transfers that would go as well cost "
    "nothing. Waiting for a late rank is not in it. Where the recording holds no optimizer "
    "ranges, it is taken to run once a step.",
    picture="""\
compute  #fwd##bwd# #fwd##bwd# #fwd##bwd# opt
comm          =====      =====      =====
              in vain    in vain    needed""",
    advice="Run all micro-steps but the last inside model.no_sync(), forward pass included.",
)

NOT_REBUILT = Explanation(
    code="not_rebuilt",
    meaning="DDP never laid its buckets out anew. The first layout follows the order in which "
    "parameters were registered, reversed; the second that in which gradients came.",
    how="The manifest says that DDP did not rebuild its buckets, the first recorded step has the "
    f"same ones as all later ones, and step {REBUILT_AFTER} or a later one is recorded: by then "
    "DDP would have. It has no cost of its own; bucket_schedule has it.",
    misleads="Without a manifest nothing is said, since nothing tells. Where parameters are "
    "registered in the order of the forward pass, the first layout is nearly as good as the "
    "second.",
    picture="""\
gradients come   d  c  b  a
as built         [a d]  [b c]     the first bucket is whole last
rebuilt          [d c]  [b a]""",
    advice="find_unused_parameters=False where every parameter is used, or static_graph=True; both "
    "let DDP rebuild after the first step. Or register parameters in the order of forward.",
)

HEAD_OF_LINE = Explanation(
    code="head_of_line",
    meaning="Buckets that are ready wait for an earlier one. DDP launches its all-reduces in the "
    "order of the buckets, so one late parameter in an early bucket holds up all others.",
    how="A bucket is blocked when nothing was launched between the all-reduce before it and its "
    "own: each gradient that becomes ready launches a kernel, so its own gradients were ready "
    "before. The bucket that holds them up is the last one before that was not blocked. The cost "
    "is the exposed transfer of blocked buckets, as far as a schedule could have hidden it: a "
    "part of bucket_schedule.",
    misleads="A communication hook launches kernels of its own between all-reduces: then it is "
    "not known. A bucket that waits for the transfer before it has a backlog, which is the link's "
    "matter. Blocked buckets that are hidden all the same cost nothing.",
    picture="""\
ready    2  3  4            1
launch                      1234
comm                        ==1===2===3===4
            |<-- blocked -->|""",
    advice="Let DDP rebuild its buckets (find_unused_parameters=False, or static_graph=True), or "
    "register the late parameter where backward reaches it.",
)

GRAD_COPIES = Explanation(
    code="grad_copies",
    meaning="Gradients are copied out of their buckets. With gradient_as_bucket_view=False each "
    "gradient has memory of its own beside its place in the bucket, and is copied into it and "
    "back.",
    how="The manifest says so, or the recording names such copies. The cost is the time of the "
    "copies that backward launches behind the last bucket, while nothing else ran on the GPU.",
    misleads="Copies into the buckets look like other kernels and are not counted, so the true "
    "cost is higher. Code that detaches or replaces .grad does not work with the view.",
    picture="""\
.grad   [a][b][c]      bucket  [ a b c ]
            copy in  ->           | all-reduce
            copy out <-           v""",
    advice="DistributedDataParallel(..., gradient_as_bucket_view=True).",
)

BUFFER_BROADCAST = Explanation(
    code="buffer_broadcast",
    meaning="Buffers are sent from rank 0 before each forward. BatchNorm's running averages are "
    "such buffers; forward cannot start before they are there.",
    how="Each step that counts has broadcasts outside of backward, as DDP launches before its "
    "forward. A recording with the host's operators but without DDP's forward has others. The "
    "cost is their exposed transfer.",
    misleads="Waiting for rank 0 in the broadcast is the straggler's cost, not this. Broadcasts "
    "of your own outside of backward look alike.",
    picture="""\
comm     ==b==                     ==gradients==
compute       ####forward####backward####     opt
         |<-->| exposed, each step""",
    advice="broadcast_buffers=False where ranks may differ in their buffers, or SyncBatchNorm; "
    "send the buffers before evaluation or saving instead.",
)

UNUSED_SEARCH = Explanation(
    code="unused_search",
    meaning="DDP searches for unused parameters in each step. The host walks the whole graph after "
    "forward, and one more small all-reduce tells the ranks which were used.",
    how="The manifest or the host's ranges say that DDP searches, and each step that counts has "
    "a small all-reduce of whole numbers in backward. The cost is the exposed transfer of that, "
    "and the GPU's idle time while the host searched. A recording of CUDA alone does not tell when "
    "that was: then it is that of the rank's full recording, as far as the GPU waited for launches "
    "here.",
    misleads="Where parameters are unused in some steps the search is needed: without it DDP "
    "fails. The idle time is in launch_bound, too; without a full recording nothing tells of it.",
    picture="""\
host  forward |walk the graph| backward
GPU   ####fwd####......idle......####bwd####
comm                                 ==  ==  =used=""",
    advice="find_unused_parameters=False where every parameter is used in each step; "
    "static_graph=True where always the same ones are unused.",
)

UNEVEN_BACKWARD = Explanation(
    code="uneven_backward",
    meaning="Buckets are ready in a bunch behind one long kernel. Backward is uneven: while that "
    "kernel runs no gradient comes and no bucket can go, then several want to go at once.",
    how=f"The longest kernel of a step's backward takes {percent(LONG_RATIO)} of its compute or "
    f"more, and {BUNCHED} buckets or more are ready only after its end. The cost is their exposed "
    "transfer, as far as a schedule could have hidden it (bucket_schedule) and the kernel ran "
    "without communication beside it: so much would fit under it once its work is spread.",
    misleads="The kernel may be the model's largest layer, which cannot be spread. Buckets of "
    "another size change nothing. It is told only where it is known when buckets were ready.",
    picture="""\
compute  ####forward####b#b#########long########opt
ready                                          123
comm                                           =1==2==3=
                            a spread backward hides these""",
    advice="Make that kernel faster or split it, so that transfers can start earlier.",
)

EXPLANATIONS = (
    REDUCE_EACH_MICROSTEP,
    NOT_REBUILT,
    HEAD_OF_LINE,
    GRAD_COPIES,
    BUFFER_BROADCAST,
    UNUSED_SEARCH,
    UNEVEN_BACKWARD,
)
