"""The command line of train_ddp.py."""

import argparse
import os
from collections.abc import Sequence
from typing import NamedTuple

import torch
from switches import SLOW_LINKS, SWITCHES, conflict, help_table


class Size(NamedTuple):
    """What `--size` chooses; each of these is an option of its own too."""

    layers: int
    width: int
    heads: int
    context: int
    vocabulary: int
    batch_size: int  # of each rank
    bucket_cap_mb: float | None  # None leaves it to DDP
    precision: str
    delay_ms: float


SIZES = {
    "tiny": Size(4, 128, 4, 64, 256, 4, 0.5, "float32", 20.0),
    "small": Size(4, 256, 4, 256, 1024, 128, 2.0, "float32", 40.0),
    "large": Size(10, 1024, 8, 1024, 8192, 8, None, "bfloat16", 40.0),
}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line, or leave with one line that says what is wrong with it."""
    parser = argparse.ArgumentParser(
        usage="torchrun --nproc-per-node N train_ddp.py [options]",
        description="Train a small GPT with DistributedDataParallel.",
        epilog=help_table(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_options(parser)
    size = parser.parse_known_args(arguments)[0].size
    parser.set_defaults(**SIZES[size]._asdict())
    options = parser.parse_args(arguments)
    options.switches = set(options.switches)
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    if problem := problem_of(options):
        parser.error(problem)
    return options


def add_options(parser: argparse.ArgumentParser) -> None:
    """Describe every option."""
    add = parser.add_argument
    add("--steps", type=int, default=40)
    add("--seed", type=int, default=0)
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    add("--share-gpu", action="store_true", help="all ranks use cuda:0 and talk over TCP")
    add(
        "--grad-scaler",
        nargs="?",
        type=float,
        const=65536.0,
        metavar="SCALE",
        help="train in float16, the loss scaled by this at first (65536); steps may be skipped",
    )
    add(
        "--switch",
        dest="switches",
        metavar="NAME[,NAME]",
        action="extend",
        type=switch_names,
        default=[],
        help="plant a bottleneck of the table below; may be repeated",
    )
    add(
        "--size",
        choices=SIZES,
        default="tiny",
        help="tiny: two CPU cores; small: two ranks on one GPU; large: a GPU for each rank",
    )
    of_size = parser.add_argument_group("what --size chooses, one by one", size_table())
    for name in ("layers", "width", "heads", "context", "vocabulary", "batch-size"):
        of_size.add_argument(f"--{name}", type=int)
    of_size.add_argument("--bucket-cap-mb", type=float)
    of_size.add_argument("--precision", choices=["float32", "bfloat16"])
    of_size.add_argument("--delay-ms", type=float, help="the length of a planted delay")


def size_table() -> str:
    """Return the sizes as lines for `--help`."""
    return "\n".join(
        f"{name}: " + ", ".join(f"{field} {value}" for field, value in size._asdict().items())
        for name, size in SIZES.items()
    )


def switch_names(text: str) -> list[str]:
    """Return the names in a comma-separated list."""
    names = text.split(",")
    for name in names:
        if name not in SWITCHES:
            raise argparse.ArgumentTypeError(f"there is no {name!r}; --help lists the switches")
    return names


def problem_of(options: argparse.Namespace) -> str | None:
    """Return why this command line cannot be run, or None."""
    if "RANK" not in os.environ:
        return "one process for each rank is needed: start it with torchrun"
    if options.width % options.heads:
        return f"--width {options.width} is no multiple of --heads {options.heads}"
    if {"one-bucket", "tiny-buckets"} & options.switches and (
        options.bucket_cap_mb != SIZES[options.size].bucket_cap_mb
    ):
        return "--bucket-cap-mb is what one-bucket and tiny-buckets set"
    if options.grad_scaler and "fsdp" in options.switches:
        return "--grad-scaler is made for DDP, not for fsdp"
    return device_problem(options) or conflict(options.switches, options.device == "cpu")


def device_problem(options: argparse.Namespace) -> str | None:
    """Return what is wrong with the devices that were asked for, or None."""
    if options.device == "cpu":
        return "--share-gpu needs a GPU" if options.share_gpu else None
    ranks, gpus = int(os.environ["LOCAL_WORLD_SIZE"]), torch.cuda.device_count()
    if gpus == 0:
        return "there is no GPU here: --device cpu"
    if ranks > gpus and not options.share_gpu:
        return f"{ranks} ranks and {gpus} GPU here: add --share-gpu or --device cpu"
    slow_link = SLOW_LINKS & options.switches
    if slow_link and options.share_gpu and torch.cuda.nccl.version() < (2, 27):
        return f"{min(slow_link)} on a shared GPU needs NCCL 2.27, which comes with PyTorch 2.8"
    return None
