"""The words of the page in plain language; docs/metrics.md defines them exactly."""

from __future__ import annotations

from typing import NamedTuple


class Term(NamedTuple):
    """One word, the name of its figure in the JSON report ("" for none), and what it means."""

    word: str
    metric: str
    meaning: str


GLOSSARY = (
    Term("rank", "rank", "One process of the job, with one GPU; they are numbered from 0."),
    Term(
        "step",
        "step_ns",
        "One iteration of training, as the GPU saw it: from the end of the step before to the end "
        "of the last work that this step launched.",
    ),
    Term(
        "median step",
        "median_step",
        "A recorded step whose time is the middle one; the verdict and the ledger are about it.",
    ),
    Term("compute", "compute_ns", "At least one kernel ran that is no communication."),
    Term(
        "hidden communication",
        "hidden_comm_ns",
        "Data moved between ranks while compute ran. It costs the step nothing.",
    ),
    Term(
        "exposed communication",
        "exposed_comm_ns",
        "Data moved, or a rank waited to move it, while no compute ran. The step is longer by it.",
    ),
    Term(
        "exposed waiting",
        "exposed_wait_ns",
        "The part of exposed communication in which a rank waited for another one that came later.",
    ),
    Term(
        "exposed transfer",
        "exposed_transfer_ns",
        "The part of exposed communication in which all ranks had arrived and data moved.",
    ),
    Term(
        "copies",
        "exposed_mem_ns",
        "Copies and sets of memory. Exposed: while neither compute nor communication ran.",
    ),
    Term("idle", "idle_ns", "Nothing ran on the GPU."),
    Term("idle: input", "input_ns", "The host had no batch for the GPU."),
    Term(
        "idle: synchronization",
        "sync_ns",
        "The host had waited for the GPU in a call such as .item(), and had queued no more work.",
    ),
    Term("idle: launches", "launch_ns", "The host was at work, but slower than the GPU."),
    Term(
        "idle: cause unknown",
        "unknown_ns",
        "The next operation was queued already, or nothing tells what the host did.",
    ),
    Term(
        "tail",
        "tail_ns",
        "From the last compute before the end of the step's communication to that end: what the "
        "step waits for after the backward pass.",
    ),
    Term("overlap", "overlap_ratio", "The hidden part of all communication."),
    Term(
        "collective",
        "collectives",
        "One operation in which several ranks exchange data, such as an all-reduce.",
    ),
    Term(
        "bucket",
        "bucket",
        "A group of gradients that DDP sends with one all-reduce. They are sent in order, from 0.",
    ),
    Term(
        "transfer",
        "transfer_ns",
        "The shortest duration of a collective over its ranks: who came last did not wait.",
    ),
    Term("wait", "wait_ns", "A rank's duration of a collective, less the transfer."),
    Term(
        "bus bandwidth",
        "busbw_gb_s",
        "Size over transfer, with the factor that makes it comparable with the speed of a link "
        "whatever the number of ranks, as NVIDIA's nccl-tests count it.",
    ),
    Term(
        "α + S/B",
        "",
        "A straight line through the transfers: a fixed cost α, and size S over bandwidth B.",
    ),
    Term(
        "straggler",
        "straggler",
        "The rank that the others wait for.",
    ),
    Term(
        "ledger",
        "",
        "A step divided by cause; the parts add up to it.",
    ),
    Term(
        "blocked, backlog",
        "backlog",
        "What held a bucket up once its gradients were ready: an earlier bucket whose gradients "
        "were not, or the all-reduce before it.",
    ),
)
