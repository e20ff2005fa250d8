"""What `ddptrace doctor` finds on machines of every kind, each stated in a few lines."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
from nsys_install import fake_importer, fake_nsys

from ddptrace_capture import doctor, machine, nsys

DRIVER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build"


class Machine:
    """A machine: what it has is set on it, and shows in torch, in /proc and in nsys."""

    def __init__(self, monkeypatch, folder):
        self._patch, self.folder = monkeypatch.setattr, folder
        self._patch(nsys, "_ROOT", folder / "root")
        monkeypatch.setenv("PATH", str(folder / "path"))
        self._patch(machine, "_PROC", folder / "proc")
        self._patch(machine, "driver_cuda", lambda: None)
        self._patch(os, "geteuid", lambda: 1000)
        self.torch(cuda=None)

    def torch(self, cuda="13.0", gloo=True, gpus=("NVIDIA H200",), records=True, supports=True):
        activities = ["cpu", "cuda"] if supports else ["cpu"]
        fake = SimpleNamespace(
            __version__="2.11.0",
            version=SimpleNamespace(cuda=cuda),
            distributed=SimpleNamespace(
                is_available=lambda: True,
                is_gloo_available=lambda: gloo,
                is_nccl_available=lambda: cuda is not None,
            ),
            cuda=SimpleNamespace(
                is_available=lambda: bool(cuda and gpus),
                device_count=lambda: len(gpus),
                get_device_name=lambda index: gpus[index],
                nccl=SimpleNamespace(version=lambda: (2, 28, 9)),
            ),
            profiler=SimpleNamespace(
                ProfilerActivity=SimpleNamespace(CUDA="cuda"),
                supported_activities=lambda: activities,
            ),
        )
        self._patch(doctor, "_imported", lambda name: fake)
        self._patch(doctor, "_records_a_kernel", lambda torch: records)

    def without_torch(self, error):
        self._patch(doctor, "_imported", lambda name: error)

    def driver(self, cuda=(13, 0), only_administrators="0"):
        self._patch(machine, "driver_cuda", lambda: cuda)
        for name, text in {
            "version": DRIVER,
            "params": f"A: 1\nRmProfilingAdminOnly: {only_administrators}\n",
        }.items():
            path = self.folder / "proc/driver/nvidia" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def nsys(self, lacking=None, cupti=None):
        home = self.folder / "root/opt/nvidia/nsight-systems/2025.3.2"
        program = fake_nsys(home)
        fake_importer(home, lacking)
        if cupti:
            (program.parent / f"libcupti.so.{cupti}").touch()

    def free(self, count):
        self._patch(machine, "free_bytes", lambda folder: count)

    def checks(self, name=None):
        found = doctor.check_machine(folder=self.folder)
        return [check for check in found if name in (None, check.name)]

    def check(self, name):
        (only,) = self.checks(name)
        return only

    def recorders(self):
        return doctor.recorders(self.checks())


@pytest.fixture
def here(monkeypatch, tmp_path):
    return Machine(monkeypatch, tmp_path)


@pytest.fixture
def with_gpus(here):
    here.driver()
    here.torch(gpus=("NVIDIA H200", "NVIDIA H200"))
    return here


def test_a_machine_without_gpus_records_jobs_on_cpus(here):
    assert here.recorders() == ["torch.profiler (CPUs, gloo)"]
    assert here.check("torch").detail == "2.11.0, built for CPUs only"
    assert here.check("driver").state == "note"
    assert not here.checks("GPUs") + here.checks("CUPTI") + here.checks("NCCL")


def test_without_gloo_a_machine_without_gpus_records_nothing(here):
    here.torch(cuda=None, gloo=False)
    assert here.check("gloo").state == "missing"
    assert here.recorders() == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ModuleNotFoundError("No module named 'torch'"), "not installed for "),
        (
            OSError("libcudart.so.13: cannot open\nshared object"),
            "libcudart.so.13: cannot open sha",
        ),
        (ImportError(), "cannot be imported: ImportError"),
    ],
)
def test_without_torch_nothing_records_and_the_other_checks_are_made(here, error, told):
    here.without_torch(error)
    check = here.check("torch")
    assert check.state == "missing"
    assert told in check.detail
    assert "pip install torch" in check.remedy
    assert here.recorders() == []
    assert here.check("Python").state == here.check("disk").state == "ok"


def test_a_machine_with_gpus_is_told_in_full(with_gpus):
    with_gpus.nsys()
    assert [(check.name, check.state) for check in with_gpus.checks()] == [
        (name, "ok")
        for name in ("Python", "torch", "gloo", "driver", "GPUs", "NCCL", "CUPTI", "nsys")
    ] + [("permissions", "ok"), ("disk", "ok")]
    assert with_gpus.check("driver").detail == "NVIDIA 580.65.06, serves CUDA 13.0"
    assert with_gpus.check("GPUs").detail == "2 NVIDIA H200"
    assert with_gpus.check("NCCL").detail == "2.28.9"
    assert with_gpus.check("nsys").detail.startswith("2025.3.2.474 at ")
    assert with_gpus.recorders() == ["torch.profiler (GPUs)", "nsys"]


def test_gpus_need_cupti_or_nsys_and_gloo_is_no_way_to_record_them(with_gpus):
    assert with_gpus.recorders() == ["torch.profiler (GPUs)"]
    with_gpus.torch(records=False)
    assert with_gpus.recorders() == []
    with_gpus.nsys()
    assert with_gpus.recorders() == ["nsys"]


def test_a_torch_for_cpus_beside_gpus_is_told_and_records_jobs_on_cpus(here):
    here.driver()
    assert here.check("GPUs").state == "missing"
    assert "for CUDA" in here.check("GPUs").remedy
    assert here.recorders() == ["torch.profiler (CPUs, gloo)"]


def test_gpus_that_torch_does_not_see_are_told(here):
    here.driver()
    here.torch(gpus=())
    assert here.check("GPUs").state == "missing"
    assert "CUDA_VISIBLE_DEVICES" in here.check("GPUs").remedy


def test_a_torch_without_a_gpu_profiler_is_told(with_gpus):
    with_gpus.torch(supports=False)
    assert with_gpus.check("CUPTI").detail == "this torch.profiler cannot record GPUs"


@pytest.mark.parametrize(
    ("only_administrators", "user", "remedy"),
    [
        ("1", 1000, "NVreg_RestrictProfilingToAdminUsers=0"),
        ("1", 0, "other profilers"),
        ("0", 1000, "other profilers"),
    ],
)
def test_a_kernel_that_is_not_recorded_is_a_matter_of_permission_or_of_another_profiler(
    with_gpus, monkeypatch, only_administrators, user, remedy
):
    with_gpus.driver(only_administrators=only_administrators)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    with_gpus.torch(records=False)
    assert with_gpus.check("CUPTI").state == "missing"
    assert remedy in with_gpus.check("CUPTI").remedy
    expected = "note" if (only_administrators, user) == ("1", 1000) else "ok"
    assert with_gpus.check("permissions").state == expected


def test_without_nsys_its_place_is_told_and_torch_profiler_still_records(with_gpus):
    check = with_gpus.check("nsys")
    assert check.state == "missing"
    assert "torch.profiler does without" in check.detail
    assert check.remedy.startswith("install Nsight Systems (developer.nvidia.com/nsight-systems")


def test_an_nsys_that_lacks_a_library_does_not_record(with_gpus):
    with_gpus.nsys(lacking="libdw.so.1")
    check = with_gpus.check("nsys")
    assert check.state == "missing"
    assert check.detail.endswith("cannot make a report without libdw.so.1")
    assert check.remedy.startswith("apt-get install libdw1")
    assert with_gpus.recorders() == ["torch.profiler (GPUs)"]


@pytest.mark.parametrize(("cupti", "is_older"), [("12.9", True), ("13.0", False), ("13.1", False)])
def test_an_nsys_older_than_the_driver_is_noted(with_gpus, cupti, is_older):
    with_gpus.nsys(cupti=cupti)
    notes = [check for check in with_gpus.checks("nsys") if check.state == "note"]
    assert bool(notes) == is_older
    if is_older:
        assert "the driver for CUDA 13.0 is newer than nsys 2025.3.2.474" in notes[0].detail
        assert notes[0].remedy.startswith("install a newer Nsight Systems")


def test_the_kernels_limit_on_sampling_is_only_noted(here):
    path = here.folder / "proc/sys/kernel/perf_event_paranoid"
    path.parent.mkdir(parents=True)
    for level, states in {"2": [], "-1": [], "4": ["note"]}.items():
        path.write_text(f"{level}\n", encoding="utf-8")
        assert [check.state for check in here.checks("permissions")] == states


def test_room_on_the_disk_is_in_units_of_a_thousand_millions(here):
    here.free(2_000_000_000)
    assert here.check("disk").detail.startswith(f"2.0 GB free in {here.folder};")
    assert here.check("disk").state == "ok"
    here.free(1_999_999_999)
    assert here.check("disk").state == "note"
    here.nsys()
    assert here.checks("nsys")[-1].remedy == "set TMPDIR to a folder on a larger disk"


def test_the_disk_of_a_folder_that_is_yet_to_be_made_is_that_of_the_one_above(here):
    above, here.folder = here.folder, here.folder / "a/b"
    assert f"free in {above};" in here.check("disk").detail


def test_a_folder_that_cannot_be_written_is_told(here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert here.check("disk").state == "missing"
    assert here.check("disk").remedy == "choose a folder with -o DIR"


def test_a_check_that_breaks_is_told_and_the_others_are_made(with_gpus, monkeypatch):
    def breaks():
        raise RuntimeError("CUDA error:\nno such device")

    monkeypatch.setattr(machine, "driver_version", breaks)
    assert with_gpus.check("driver").detail == "cannot be looked at: CUDA error: no such device"
    assert with_gpus.check("NCCL").state == "ok"


def test_each_line_begins_with_its_state_and_each_remedy_stands_below_its_check(with_gpus):
    with_gpus.nsys(lacking="libdw.so.1")
    lines = doctor.render(with_gpus.checks()).splitlines()
    place = lines.index(next(line for line in lines if "without libdw.so.1" in line))
    assert lines[place].startswith("missing  nsys         /")
    assert lines[place + 1].startswith(f"{' ' * len('missing  permissions  ')}-> apt-get install")
    assert lines[-2:] == ["", "This machine can record with torch.profiler (GPUs)."]
    described = [line for line in lines[:-2] if not line.startswith(" ")]
    assert {line.split()[0] for line in described} == {"ok", "missing"}
    assert {line.index(line.split()[1]) for line in described} == {9}


def test_the_exit_code_says_whether_anything_can_record(here, capsys):
    assert doctor.main(["-o", str(here.folder)]) == 0
    assert "This machine can record with torch.profiler (CPUs, gloo)." in capsys.readouterr().out
    here.without_torch(ModuleNotFoundError("torch"))
    assert doctor.main([]) == 2
    assert "This machine can record with nothing." in capsys.readouterr().out


def test_the_nsys_to_look_at_can_be_given(here, capsys):
    program = fake_nsys(here.folder / "mine")
    doctor.main(["--nsys", str(program)])
    assert f"2025.3.2.474 at {program}" in capsys.readouterr().out


@pytest.mark.torch
def test_the_torch_of_this_machine_is_looked_at(capsys):
    torch = pytest.importorskip("torch")
    code = doctor.main([])
    told = capsys.readouterr().out
    assert f"{torch.__version__}, built for " in told
    assert f"{'.'.join(map(str, sys.version_info[:3]))} at " in told
    assert code == (2 if "with nothing" in told else 0)
