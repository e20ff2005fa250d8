"""Advice on DDP's buckets: when they reduce, in which order, and what surrounds them."""

from __future__ import annotations

from ddptrace.diagnosis.explanations.record import Explanation

REDUCE_EACH_MICROSTEP = Explanation(
    code="reduce_each_microstep",
    meaning="Gradients are reduced in each micro-step of a step. With gradient accumulation only "
    "the last backward pass before the optimizer needs to communicate.",
    how="Within one step the same buckets are reduced by several backward passes (backward_pass of "
    "the collectives, from 0).",
    misleads="Losses that are meant to be reduced twice, such as a generator's and a "
    "discriminator's, are several passes, too. If all of it is hidden, little is won.",
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
    how="The recorder asks DDP whether it rebuilt its buckets. Without a manifest it is "
    "known only where the first recorded step has other buckets than all later ones.",
    misleads="Where parameters are registered in the order of the forward pass, the first layout "
    "is as good as the second.",
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
    "own: each gradient that becomes ready launches a kernel, so its own were ready before. "
    "blocked_ns tells since when, where that is known.",
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
    meaning="Gradients are copied into buckets and back. With gradient_as_bucket_view=False each "
    "gradient has memory of its own beside its place in the bucket.",
    how="The recorder asks DDP for gradient_as_bucket_view. The copies are compute or copies of "
    "the step, and are not told apart in its figures.",
    misleads="On a fast GPU the copies are short; what is saved for certain is the memory of the "
    "gradients once. Code that detaches or replaces .grad does not work with the view.",
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
    how="Broadcasts of a step that DDP launches at the start of its forward, outside of backward. "
    "They are no gradient buckets.",
    misleads="A broadcast is short and its waiting long where rank 0 is late: then it is the "
    "straggler that costs. SyncBatchNorm communicates inside forward and is something else.",
    picture="""\
comm     ==b==                     ==gradients==
compute       ####forward####backward####     opt
         |<-->| exposed, each step""",
    advice="DistributedDataParallel(..., broadcast_buffers=False) where ranks may keep buffers of "
    "their own; send them before evaluation or saving instead.",
)

UNUSED_SEARCH = Explanation(
    code="unused_search",
    meaning="DDP searches for unused parameters in each step. The host walks the whole graph after "
    "forward, and one more small all-reduce tells the ranks which were used.",
    how="The recorder asks DDP for find_unused_parameters; in a trace the all-reduce of "
    "whole numbers is seen beside the gradients.",
    misleads="Where parameters are unused in some steps, the search is needed: without it DDP "
    "fails or hangs. The walk costs the host, which matters where the GPU waits for it.",
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
    how="The longest kernel of a step's backward takes a large part of it, and several buckets are "
    "ready only after its end. The cost is their exposed transfer, as far as the kernel ran "
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
