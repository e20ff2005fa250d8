"""`ddptrace capture --profiler nsys`: nsys is a script here, CUDA writes down what it is told."""

import json
import os
import sqlite3
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest
from nsys_install import fake_nsys

from ddptrace_capture import launch, nsys_job, nsys_rank
from ddptrace_capture.options import Options, parse
from ddptrace_capture.parts import NsysRecording
from ddptrace_capture.rank import Rank
from ddptrace_capture.schedule import plan

RANK = Rank(1, 2, 1, None, "here", 5, 1, True, "H200", "nccl")


@pytest.fixture
def cuda(monkeypatch):
    """Return what a torch without a GPU is told to do, in order."""
    told = []
    torch = types.ModuleType("torch")
    profiler = types.SimpleNamespace(
        cudaProfilerStart=lambda: told.append("range opens"),
        cudaProfilerStop=lambda: told.append("range closes"),
    )
    event = types.SimpleNamespace(record=lambda: None, elapsed_time=lambda _: 2.5)
    torch.cuda = types.SimpleNamespace(
        synchronize=lambda: told.append("waits"),
        cudart=lambda: profiler,
        Event=lambda **_: event,
        nvtx=types.SimpleNamespace(
            range_push=lambda name: told.append(f"({name.split(' utc_ns=')[0]}"),
            range_pop=lambda: told.append(")"),
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    return told


def test_steps_are_ranges_inside_the_capture_range_after_the_ranks_own_mark(cuda):
    recording = NsysRecording(RANK)
    recording.start(22)
    recording.tick(last=False)
    recording.tick(last=True)
    recorded = recording.stop()
    assert cuda == [
        "waits", "range opens", "(ddptrace rank=1 world_size=2 local_rank=1 host=here", ")",
        "(ProfilerStep#22", ")", "(ProfilerStep#23", ")", "waits", "waits", "range closes",
    ]  # fmt: skip
    assert (recorded.file, recorded.part) == ("rank1.sqlite", "full")
    assert ([mark.step for mark in recorded.marks], recorded.step_ns) == ([22, 23], [2500000] * 2)


def test_the_mark_of_a_rank_tells_its_gpu_where_torch_does(cuda):
    NsysRecording(replace(RANK, gpu="23d2-f0")).start(22)
    assert cuda[2] == "(ddptrace rank=1 world_size=2 local_rank=1 host=here gpu=23d2-f0"


def test_a_step_that_did_not_end_leaves_its_range_open(cuda):
    recording = NsysRecording(RANK)
    recording.start(22)
    assert recording.stop() is None
    assert cuda[-3:] == ["(ProfilerStep#22", "waits", "range closes"]
    recording.abandon()
    assert cuda.count("range closes") == 1


def test_with_nsys_one_more_step_goes_by_before_the_range_closes():
    phases = plan(Options(output="", profiler="nsys"), ("full",))
    assert [phase.kind for phase in phases] == ["warmup", "timed", "prepare", "record", "linger"]
    assert (phases[-1].first, phases[-1].end) == (25, 26)


@pytest.mark.parametrize(
    ("command", "each_rank"),
    [
        ("torchrun --nproc-per-node 2 train.py", True),
        ("/usr/bin/torchrun train.py", True),
        ("python -m torch.distributed.run train.py", True),
        ("accelerate launch train.py", True),
        ("python -m accelerate.commands.launch train.py", True),
        ("python -m accelerate.commands.accelerate_cli launch train.py", True),
        ("python -m deepspeed.launcher.runner train.py", True),
        ("python /env/lib/torch/distributed/run.py train.py", True),
        ("python train.py", False),
        ("python -m commands.launch", False),
        ("python launch.py", False),
        ("python torchrunner.py", False),
        ("mpirun -n 2 python train.py", False),
    ],
)
def test_the_ranks_of_a_launcher_get_an_nsys_each(command, each_rank):
    assert nsys_rank.starts_ranks(command.split()) is each_rank


SHOW = 'echo "noise of nsys"; shift; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"'


def under_nsys(folder, code, **environment):
    """Run Python code as a rank of a capture with an nsys that talks and runs the program."""
    (folder / ".capture").mkdir()
    options = Options(
        output=str(folder), profiler="nsys", nsys=str(fake_nsys(folder, then=SHOW)),
        nsys_each_rank=True, ranks="0",
    )  # fmt: skip
    bootstrap = str(Path(nsys_rank.__file__).parent / "bootstrap")
    told = {"DDPTRACE_CAPTURE": options.to_text(), "PYTHONPATH": bootstrap, **environment}
    return subprocess.run(
        [sys.executable, "-c", code, "a b"],
        capture_output=True, text=True, check=False, env={**os.environ, **told},
    )  # fmt: skip


def test_a_rank_runs_under_nsys_once_and_its_output_is_its_own(tmp_path):
    code = (
        "import subprocess, sys; print(sys.argv[1:], flush=True)\n"
        "subprocess.run([sys.executable, '-c', 'print(1)'])\n"  # a child is no rank
        "sys.exit(7)"
    )
    done = under_nsys(tmp_path, code, RANK="0", LOCAL_RANK="0")
    assert (done.stdout, done.returncode) == ("['a b']\n1\n", 7)
    assert done.stderr.count("noise of nsys") == 1


@pytest.mark.parametrize("environment", [{}, {"RANK": "1"}, {"RANK": "x"}])
def test_what_is_no_rank_or_not_wanted_runs_without_nsys(tmp_path, environment):
    done = under_nsys(tmp_path, "print('ran')", **environment)
    assert (done.stdout, done.stderr) == ("ran\n", "")


EXPORT = """
for word in "$@"; do case "$word" in --output=*) target="${word#--output=}";; esac; done
cp FILE "$target"
"""


@pytest.fixture
def run(tmp_path):
    """Return options and records of a job whose nsys exports one small file for any report."""
    exported = tmp_path / "exported.sqlite"
    with sqlite3.connect(exported) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "INSERT INTO StringIds VALUES (1, 'kernel'), (2, 'HF_TOKEN=planted');"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, demangledName INT);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1);"
            "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('HF_TOKEN', 'planted');"
        )
    database.close()
    folder = tmp_path / "run"
    (folder / ".capture").mkdir(parents=True)
    program = fake_nsys(tmp_path, then=EXPORT.replace("FILE", str(exported)))
    options = Options(output=str(folder), profiler="nsys", nsys=str(program), nsys_each_rank=True)
    records = [
        {"rank": {"rank": rank}, "problem": None, "parts": [{"file": f"rank{rank}.sqlite"}]}
        for rank in range(2)
    ]
    return folder, options, records


def report(folder, name):
    (folder / f"{name}.nsys-rep").write_bytes(b"report, with HF_TOKEN=planted")


def test_each_ranks_report_becomes_a_clean_file_and_goes(run):
    folder, options, records = run
    report(folder, "rank0"), report(folder, "rank1")
    assert nsys_job.collect(options, records) is None
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    assert names == ["rank0.sqlite", "rank1.sqlite"]
    assert b"planted" not in (folder / "rank0.sqlite").read_bytes()


def test_a_report_may_be_kept(run):
    folder, options, records = run
    report(folder, "rank0")
    kept = types.SimpleNamespace(**json.loads(options.to_text()) | {"keep_nsys_rep": True})
    assert nsys_job.collect(kept, records[:1]) is None
    assert (folder / "rank0.nsys-rep").is_file()


def test_one_report_of_the_whole_job_is_the_file_of_all_its_ranks(run):
    folder, options, records = run
    report(folder, "job")
    options = Options(**json.loads(options.to_text()) | {"nsys_each_rank": False})
    assert nsys_job.collect(options, records) is None
    assert [record["parts"][0]["file"] for record in records] == ["ranks.sqlite"] * 2
    assert (folder / "ranks.sqlite").is_file()


def test_a_rank_without_a_report_is_told_and_the_other_is_kept(run):
    folder, options, records = run
    report(folder, "rank1")
    (folder / "rank0.qdstrm").write_bytes(b"collected")
    problem = nsys_job.collect(options, records)
    assert "only rank0.qdstrm is left" in problem
    assert [record["problem"] for record in records] == [problem, None]
    assert (folder / "rank0.qdstrm").is_file()
    assert (folder / "rank1.sqlite").is_file()


def test_a_file_without_kernels_is_not_kept_but_its_report_is(run, tmp_path):
    folder, options, records = run
    with sqlite3.connect(tmp_path / "exported.sqlite") as database:
        database.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
    database.close()
    report(folder, "rank0")
    assert "rank0.sqlite" in nsys_job.collect(options, records[:1])
    names = {path.name for path in folder.iterdir() if path.is_file()}
    assert names == {"rank0.nsys-rep"}


def test_both_needs_an_nsys_before_anything_runs(tmp_path):
    words = ["-m", "ddptrace_capture", "--profiler", "both", "--nsys", str(tmp_path), "--"]
    command = [sys.executable, *words, sys.executable, "-c", "print('ran')"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no nsys there" in done.stderr


@pytest.mark.parametrize(("code", "runs"), [(0, ["torch", "nsys"]), (130, ["torch"])])
def test_both_are_two_runs_unless_the_first_failed(tmp_path, monkeypatch, code, runs):
    program = fake_nsys(tmp_path, then=SHOW)
    words = ["--profiler", "both", "--nsys", str(program), "-o", "run", "--", sys.executable]
    seen = []

    def one_run(options, _):
        assert options.output == str(Path("run") / options.profiler)
        seen.append(options.profiler)
        return code

    monkeypatch.setattr(launch, "_one_run", one_run)
    assert launch.capture(parse(words)) == code
    assert seen == runs


@pytest.mark.parametrize(("name", "code"), [("kernel", 0), ("kernel of planted-secret", 2)])
def test_scrub_says_what_it_removed_and_fails_where_a_secret_is_left(tmp_path, name, code):
    path = tmp_path / "rank0.sqlite"
    with sqlite3.connect(path) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            f"INSERT INTO StringIds VALUES (1, '{name}');"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, demangledName INT);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 2, 1);"
            "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);"
            "CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT, value TEXT);"
            "INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('E', 'A=1;HF_TOKEN=planted-secret');"
        )
    database.close()
    command = [sys.executable, "-m", "ddptrace_capture", "--scrub", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.startswith(f"{path}: removed 1 settings and variables")
    assert ("HF_TOKEN" in done.stdout) is (code == 2)
