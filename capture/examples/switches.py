"""The bottlenecks that train_ddp.py can plant, and which of them exclude each other."""

from collections.abc import Collection
from typing import NamedTuple


class Switch(NamedTuple):
    """A planted bottleneck: what a report should find, and what is done to the job."""

    shows: str
    plants: str


SWITCHES = {
    "late-compute": Switch("straggler", "the last rank computes longer in its forward pass"),
    "late-input": Switch("straggler", "the last rank's data loader is slow"),
    "late-host": Switch("straggler", "the last rank's Python is busy before its forward pass"),
    "input-bound": Switch("input_stall", "every rank's data loader is slow"),
    "slow-link": Switch("comm_bandwidth", "every rank's link is slow"),
    "slow-link-one": Switch("comm_bandwidth", "only the last rank's link is slow"),
    "one-bucket": Switch("bucket_schedule", "all gradients travel in one bucket, at the end"),
    "tiny-buckets": Switch("comm_latency", "buckets of 0.05 MB: about one for each parameter"),
    "late-first-parameter": Switch(
        "bucket_schedule", "the first bucket waits for the gradient that is ready last"
    ),
    "fine-parameters": Switch("launch_bound", "every weight is kept as 32 small parameters"),
    "item-in-forward": Switch("sync_wait", "`.item()` after every layer of the forward pass"),
    "long-last-backward": Switch("compute_tail", "the last backward kernel is long"),
    "accumulate": Switch("reduce_each_microstep", "4 micro-steps a step, each one all-reduces"),
    "accumulate-no-sync": Switch("-", "4 micro-steps a step, only the last one all-reduces"),
    "hook-fp16": Switch("-", "gradients travel as float16: half the bytes"),
    "hook-forgets-division": Switch(
        "exit code 3", "a hook sums the gradients; the gradient check must catch it"
    ),
    "hook-same-stream": Switch("same_stream", "a hook all-reduces on the stream that computes"),
    "hook-no-wait": Switch("optimizer_before_comm", "a hook lets nobody wait for its all-reduce"),
    "gradient-check": Switch("-", "before training: are the gradients the ranks' average?"),
    "unused-dynamic": Switch("unused_search", "every other step skips the last layer"),
    "unused-static": Switch("-", "static_graph with a parameter that is never used"),
    "large-buffer": Switch("buffer_broadcast", "a large buffer is broadcast before each forward"),
    "long-layer": Switch("uneven_backward", "the backward of a layer halfway is long"),
    "no-bucket-view": Switch("grad_copies", "gradients are copied into the buckets and back"),
    "compile": Switch("-", "torch.compile: other kernels, the backward pass in a few pieces"),
    "fsdp": Switch("-", "fully_shard in place of DDP: all-gather and reduce-scatter"),
}

HOOKS = {"hook-fp16", "hook-forgets-division", "hook-same-stream", "hook-no-wait"}
SLOW_LINKS = {"slow-link", "slow-link-one"}
GRADIENT_CHECKS = {"gradient-check", "hook-forgets-division"}
DDP_ONLY = {
    *HOOKS,
    *GRADIENT_CHECKS,
    "one-bucket",
    "tiny-buckets",
    "late-first-parameter",
    "large-buffer",
    "accumulate-no-sync",
    "unused-dynamic",
    "unused-static",
    "no-bucket-view",
}

# Of the first set at most one, together with none of the second; then the reason.
EXCLUDED: list[tuple[set[str], set[str], str]] = [
    ({"late-input"}, {"input-bound"}, "either one loader is slow or all are"),
    ({"slow-link"}, {"slow-link-one"}, "either one link is slow or all are"),
    ({"one-bucket"}, {"tiny-buckets"}, "a job has one bucket or many"),
    ({"accumulate"}, {"accumulate-no-sync"}, "micro-steps all-reduce or they do not"),
    (HOOKS, HOOKS, "DDP takes one communication hook"),
    ({"hook-no-wait"}, GRADIENT_CHECKS, "the check would find what is planted"),
    ({"unused-static"}, {"unused-dynamic"}, "a static graph does not change"),
    ({"unused-static"}, {"accumulate-no-sync"}, "a static graph is learnt from an all-reduce"),
    ({"unused-static"}, {"late-first-parameter"}, "a static graph's buckets are laid out anew"),
    ({"unused-dynamic"}, GRADIENT_CHECKS, "the check needs the same graph twice"),
    ({"compile"}, {"unused-dynamic"}, "each of the two graphs would be compiled"),
    ({"compile"}, {"long-last-backward"}, "a compiled backward pass has another order"),
    ({"compile"}, {"tiny-buckets"}, "torch.compile takes no bucket below 1 MB"),
    ({"compile"}, GRADIENT_CHECKS, "the check would compile the model outside of DDP"),
    ({"fsdp"}, {*DDP_ONLY, "compile"}, "there is no DDP to change"),
]
EXCLUDED_ON_CPU = [
    (HOOKS, SLOW_LINKS, "with gloo a slow link is a communication hook, and DDP takes one"),
    ({"fsdp"}, SLOW_LINKS, "with gloo a slow link is a communication hook of DDP"),
]


def help_table() -> str:
    """Return the switches as lines for `--help`."""
    rows = [("switch", Switch("shows", "what is planted")), *SWITCHES.items()]
    return "\n".join(f"  {name:22}{switch.shows:23}{switch.plants}" for name, switch in rows)


def conflict(chosen: Collection[str], on_cpu: bool) -> str | None:
    """Return why these switches make no sense together, or None when they do."""
    for left, right, reason in [*EXCLUDED, *(EXCLUDED_ON_CPU if on_cpu else [])]:
        first, second = left.intersection(chosen), right.intersection(chosen)
        if first and (others := second - {min(first)}):
            return f"{min(first)} and {min(others)} do not go together: {reason}"
    return None
