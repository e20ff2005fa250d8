"""Which nsys runs, how, and what is said when it does not do its work; nsys is a script here."""

from __future__ import annotations

import sqlite3
import subprocess
from pathlib import Path

import pytest
from nsys_install import SAYS_ITS_VERSION, fake_importer, fake_nsys, script

from ddptrace_capture import machine, nsys, nsys_failures
from ddptrace_capture.errors import NsysError

KNOWN_TO_NSYS_2022 = {
    *("--trace", "--sample", "--cpuctxsw", "--cuda-graph-trace", "--capture-range"),
    *("--capture-range-end", "--wait", "--force-overwrite", "--output"),
}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A machine with nothing installed and nothing on the PATH but a shell's own tools."""
    monkeypatch.setattr(nsys, "_ROOT", tmp_path / "root")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path / "root"


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(machine, "driver_cuda", lambda: None)


def test_the_nsys_that_is_given_is_taken_before_any_other(root, tmp_path):
    script(tmp_path / "path/nsys", SAYS_ITS_VERSION.format("2026.1.1"))
    given = fake_nsys(tmp_path / "mine")
    assert nsys.find_nsys(str(given)) == given


@pytest.mark.parametrize("inside", ["", "host", "2025.3.1/host"])
def test_a_given_folder_is_that_of_nsight_systems_or_of_nsight_compute(root, tmp_path, inside):
    program = fake_nsys(tmp_path / "tools" / inside)
    assert nsys.find_nsys(str(tmp_path / "tools")) == program


def test_the_nsys_on_the_path_is_taken_before_those_installed(root, tmp_path):
    on_path = script(tmp_path / "path/nsys", SAYS_ITS_VERSION.format("2022.4.2"))
    fake_nsys(root / "opt/nvidia/nsight-systems/2025.3.2")
    assert nsys.find_nsys() == on_path


def test_an_nsys_on_the_path_that_does_not_start_is_passed_over(root, tmp_path):
    script(tmp_path / "path/nsys", "echo nsys is not installed >&2; exit 1")
    installed = fake_nsys(root / "opt/nvidia/nsight-systems/2025.3.2")
    assert nsys.find_nsys() == installed


def test_of_those_installed_the_newest_is_taken_whatever_it_came_with(root):
    fake_nsys(root / "opt/nvidia/nsight-systems/2024.9.1")
    newest = fake_nsys(root / "opt/nvidia/nsight-compute/2024.10.0/host")
    fake_nsys(root / "usr/local/cuda-12.4/nsight-systems-2023.4.4")
    assert nsys.find_nsys() == newest


def test_without_any_nsys_one_sentence_says_where_to_get_it(root):
    with pytest.raises(NsysError) as error:
        nsys.find_nsys()
    for word in ("developer.nvidia.com/nsight-systems", "--nsys PATH", "Nsight Compute"):
        assert word in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_a_given_place_without_an_nsys_is_refused_even_if_another_is_there(root, tmp_path):
    fake_nsys(root / "opt/nvidia/nsight-systems/2025.3.2")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NsysError, match=r"empty: no nsys there; name the program, or the folder"):
        nsys.find_nsys(str(tmp_path / "empty"))


def test_a_given_nsys_that_does_not_start_is_refused(root, tmp_path):
    broken = script(tmp_path / "nsys", "exit 1")
    with pytest.raises(NsysError, match=r"nsys: does not start"):
        nsys.find_nsys(str(broken))
    assert nsys.version(broken) is None
    assert nsys.version(tmp_path / "nothing") is None


def test_the_newest_cupti_beside_nsys_tells_the_newest_cuda_that_it_records(tmp_path):
    program = fake_nsys(tmp_path)
    assert nsys.newest_cuda(program) is None
    for name in ("libcupti.so.12.4", "libcupti.so.12.10", "libcupti.so.11.8", "libcupti.so.12"):
        (program.parent / name).touch()
    assert nsys.newest_cuda(program) == (12, 10)


def test_the_library_without_which_the_importer_does_not_start_is_named(tmp_path):
    program = fake_nsys(tmp_path)
    assert nsys.missing_libraries(program) == []  # no importer, so nothing is known of it
    fake_importer(tmp_path)
    assert nsys.missing_libraries(program) == []
    fake_importer(tmp_path, lacking="libdw.so.1")
    assert nsys.missing_libraries(program) == ["libdw.so.1"]


def test_all_libraries_that_the_loader_lists_as_not_found_are_named(tmp_path, monkeypatch):
    def loader(command, environment=None):
        if environment is None:
            stopped = "QdstrmImporter: error while loading shared libraries: libz.so.9: cannot open"
            return subprocess.CompletedProcess(command, 127, "", stopped)
        assert environment["LD_TRACE_LOADED_OBJECTS"] == "1"
        listed = "\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\tlibdw.so.1 => not found\n" * 2
        return subprocess.CompletedProcess(command, 0, listed, "")

    fake_importer(tmp_path)
    monkeypatch.setattr(nsys, "run", loader)
    assert nsys.missing_libraries(fake_nsys(tmp_path)) == ["libdw.so.1", "libz.so.9"]


def test_the_importer_is_found_behind_a_link_and_in_nsight_compute(tmp_path):
    program = fake_nsys(tmp_path / "host")
    importer = tmp_path / "host/linux-desktop-glibc_2_11_3-x64/QdstrmImporter"
    script(importer, "exit 0")
    link = tmp_path / "bin/nsys"
    link.parent.mkdir()
    link.symlink_to(program)
    assert nsys.importer(link) == nsys.importer(program) == importer


def test_a_library_of_a_known_package_is_named_with_it():
    known = nsys.libraries_sentence(Path("nsys"), ["libdw.so.1"])
    assert "without libdw.so.1: apt-get install libdw1 (Debian, Ubuntu)" in known
    assert "libelf1 libbz2-1.0 liblzma5 libzstd1 on LD_LIBRARY_PATH" in known
    unknown = nsys.libraries_sentence(Path("nsys"), ["libother.so.7", "libthird.so"])
    assert unknown.endswith("without libother.so.7, libthird.so: put them on LD_LIBRARY_PATH")


def test_the_command_line_is_one_that_nsys_knows_since_2022():
    program = ["python", "train.py", "--output=x", "--", "50%"]
    command = nsys.profile_command(Path("/opt/nsys"), Path("/run/50%/rank0"), program)
    options = command[2 : -len(program)]
    assert command[:2] == ["/opt/nsys", "profile"]
    assert command[-len(program) :] == program
    assert {option.partition("=")[0] for option in options} <= KNOWN_TO_NSYS_2022
    assert "--capture-range=cudaProfilerApi" in options
    assert "--capture-range-end=stop" in options
    assert "--output=/run/50%%/rank0" in options  # %h, %p and %q mean something to nsys


def test_the_program_under_nsys_keeps_its_streams_and_its_exit_code(tmp_path):
    runs = 'shift; while case "$1" in --*) true;; *) false;; esac; do shift; done; exec "$@"'
    command = nsys.profile_command(
        fake_nsys(tmp_path, then=runs),
        tmp_path / "rank0",
        ["/bin/sh", "-c", "echo out; echo error >&2; exit 7"],
    )
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "error\n")


EXPORTS = """for word in "$@"; do case "$word" in --output=*) to="${{word#--output=}}";; esac; done
{}
echo "$@" > "$to"
"""


def exported(tmp_path, before="", file="rank0.sqlite"):
    """Export with an nsys that writes its own command line as the file, after `before`."""
    program = fake_nsys(tmp_path, "2023.4.4.54", EXPORTS.format(before))
    nsys.export(program, tmp_path / "rank0.nsys-rep", tmp_path / file)
    return (tmp_path / file).read_text(encoding="utf-8")


def failed(tmp_path, said):
    """Return the sentence for an export that fails with these words."""
    with pytest.raises(NsysError) as error:
        exported(tmp_path, f'echo "half" > "$to"; echo "Exportation error: {said}" >&2; exit 1')
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


def test_an_export_asks_for_the_payloads_of_nccl_ranges(tmp_path):
    command = exported(tmp_path)
    assert command.startswith("export --type=sqlite ")
    assert "--include-blobs=true --include-json=true" in command
    assert command.rstrip().endswith("rank0.nsys-rep")
    assert [path.name for path in tmp_path.glob("*.sqlite")] == ["rank0.sqlite"]


@pytest.mark.parametrize("unknown", [["blobs"], ["json"], ["blobs", "json"]])
def test_an_older_nsys_is_asked_again_without_what_it_does_not_know(tmp_path, unknown):
    refuses = "\n".join(
        f'case "$*" in *--include-{name}*) '
        f"echo \"unrecognised option '--include-{name}=true'\" >&2; exit 1;; esac"
        for name in unknown
    )
    command = exported(tmp_path, refuses)
    for name in ("blobs", "json"):
        assert (f"--include-{name}=true" in command) == (name not in unknown)


def test_a_failed_export_leaves_the_file_that_was_there_and_nothing_else(tmp_path):
    (tmp_path / "rank0.sqlite").write_text("earlier", encoding="utf-8")
    assert failed(tmp_path, "a new kind of trouble.").endswith("a new kind of trouble.")
    assert (tmp_path / "rank0.sqlite").read_text(encoding="utf-8") == "earlier"
    assert not list(tmp_path.glob(".*"))


def test_an_export_that_writes_nothing_has_failed(tmp_path):
    with pytest.raises(NsysError, match="nsys export failed"):
        exported(tmp_path, "exit 0")


def test_an_export_into_a_folder_that_is_not_there_has_failed(tmp_path):
    with pytest.raises(NsysError):
        exported(tmp_path, file="nowhere/rank0.sqlite")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            "Version number is invalid: 2025@3@2@474-253v0",
            "recorded by nsys 2025.3.2.474, which * (2023.4.4.54) cannot read; name the nsys that "
            "recorded it with --nsys PATH",
        ),
        ("unable to open database file", "choose a folder on a local disk"),
        ("database is locked", "choose a folder on a local disk"),
        ("Section Table Reference magic number mismatch.", "the report is empty or cut short"),
        ("Cannot read from stream.", "the report is empty or cut short"),
    ],
)
def test_each_known_failure_of_an_export_has_its_sentence(tmp_path, said, sentence):
    told = failed(tmp_path, said)
    for part in sentence.split("*"):
        assert part in told


def test_there_is_nothing_to_explain_when_the_report_is_there(tmp_path):
    (tmp_path / "rank0.nsys-rep").write_bytes(b"report")
    output = tmp_path / "rank0"
    assert nsys_failures.why_no_report(fake_nsys(tmp_path), output, range_reached=True) is None


def test_an_empty_report_is_none(tmp_path):
    (tmp_path / "rank0.nsys-rep").touch()
    why = nsys_failures.why_no_report(fake_nsys(tmp_path), tmp_path / "rank0", range_reached=True)
    assert why is not None
    assert "rank0.nsys-rep is empty" in why


def test_what_is_left_without_libdw_names_the_library_its_package_and_the_next_command(tmp_path):
    (tmp_path / "rank0.qdstrm").touch()
    program = fake_nsys(tmp_path)
    importer = fake_importer(tmp_path, lacking="libdw.so.1")
    why = nsys_failures.why_no_report(program, tmp_path / "rank0", range_reached=True)
    assert why is not None
    for word in ("only rank0.qdstrm is left", "libdw.so.1", "apt-get install libdw1"):
        assert word in why
    assert why.endswith(f"; then {importer} --input-file {tmp_path / 'rank0.qdstrm'}")


def test_what_is_left_without_an_importer_says_so(tmp_path):
    (tmp_path / "rank0.qdstrm").touch()
    why = nsys_failures.why_no_report(fake_nsys(tmp_path), tmp_path / "rank0", range_reached=True)
    assert why is not None
    assert "only rank0.qdstrm is left" in why
    assert "the QdstrmImporter of Nsight Systems is not beside it" in why


def test_a_capture_range_that_was_never_reached_is_told_from_one_that_was(tmp_path, no_driver):
    program, output = fake_nsys(tmp_path), tmp_path / "rank0"
    never = nsys_failures.why_no_report(program, output, range_reached=False)
    reached = nsys_failures.why_no_report(program, output, range_reached=True)
    assert never is not None
    assert "were never reached" in never
    assert "--warmup" in never
    assert reached is not None
    assert "though the steps to record were reached" in reached


def test_a_report_that_nsys_put_elsewhere_is_found_in_its_words(tmp_path):
    said = "Generated:\n    /tmp/nsys-report-7d27.nsys-rep\n"
    why = nsys_failures.why_no_report(
        fake_nsys(tmp_path), tmp_path / "rank0", range_reached=True, said=said
    )
    assert why is not None
    assert why.endswith("left its report in /tmp/nsys-report-7d27.nsys-rep")


def export_with(path, messages=(), ranges=0, kernels=None, table="DIAGNOSTIC_EVENT"):
    """Write an nsys SQLite with these messages; `kernels` None is a file without their table."""
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    if table == "DIAGNOSTIC_EVENT":
        database.execute("CREATE TABLE DIAGNOSTIC_EVENT (text TEXT)")
    column = "text" if table == "DIAGNOSTIC_EVENT" else "value"
    database.executemany(f"INSERT INTO {table} ({column}) VALUES (?)", [(m,) for m in messages])
    if ranges:
        database.execute("CREATE TABLE NVTX_EVENTS (start INTEGER)")
        database.executemany("INSERT INTO NVTX_EVENTS VALUES (?)", [(n,) for n in range(ranges)])
    if kernels is not None:
        database.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER)")
        rows = [(n,) for n in range(kernels)]
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?)", rows)
    database.commit()
    database.close()
    return path


def test_a_file_with_kernels_needs_no_explanation_whatever_nsys_said(tmp_path):
    said = ["Installed CUDA driver version (13.0) is not supported by this build"]
    path = export_with(tmp_path / "a#b?.sqlite", said, kernels=1)
    assert nsys_failures.why_no_kernels(fake_nsys(tmp_path), path) is None


@pytest.mark.parametrize("table", ["DIAGNOSTIC_EVENT", "StringIds"])
@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (
            "Installed CUDA driver version (13.0) is not supported by this build of Nsight "
            "Systems. CUDA trace will be collected using libraries for driver version 12.4",
            "is newer than nsys 2023.4.4.54: install a newer Nsight Systems",
        ),
        (
            "Incompatible CUDA driver version. Please try updating the CUDA driver or use a more "
            "recent profiler version.",
            "is newer than nsys 2023.4.4.54: install a newer Nsight Systems",
        ),
        (
            "Installed CUDA driver version (10.0) is no longer supported. Please update the GPU "
            "driver or use an older version of Nsight Systems.",
            "the driver is too old for nsys 2023.4.4.54",
        ),
        ("cuptiSubscribe: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "--cap-add=SYS_ADMIN"),
        ("ERR_NVGPUCTRPERM", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "another profiler has CUPTI"),
        ("Subscribe returned 999: CUPTI_ERROR_UNKNOWN", "CUPTI said CUPTI_ERROR_UNKNOWN"),
        ("Profiling has started.", "the program ran none in the steps to record"),
    ],
)
def test_each_known_reason_for_no_kernel_has_its_sentence(
    tmp_path, no_driver, message, sentence, table
):
    path = export_with(tmp_path / "rank0.sqlite", [message], ranges=3, kernels=0, table=table)
    why = nsys_failures.why_no_kernels(fake_nsys(tmp_path, "2023.4.4.54"), path)
    assert why is not None
    assert why.startswith("rank0.sqlite holds no kernel: ")
    assert sentence in why


def test_a_file_with_neither_cuda_nor_nvtx_is_empty(tmp_path, no_driver):
    path = export_with(tmp_path / "rank0.sqlite", ["Profiling has started."])
    why = nsys_failures.why_no_kernels(fake_nsys(tmp_path), path)
    assert why is not None
    assert "rank0.sqlite is empty" in why


@pytest.mark.parametrize(
    ("served", "is_told"), [((12, 4), False), ((12, 8), False), ((13, 0), True)]
)
def test_no_kernel_under_a_driver_of_a_later_generation_is_the_drivers_doing(
    tmp_path, monkeypatch, served, is_told
):
    program = fake_nsys(tmp_path)
    (program.parent / "libcupti.so.12.4").touch()
    monkeypatch.setattr(machine, "driver_cuda", lambda: served)
    path = export_with(tmp_path / "rank0.sqlite", ranges=1)
    why = nsys_failures.why_no_kernels(program, path)
    assert why is not None
    assert ("is newer than" in why) == is_told
    if is_told:
        assert "driver for CUDA 13.0" in why
        assert "nsys 2025.3.2.474, which knows CUDA up to 12.4: install a newer" in why


def test_a_file_that_is_no_sqlite_is_told_as_unreadable(tmp_path):
    path = tmp_path / "rank0.sqlite"
    path.write_text("not a database, and long enough to be taken for one" * 9, encoding="utf-8")
    why = nsys_failures.why_no_kernels(fake_nsys(tmp_path), path)
    assert why is not None
    assert "rank0.sqlite cannot be read" in why
