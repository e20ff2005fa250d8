"""The examples for CI are valid, and their commands do what they say."""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from calling import call, csv
from histories import history

from ddptrace.check.baseline import Baseline, save
from ddptrace.check.step_times import read_csv
from ddptrace.history.drift import FEWEST_RUNS, MOST_RUNS
from ddptrace.history.series import WINDOW

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = (DOCS / "ci" / "github-actions.yml", DOCS / "ci" / "gitlab-ci.yml")


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """Return a function that runs a line as a CI system does, with `ddptrace` on the path."""
    program = tmp_path / "bin" / "ddptrace"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ddptrace "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    environment = os.environ | {
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "HISTORY": str(tmp_path / "history.db"),
        "CI_COMMIT_BRANCH": "main",
        "CI_COMMIT_REF_NAME": "main",
    }

    def run(line):
        command = ["sh", "-e", "-c", line]
        return subprocess.run(
            command, cwd=work, env=environment, capture_output=True, text=True, check=False
        )

    run.work = work
    return run


def steps(shell, step_ms):
    """Put a run in the place that the examples read, as step times: no folder, but a baseline."""
    save(Baseline([read_csv(csv(shell.work / "times.csv", step_ms))]), shell.work / "traces")


def commands(example, word):
    """Return the lines of an example that call ddptrace with this word."""
    lines = [
        line.strip().removeprefix("- ").removeprefix("run: ")
        for line in example.read_text().splitlines()
    ]
    return [line for line in lines if f"ddptrace {word}" in line]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_commands_of_an_example_begin_pass_and_stop_a_slower_run(example, shell):
    (check,) = commands(example, "check")
    (remember,) = commands(example, "history add")
    check = check.replace(" --fail-on exposed_comm:20%,min=1ms", "")  # which step times lack
    steps(shell, 10)
    assert shell(check).returncode == 0  # since nothing is there yet
    assert shell(remember).returncode == 0
    steps(shell, 10.1)
    assert shell(check).returncode == 0
    steps(shell, 12)
    assert shell(check).returncode == 1
    assert (shell.work / "step-time.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_recording_of_an_example_is_one_that_capture_takes(example, shell):
    (line,) = commands(example, "capture")
    options, _, job = line.partition(" -- ")
    assert job == "torchrun --nproc-per-node 2 train.py"
    done = shell(f"{options} -- {shlex.quote(sys.executable)} -c pass")
    assert "no such option" not in done.stderr.lower()
    assert "usage" not in done.stderr.lower()


def test_the_line_for_a_shell_checks_and_then_remembers(shell):
    text = (DOCS / "ci_outputs.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ddptrace check .* && .*$", text, re.MULTILINE)
    steps(shell, 10)
    assert shell("ddptrace history add traces --db history.db").returncode == 0
    steps(shell, 10.1)
    assert shell(line).returncode == 0
    steps(shell, 12)
    assert shell(line).returncode == 1
    with closing(sqlite3.connect(shell.work / "history.db")) as connection:
        assert connection.execute("select count(*) from runs").fetchone() == (2,)


def test_the_examples_are_yaml_of_the_shape_that_each_system_asks_for():
    yaml = pytest.importorskip("yaml")
    github, gitlab = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in EXAMPLES)
    (job,) = github["jobs"].values()
    assert set(github) == {"name", True, "jobs"}  # `on` is true in YAML 1.1
    assert all({"uses", "run"} & set(step) for step in job["steps"])
    assert all(isinstance(step.get("run", ""), str) for step in job["steps"])
    (job,) = gitlab.values()
    assert all(isinstance(line, str) for line in job["script"])
    assert set(job["artifacts"]["reports"]) == {"junit", "codequality"}
    assert job["allow_failure"] == {"exit_codes": [2]}


def test_the_query_of_the_page_runs(tmp_path):
    text = (DOCS / "history.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    history(tmp_path / "h.db", 10, 11, branch="main")
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        assert [row[1:] for row in connection.execute(query)] == [
            (0, 11.0, None), (1, 11.0, None), (0, 10.0, None), (1, 10.0, None)
        ]  # fmt: skip


def test_every_column_is_in_the_page(tmp_path):
    text = (DOCS / "history.md").read_text(encoding="utf-8")
    history(tmp_path / "h.db", 10)
    with closing(sqlite3.connect(tmp_path / "h.db")) as connection:
        for table in ("runs", "tags"):
            for row in connection.execute(f"pragma table_info({table})"):
                assert f"`{row[1]}`" in text


def test_the_list_of_the_page_looks_as_the_command_prints_it(tmp_path, monkeypatch):
    text = (DOCS / "history.md").read_text(encoding="utf-8")
    header = re.search(r"^run  added .*$", text, re.MULTILINE)[0]
    run = history(tmp_path / "h.db", 10)
    printed = call(monkeypatch, "history", "list", "--db", run).stdout.splitlines()[0]
    assert [word for word in header.split() if word != "untraced"] == printed.split()


def test_the_numbers_of_the_page_are_those_of_the_code():
    text = (DOCS / "history.md").read_text(encoding="utf-8")
    assert f"how many of them ({WINDOW})" in text
    assert f"the last {MOST_RUNS}, 20 and 10 comparable ones" in text
    assert f"and from {FEWEST_RUNS} on" in text
