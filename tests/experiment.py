"""Results of the bucket experiment as a run would write them, and the cells of its page."""


def rank(**changes):
    """State what one rank measured: two steps of 30 and 50 ms."""
    times = ("backward_compute_time", "backward_comm_time", "backward_compute_comm_overlap_time")
    calls = [
        {"stamp_ns": 1_000_000, "bucket": 0, "bytes": 2**22, "last": False},
        {"stamp_ns": 2_500_000, "bucket": 1, "bytes": 2**22, "last": True},
    ]
    return {
        "block_ns": 90_000_000,
        "step_ns": [30_000_000, 50_000_000],
        "backward_gpu_ns": [20_000_000, 40_000_000],
        "backward_host_ns": [2_000_000, 6_000_000],
        "optimizer_host_ns": [100_000, 300_000],
        "ddp_logger": {
            "rebuilt": True,
            "bucket_bytes": [2**22, 2**22],
            "mean_ns": dict.fromkeys(times, 7_000_000),
            "last_ns": dict.fromkeys(times, 8_000_000),
        },
        "hook_steps": [calls],
        "recorded": {
            "steps": 3,
            "comm_count": 6,
            "spin_count": 7,
            "comm_ns": 12_000_000,
            "compute_ns": 30_000_000,
            "hidden_ns": 4_000_000,
            "exposed_ns": 8_000_000,
        },
        "replica_equal": True,
        "gradient_errors": [0.0, 2e-7],
    } | changes


def row(*ranks, **changes):
    return {
        "name": "2x4-cap4",
        "branches": 2,
        "branch_bytes": 2**22,
        "cap_bytes": 2**22,
        "spin_cycles": 10_000_000,
        "skips": "never",
        "ranks": list(ranks),
    } | changes


def undetected(*errors, usable=True):
    ranks = [{"error": error, "group_usable": usable} for error in errors]
    return row(*ranks, name="undetected-unused", skips="always")


def result(*rows):
    return {
        "ddptrace_experiment": 1,
        "hardware": {
            "device": "NVIDIA X",
            "devices": 2,
            "nodes": 1,
            "ranks": 2,
            "backend": "nccl",
            "link": "by string",
            "nccl_settings": {"NCCL_ALGO": "Ring"},
            "versions": {"PyTorch": "9.9", "NCCL": "2.28.9"},
        },
        "settings": {"steps": 2, "warm_up_steps": 11, "recorded_steps": 3, "batch_size": 32},
        "configurations": list(rows),
    }


def cells(page, name):
    """Return the rows of all tables that belong to `name`, by their headings."""
    found, header = [], []
    for line in page.splitlines():
        words = line.strip("| ").split(" | ")
        if words[0] == "configuration":
            header = words
        elif line.startswith("| ") and words[0] == name:
            found.append(dict(zip(header, words, strict=True)))
    return found
