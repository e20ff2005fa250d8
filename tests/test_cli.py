"""The command line as a user meets it: options, exit codes, where things are printed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
from traces import Kineto, plain

import ddptrace as ddptrace_package
from ddptrace.cli import app, main

DOCS = Path(__file__).parent.parent / "docs"

OPTIONS = {
    "report": {
        "runs", "--step", "--ranks", "--comm-kernel", "--step-range", "--collectives",
        "--json", "--html", "--timeline", "--partial", "--jobs", "--help",
    },
    "explain": {"finding", "--help"},
    "export": {
        "runs", "--output", "-o", "--replace", "--ranks", "--comm-kernel", "--step-range",
        "--partial", "--jobs", "--help",
    },
    "check": {
        "runs", "--baseline", "--fail-on", "--save-baseline", "--steps", "--allow",
        "--inconclusive", "--power", "--history", "--window", "--branch", "--tag", "--json",
        "--junit", "--gitlab", "--markdown", "--github", "--ranks", "--comm-kernel",
        "--step-range", "--jobs", "--help",
    },
    "compare": {
        "a", "b", "--json", "--html", "--ranks", "--comm-kernel", "--step-range", "--jobs",
        "--help",
    },
    "whatif": {
        "runs", "--bucket-cap-mb", "--link", "--without-straggler", "--compress",
        "--free-communication", "--perfect-overlap", "--alpha-us", "--bandwidth-gb-s",
        "--ranks", "--comm-kernel", "--step-range", "--json", "--jobs", "--help",
    },
    "simulate": {
        "--gradients-mib", "--backward-ms", "--alpha-ms", "--bandwidth-mib-per-ms",
        "--bucket-mib", "--alpha-us", "--bandwidth-gb-s", "--json", "--html", "--help",
    },
    "merge": {
        "runs", "-o", "--output", "--kernels", "--ranks", "--comm-kernel", "--step-range",
        "--partial", "--jobs", "--help",
    },
    "history add": {
        "run", "--steps", "--db", "--history", "--commit", "--branch", "--tag", "--new-start",
        "--ranks", "--comm-kernel", "--step-range", "--jobs", "--help",
    },
    "history list": {
        "--db", "--history", "--branch", "--tag", "--last", "--json", "--help",
    },
    "history show": {"number", "--db", "--history", "--json", "--help"},
    "history plot": {
        "-o", "--output", "--db", "--history", "--branch", "--tag", "--help",
    },
    # Their options are the recorder's own: see test_capture_options.py, test_doctor.py and
    # test_sweep_run.py.
    "capture": {"--help"},
    "doctor": {"--help"},
    "sweep": {"--help"},
}  # fmt: skip


PAGES = {"check": "ci"}


def ddptrace(*words, cwd=None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ddptrace", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture
def two_ranks(tmp_path):
    for rank in range(2):
        plain(rank).write(tmp_path / f"rank{rank}.json")
    return tmp_path


def every_command():
    """Return the commands by name, those of a group as two words."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        mine = getattr(command, "commands", None)
        found |= {name: command} if mine is None else {f"{name} {of}": mine[of] for of in mine}
    return found


def test_the_options_are_these_and_a_change_is_on_purpose():
    commands = every_command()
    found = {
        name: {
            option
            for parameter in [*command.params, command.get_help_option(typer.Context(command))]
            for option in (
                parameter.opts if parameter.param_type_name == "option" else [parameter.name]
            )
        }
        for name, command in commands.items()
    }
    assert found == OPTIONS


@pytest.mark.parametrize("command", OPTIONS)
def test_every_option_is_in_the_page_of_its_command(command):
    page = (DOCS / f"{PAGES.get(command, command.split()[0])}.md").read_text(encoding="utf-8")
    for option in OPTIONS[command] - {"runs", "finding", "a", "b", "run", "number"}:
        assert f"`{option}" in page


def test_every_warning_is_in_the_page_of_the_report():
    package = Path(ddptrace_package.__file__).parent
    sources = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py"))
    codes = set(re.findall(r'Warn\(\s*"(\w+)"', sources))
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    assert len(codes) > 15
    assert [code for code in sorted(codes) if f"| `{code}` |" not in page] == []


def test_help_imports_nothing_heavy():
    code = (
        "import sys; sys.argv = ['ddptrace', '--help']\n"
        "from ddptrace.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'pandas', 'plotly', 'msgspec', 'sqlite_utils', 'pyarrow'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["whatif"], "missing argument 'RUN...'; see ddptrace whatif --help"),
        (["report", "--nope"], "no such option: --nope; see ddptrace report --help"),
        (["nope"], "no such command 'nope'; see ddptrace --help"),
        (["history", "add"], "missing option '--db' / '--history'; see ddptrace history add"),
        (["compare", "a"], "missing argument 'B'; see ddptrace compare --help"),
        (["report", "a", "--timeline", "--nope\n\x1b[1m"], "no such option: --nope"),
    ],
)
def test_words_that_make_no_sense_are_one_line(words, said):
    done = ddptrace(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"ddptrace: {said}")
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("words", [[], ["history"]])
def test_no_words_at_all_show_the_help(words):
    done = ddptrace(*words)
    assert done.returncode == 2
    assert "Usage: ddptrace" in done.stdout + done.stderr


def test_output_that_nobody_wants_any_more_is_no_fault(two_ranks):
    words = [sys.executable, "-m", "ddptrace", "report", str(two_ranks), "--json", "-"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        said = running.stderr.read()
    assert (running.returncode, said) == (1, b"")


def test_an_interrupt_is_130_without_a_word(monkeypatch, capsys):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("ddptrace.load_run", interrupted)
    monkeypatch.setattr(sys, "argv", ["ddptrace", "report", "run"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_the_version_is_printed():
    assert re.fullmatch(r"ddptrace \d+\.\d+\.\d+\n", ddptrace("--version").stdout)


def test_the_report_of_a_run_is_text_on_stdout(two_ranks):
    done = ddptrace("report", two_ranks)
    assert (done.returncode, done.stderr) == (0, "")
    assert "median step 5 (rank 0, its longest) took 0.86 ms" in done.stdout
    assert done.stdout.rstrip().endswith(f"Next: ddptrace report {two_ranks} --html report.html")


def test_json_on_stdout_is_alone_there(two_ranks):
    done = ddptrace("report", two_ranks, "--json", "-")
    document = json.loads(done.stdout)
    assert [(row["rank"], row["compute_ns"]) for row in document["steps"]] == [
        (0, 640_000), (1, 640_000)
    ]  # fmt: skip
    assert done.stderr == ""


def test_files_are_written_beside_the_text(two_ranks, tmp_path):
    done = ddptrace("report", two_ranks, "--json", "r.json", "--html", "r.html", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "wrote r.json\nwrote r.html\n"
    assert "step 5" in done.stdout
    assert json.loads((tmp_path / "r.json").read_text())["schema"] == 1
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")


def test_a_step_can_be_picked_by_its_number(tmp_path):
    kineto = Kineto(rank=0, world_size=1).step(7, 0, 400).step(8, 400, 800)
    kineto.gpu(100, 300).gpu(450, 500).write(tmp_path / "rank0.json")
    done = ddptrace("report", tmp_path, "--step", "8", "--json", "-")
    assert [row["step"] for row in json.loads(done.stdout)["steps"]] == [8]
    assert ddptrace("report", tmp_path, "--step", "9").returncode == 2


def test_ranks_can_be_picked(two_ranks):
    done = ddptrace("report", two_ranks, "--ranks", "1", "--json", "-")
    document = json.loads(done.stdout)
    assert document["run"]["ranks"] == [1]
    assert not [w for w in document["run"]["warnings"] if w["code"] == "missing_ranks"]


def test_a_missing_rank_is_a_warning_and_exit_0(tmp_path):
    plain(0).write(tmp_path / "rank0.json")
    done = ddptrace("report", tmp_path)
    assert done.returncode == 0
    assert "1 of 2 ranks are here; missing: 1" in done.stdout


def test_names_of_custom_collectives_can_be_taught(tmp_path):
    kineto = Kineto(rank=0, world_size=1).step(1, 0, 900)
    kineto.gpu(100, 200).gpu(200, 300, name="my_all_reduce").write(tmp_path / "rank0.json")
    plain_run = json.loads(ddptrace("report", tmp_path, "--json", "-").stdout)
    assert plain_run["steps"][0]["comm_ns"] == 0
    assert [w["code"] for w in plain_run["run"]["warnings"]] == ["likely_comm"]
    taught = ddptrace("report", tmp_path, "--json", "-", "--comm-kernel", "all_reduce")
    assert json.loads(taught.stdout)["steps"][0]["comm_ns"] == 100_000


def test_processes_give_the_same_report_as_one(two_ranks):
    one = ddptrace("report", two_ranks, "--json", "-", "--jobs", "1")
    two = ddptrace("report", two_ranks, "--json", "-", "--jobs", "2")
    assert one.stdout == two.stdout


def test_the_next_command_reads_the_run_in_the_same_way(two_ranks):
    done = ddptrace(
        "report",
        two_ranks,
        "--ranks",
        "0",
        "--comm-kernel",
        "a b",
        "--html",
        "x.html",
        cwd=two_ranks,
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("Next: ")]
    assert line == f"Next: ddptrace report {two_ranks} --ranks 0 --comm-kernel 'a b' --step all"


def test_a_chosen_rank_that_is_missing_is_a_warning(tmp_path):
    plain(0, world_size=4).write(tmp_path / "rank0.json")
    done = ddptrace("report", tmp_path, "--ranks", "0-3")
    assert done.returncode == 0
    assert "missing: 1-3" in done.stdout


@pytest.mark.parametrize(
    "words",
    [["--html", "-"], ["--step", "9" * 5000], ["--ranks", "9" * 5000], ["--ranks", "0-2000000"]],
)
def test_options_beyond_reason_are_refused(two_ranks, words):
    done = ddptrace("report", two_ranks, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ddptrace: --")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device here")
def test_a_full_disk_is_one_line(two_ranks):
    command = f"{sys.executable} -m ddptrace report {two_ranks} > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ddptrace: standard output: cannot be written")


def test_a_closed_standard_output_is_one_line(two_ranks):
    command = f"{sys.executable} -m ddptrace report {two_ranks} >&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ddptrace: standard output is closed")


def test_bad_usage_is_exit_2_and_one_line(two_ranks):
    for words in (
        ["--step", "soon"],
        ["--ranks", "a"],
        ["--ranks", "7"],
        ["--ranks", "1-0"],
        ["--comm-kernel", "("],
    ):
        done = ddptrace("report", two_ranks, *words)
        assert done.returncode == 2
        assert done.stderr.startswith("ddptrace: ")
        assert done.stderr.count("\n") == 1


def test_a_file_that_cannot_be_written_is_one_line(two_ranks):
    done = ddptrace("report", two_ranks, "--json", two_ranks / "no" / "r.json")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
