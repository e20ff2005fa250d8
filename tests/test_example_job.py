"""Every switch of the example job, trained for real by two gloo ranks, does what its name says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch
pytest.importorskip("torch")

EXAMPLES = Path(__file__).parent.parent / "capture" / "examples"
STEPS = 3
LAYERS = 2
SWITCHES = [
    "late-compute",
    "late-input",
    "late-host",
    "input-bound",
    "slow-link",
    "slow-link-one",
    "one-bucket",
    "tiny-buckets",
    "late-first-parameter",
    "fine-parameters",
    "item-in-forward",
    "long-last-backward",
    "accumulate",
    "accumulate-no-sync",
    "hook-fp16",
    "hook-forgets-division",
    "hook-same-stream",
    "hook-no-wait",
    "gradient-check",
    "unused-dynamic",
    "unused-static",
    "large-buffer",
    "long-layer",
    "no-bucket-view",
    "compile",
    "fsdp",
]
REFUSED = {
    "--switch late": "there is no 'late'",
    "--switch one-bucket,tiny-buckets": "a job has one bucket or many",
    "--switch fsdp --switch gradient-check": "there is no DDP to change",
    "--switch slow-link,hook-fp16": "DDP takes one",
    "--switch hook-no-wait,hook-fp16": "hook-fp16 and hook-no-wait do not go together: DDP takes",
    "--switch hook-no-wait,gradient-check": "the check would find what is planted",
    "--switch one-bucket --bucket-cap-mb 3": "--bucket-cap-mb",
    "--share-gpu": "--share-gpu needs a GPU",
    "--heads 3": "--width 128 is no multiple of --heads 3",
}

# Trains with each switch in one process group, and writes down what each rank saw of it.
JOURNAL = """
import contextlib, io, json, sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

examples, output, layers, steps, refused = sys.argv[1:]
sys.path.insert(0, examples)
import delays, link, options, switches, train_ddp
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile

SMALL = f"--device cpu --steps {steps} --layers {layers} --width 32 --heads 2 --context 16"
SMALL = f"{SMALL} --vocabulary 64 --batch-size 2"
COUNTED = {"plain", "accumulate", "accumulate-no-sync", "item-in-forward", "fsdp", "large-buffer"}
seen = {}


def gradients_ready():
    model = seen.get("model")
    return model is not None and all(each.grad is not None for each in model.parameters())


def instead_of(delay):
    return lambda *_: seen["delays"].append([delay, gradients_ready()])


delays.compute = instead_of("compute")
delays.keep_python_busy = instead_of("python")
delays.time = SimpleNamespace(sleep=instead_of("sleep"))


def all_reduce(tensor, *arguments, untouched=dist.all_reduce, **options):
    seen["hooks_sent"].append([tensor.numel(), str(tensor.dtype)])
    return untouched(tensor, *arguments, **options)


def parallel(*arguments, untouched=train_ddp.parallel):
    seen["model"] = untouched(*arguments)
    return seen["model"]


def stepped(optimizer, *_):
    seen["optimizer_steps"] += 1
    seen["states"] = sorted({int(state["step"]) for state in optimizer.state.values()})


dist.all_reduce = all_reduce
train_ddp.parallel = parallel
register_optimizer_step_post_hook(stepped)


def same_on_all_ranks(model):
    own = torch.cat([each.detach().flatten() for each in model.parameters()])
    of_rank_0 = own.clone()
    dist.broadcast(of_rank_0, 0)
    return torch.equal(own, of_rank_0)


def buckets(model):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    laid_out = model.reducer._get_zeros_like_grad_buckets()
    return [[names[id(each)] for each in bucket.parameters()] for bucket in laid_out]


def counts_of(watch):
    recording = Path(output, f"{dist.get_rank()}.trace.json")
    watch.export_chrome_trace(str(recording))
    return Counter(event["name"] for event in json.loads(recording.read_text())["traceEvents"])


def facts_of(name, arguments):
    seen.clear()
    seen.update(delays=[], hooks_sent=[], optimizer_steps=0, states=[], error=None)
    watch = profile(activities=[ProfilerActivity.CPU]) if name in COUNTED else None
    with watch or contextlib.nullcontext():
        try:
            train_ddp.train(options.parse([*SMALL.split(), *arguments]), torch.device("cpu"))
        except train_ddp.GradientError as error:
            seen["error"] = str(error)
    model = seen.pop("model")
    facts = {
        **seen,
        "counts": counts_of(watch) if watch else None,
        "parameters": len(list(model.parameters())),
        "elements": sum(each.numel() for each in model.parameters()),
    }
    if name != "fsdp":
        facts["ddp"] = model._get_ddp_logging_data()
        facts["buckets"] = buckets(model)
        facts["same"] = same_on_all_ranks(model)
    return facts


def refusal(arguments):
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        options.parse(["--device", "cpu", *arguments.split()])
    return said.getvalue()


dist.init_process_group("gloo")
small_buckets = ["--bucket-cap-mb", "0.04"]
runs = {"plain": small_buckets}
runs |= {name: ["--switch", name, *small_buckets] for name in switches.SWITCHES}
# As wide a model would fill several of the buckets that --size chooses.
wide = ["--width", "128"]
runs |= {name: ["--switch", name, *wide] for name in ("one-bucket", "tiny-buckets")}
runs |= {"overflow": ["--grad-scaler", "1e30"]}
hooks = ("slow-link", "slow-link-one", "hook-fp16", "hook-same-stream")
runs |= {f"checked {name}": ["--switch", f"gradient-check,{name}"] for name in hooks}
facts = {name: facts_of(name, arguments) for name, arguments in runs.items()}
facts["refused"] = {each: refusal(each) for each in json.loads(refused)}
facts["nccl"] = {
    f"{name} {share} {rank}": link.nccl_environment({name}, rank=rank, ranks=4, share_gpu=share)
    for name in ("gradient-check", "slow-link", "slow-link-one")
    for share in (False, True)
    for rank in range(4)
}
Path(output, f"{dist.get_rank()}.json").write_text(json.dumps(facts))
dist.destroy_process_group()
"""


def torchrun(*command, **environment):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.run(
        [*launcher, "--nproc-per-node", "2", *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example_job")
    journal = folder / "journal.py"
    journal.write_text(JOURNAL)
    # An empty PATH: without a compiler torch.compile is a matter of seconds.
    done = torchrun(journal, EXAMPLES, folder, LAYERS, STEPS, json.dumps(list(REFUSED)), PATH="")
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def plain(ranks):
    return ranks[0]["plain"]


@pytest.mark.parametrize("name", [*SWITCHES, "plain"])
def test_every_switch_trains_to_the_end_and_replicas_stay_equal(ranks, name):
    for rank in ranks:
        facts = rank[name]
        if name == "hook-forgets-division":
            assert facts["error"]
            continue
        assert facts["error"] is None
        assert facts["optimizer_steps"] == STEPS
        if name != "hook-no-wait":  # whose optimizer may be faster than its all-reduce
            assert facts.get("same", name == "fsdp")


def test_there_is_no_switch_beside_those_named_here(ranks):
    others = {"plain", "overflow", "refused", "nccl"}
    assert {name for name in ranks[0] if " " not in name} - others == set(SWITCHES)


@pytest.mark.parametrize(
    ("name", "delay"),
    [("late-compute", "compute"), ("late-host", "python"), ("late-input", "sleep")],
)
def test_a_late_switch_delays_the_last_rank_alone_once_a_step(ranks, name, delay):
    assert ranks[0][name]["delays"] == []
    assert ranks[1][name]["delays"] == [[delay, False]] * STEPS


def test_a_healthy_job_is_not_delayed_and_input_bound_delays_all(ranks):
    for rank in ranks:
        assert rank["plain"]["delays"] == []
        assert rank["input-bound"]["delays"] == [["sleep", False]] * STEPS


def test_the_long_backward_computation_starts_when_every_gradient_is_ready(ranks):
    for rank in ranks:
        assert rank["long-last-backward"]["delays"] == [["compute", True]] * STEPS


def test_the_long_layer_computes_while_gradients_of_others_are_awaited(ranks):
    for rank in ranks:
        assert rank["long-layer"]["delays"] == [["compute", False]] * STEPS


def test_the_large_buffer_is_broadcast_in_each_step(ranks, plain):
    def broadcasts(facts):
        return facts["counts"]["gloo:broadcast"]

    # The first forward pass comes right behind the one of DDP's own at the start.
    assert broadcasts(ranks[0]["large-buffer"]) - broadcasts(plain) >= STEPS - 1


def test_bucket_switches_change_how_many_buckets_there_are(ranks, plain):
    assert len(plain["buckets"]) > 1
    assert len(ranks[0]["one-bucket"]["buckets"]) == 1
    assert ranks[0]["tiny-buckets"]["ddp"]["bucket_cap_bytes"] == int(0.05 * 2**20)
    assert len(ranks[0]["tiny-buckets"]["buckets"]) > 1


def test_the_late_parameter_is_in_the_first_bucket_and_stays_there(ranks, plain):
    late = ranks[0]["late-first-parameter"]
    assert "module.token_embedding.weight" in plain["buckets"][-1]
    assert "module.token_embedding.weight" in late["buckets"][0]
    assert len(late["buckets"]) > 1


def test_only_without_no_sync_each_micro_step_all_reduces(ranks, plain):
    def all_reduces(facts):
        return facts["counts"]["gloo:all_reduce"]

    buckets = len(plain["buckets"])
    # Of the first backward pass DDP makes one bucket.
    assert all_reduces(plain) == 1 + (STEPS - 1) * buckets
    assert all_reduces(ranks[0]["accumulate"]) == 1 + (4 * STEPS - 1) * buckets
    assert all_reduces(ranks[0]["accumulate-no-sync"]) == all_reduces(plain)


def test_slow_links_carry_more_bytes_and_the_fp16_hook_fewer(ranks, plain):
    def first_step(name, messages=1):
        return ranks[1][name]["hooks_sent"][:messages]

    elements = plain["elements"]
    assert plain["hooks_sent"] == []
    assert first_step("slow-link") == [[8 * elements, "torch.float32"]]
    others, own = first_step("slow-link-one", 2)
    assert (others[0], own[0]) == (8 * elements, elements)
    assert first_step("hook-fp16") == [[elements, "torch.float16"]]
    for name in ("hook-same-stream", "hook-no-wait"):
        assert first_step(name) == [[elements, "torch.float32"]]


def test_nccl_is_slowed_on_all_ranks_or_on_the_last_alone(ranks):
    def rank_settings(name, share):
        return [ranks[0]["nccl"][f"{name} {share} {rank}"] for rank in range(4)]

    assert rank_settings("gradient-check", False) == [{}] * 4
    assert [settings["NCCL_P2P_DISABLE"] for settings in rank_settings("slow-link", False)] == [
        "1"
    ] * 4
    one = rank_settings("slow-link-one", False)
    assert [settings.get("NCCL_HOSTID") for settings in one] == [None, None, None, "far"]
    assert not any("NCCL_P2P_DISABLE" in settings for settings in one)
    for name, narrow in [
        ("gradient-check", [False] * 4),
        ("slow-link", [True] * 4),
        ("slow-link-one", [False, False, False, True]),
    ]:
        shared = rank_settings(name, True)
        assert ["NCCL_SOCKET_RCVBUF" in settings for settings in shared] == narrow
        assert len({settings["NCCL_HOSTID"] for settings in shared}) == 4


def test_a_forgotten_division_is_found_and_a_healthy_job_passes_the_check(ranks):
    for rank in ranks:
        error = rank["hook-forgets-division"]["error"]
        assert "not the average over the 2 ranks, but 2.00 times as large" in error
        assert rank["hook-forgets-division"]["optimizer_steps"] == 0
        assert rank["gradient-check"]["error"] is None
        assert [1, "torch.float32"] in rank["gradient-check"]["hooks_sent"]


@pytest.mark.parametrize("hook", ["slow-link", "slow-link-one", "hook-fp16", "hook-same-stream"])
def test_the_other_hooks_average(ranks, hook):
    for rank in ranks:
        assert rank[f"checked {hook}"]["error"] is None


def test_the_host_reads_a_value_after_every_layer(ranks, plain):
    reads = ranks[0]["item-in-forward"]["counts"]["aten::item"]
    assert reads - plain["counts"]["aten::item"] == LAYERS * STEPS


def test_fine_parameters_are_many_and_as_large_together(ranks, plain):
    fine = ranks[0]["fine-parameters"]
    assert fine["parameters"] > 10 * plain["parameters"]
    assert fine["elements"] == plain["elements"]


def test_unused_parameters_are_left_out_of_some_steps_or_of_all(ranks, plain):
    dynamic, static = ranks[0]["unused-dynamic"], ranks[0]["unused-static"]
    assert dynamic["ddp"]["find_unused_parameters"] == 1
    assert dynamic["states"] == [STEPS - 1, STEPS]  # the last layer missed the second step
    assert static["ddp"]["static_graph"] == 1
    assert static["parameters"] == plain["parameters"] + 2


def test_each_way_to_wrap_the_model_shows(ranks, plain):
    assert plain["ddp"]["gradient_as_bucket_view"] == 1
    assert ranks[0]["no-bucket-view"]["ddp"]["gradient_as_bucket_view"] == 0
    assert ranks[0]["compile"]["buckets"][0][0].startswith("module._orig_mod.")
    gathers = "gloo:all_gather"
    # Every layer's parameters are gathered in each step; DDP gathers once, at the start.
    assert ranks[0]["fsdp"]["counts"][gathers] >= LAYERS * STEPS > plain["counts"][gathers]


def test_a_loss_scale_that_overflows_skips_the_steps(ranks):
    for rank in ranks:
        assert rank["overflow"]["optimizer_steps"] == 0
        assert rank["overflow"]["same"]


def test_senseless_combinations_are_refused_in_one_line(ranks):
    for arguments, reason in REFUSED.items():
        said = ranks[0]["refused"][arguments]
        assert reason in said, arguments
        assert len(said.splitlines()) == 2, "the usage and one line"


def test_rank_0_prints_and_the_loss_falls():
    done = torchrun(EXAMPLES / "train_ddp.py", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    *steps, last = done.stdout.splitlines()
    assert last == "trained 40 steps"
    lines = [re.fullmatch(r"step (\d+)  loss (\d+\.\d\d)  \d+\.\d ms", line) for line in steps]
    assert [int(line[1]) for line in lines] == [10, 20, 30, 40]
    assert float(lines[-1][2]) < float(lines[0][2])


def test_wrong_gradients_end_the_job_with_code_3_and_one_line():
    job = [EXAMPLES / "train_ddp.py", "--device", "cpu", "--switch", "hook-forgets-division"]
    done = torchrun(*job, "--steps", "1")
    assert done.returncode != 0
    assert done.stderr.count("gradient check failed") == 1
    assert "(exitcode: 3)" in done.stderr
    assert "Traceback" not in done.stderr.split("failed (exitcode: 3)")[0]
    assert done.stdout == ""
