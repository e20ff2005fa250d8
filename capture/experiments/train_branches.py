"""Train the model of one row of the experiment, as a job to be recorded from outside.

torchrun --nproc-per-node 2 capture/experiments/train_branches.py --configuration 12x4-cap4-spin
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from branches import Place, build
from configurations import all_configurations, chosen


def main() -> int:
    """Train, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--configuration", required=True, help="its name, as in the tables")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--spin-cycles", type=int, default=10_000_000, help="of a branch's kernel")
    parser.add_argument("--shrink", type=int, default=1, help="divide all sizes by this")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        parser.error("one process for each rank is needed: start it with torchrun")
    try:
        rows = chosen(
            all_configurations(options.spin_cycles, options.shrink), [options.configuration]
        )
    except ValueError as error:
        parser.error(str(error))

    place = start()
    job = build(rows[0], place)
    for number in range(options.steps):
        job.step(number)
    place.meet()
    if place.rank == 0:
        sys.stdout.write(f"trained {options.steps} steps\n")
    dist.destroy_process_group()
    return 0


def start() -> Place:
    """Join the other ranks, each on its own GPU where there are any."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    control = dist.new_group(backend="gloo")
    return Place(dist.get_rank(), dist.get_world_size(), device, control)


if __name__ == "__main__":
    sys.exit(main())
