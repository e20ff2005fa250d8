"""`ddptrace capture` around commands: exit codes, signals, folders, why nothing was recorded."""

import os
import signal
import subprocess
import sys

import pytest

CAPTURE = [sys.executable, "-m", "ddptrace", "capture"]
PYTHON = [sys.executable, "-c"]


def capture(*words, cwd, **environment):
    return subprocess.run(
        [*CAPTURE, *map(str, words)],
        capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, **environment},
    )  # fmt: skip


def test_output_errors_and_the_exit_code_of_the_command_pass_through(tmp_path):
    script = (
        "import sys; print('out', sys.stdin.read()); print('err', file=sys.stderr); sys.exit(7)"
    )
    done = subprocess.run(
        [*CAPTURE, "--", *PYTHON, script],
        capture_output=True, text=True, check=False, cwd=tmp_path, input="typed",
    )  # fmt: skip
    assert done.returncode == 7
    assert done.stdout == "out typed\n"
    assert "err\n" in done.stderr


def test_a_command_that_trains_nothing_is_2_and_the_reason_is_said(tmp_path):
    done = capture("--", *PYTHON, "print('hello')", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "hello\n")
    assert done.stderr.endswith(
        "ddptrace: nothing was recorded: no process of the command imported torch\n"
    )
    assert list((tmp_path / "ddptrace-run").iterdir()) == []


def test_a_python_that_ignores_its_environment_is_named_as_the_reason(tmp_path):
    done = capture("--", sys.executable, "-I", "-c", "pass", cwd=tmp_path)
    assert done.returncode == 2
    assert "no Python process of the command loaded the recorder" in done.stderr


def test_a_command_that_is_not_there_is_2(tmp_path):
    done = capture("--", "no-such-command", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ddptrace: no-such-command: no such command; check what stands after --\n"
    )


def test_a_command_that_a_signal_ended_has_the_code_of_a_shell(tmp_path):
    done = capture("--", *PYTHON, "import os; os.kill(os.getpid(), 9)", cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_reaches_the_command(tmp_path, number):
    script = (
        "import signal, sys, time\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)"
    )
    running = subprocess.Popen(
        [*CAPTURE, "--", *PYTHON, script],
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path,
    )  # fmt: skip
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(number)
    assert running.wait(timeout=30) == 5
    running.stdout.close()


def test_an_earlier_recording_is_not_overwritten_unless_that_is_asked(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rank0.pt.trace.json.gz").write_text("")
    (tmp_path / "run" / "manifest.json").write_text("{}")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    refused = capture("-o", "run", "--", *PYTHON, "print('ran')", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "run: holds a recording already (rank0.pt.trace.json.gz)" in refused.stderr
    forced = capture("-o", "run", "--force", "--", *PYTHON, "print('ran')", cwd=tmp_path)
    assert forced.stdout == "ran\n"
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["notes.txt"]


def test_what_a_capture_without_a_recording_left_is_in_nobodys_way(tmp_path):
    (tmp_path / "run" / ".capture").mkdir(parents=True)
    (tmp_path / "run" / "manifest.json").write_text("{}")
    done = capture("-o", "run", "--", *PYTHON, "print('ran')", cwd=tmp_path)
    assert done.stdout == "ran\n"


def test_a_folder_that_another_capture_writes_is_refused_even_by_force(tmp_path):
    (tmp_path / "run" / ".capture").mkdir(parents=True)
    (tmp_path / "run" / ".capture" / "owner").write_text(str(os.getppid()))
    done = capture("-o", "run", "--force", "--", *PYTHON, "print('ran')", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"run: another capture (process {os.getppid()}) is writing there" in done.stderr


def test_a_folder_that_goes_away_meanwhile_is_no_traceback(tmp_path):
    script = "import shutil; shutil.rmtree('run')"
    done = capture("-o", "run", "--", *PYTHON, script, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = capture("-o", "file", "--", *PYTHON, "pass", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "file: cannot be written" in done.stderr


def test_an_existing_sitecustomize_runs_and_its_error_is_its_own(tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys; sys.chained = __file__")
    script = (
        "import sys, sitecustomize; print(sys.chained == sitecustomize.__file__, sys.path[1:2])"
    )
    done = capture("--", *PYTHON, script, cwd=tmp_path, PYTHONPATH=str(theirs))
    assert done.stdout == f"True [{str(theirs)!r}]\n"
    (theirs / "sitecustomize.py").write_text("import not_there")
    done = capture("--", *PYTHON, "print('still runs')", cwd=tmp_path, PYTHONPATH=str(theirs))
    assert "No module named 'not_there'" in done.stderr
    assert done.stdout == "still runs\n"


def test_who_only_asks_whether_torch_is_there_does_not_wake_anything(tmp_path):
    fake = tmp_path / "lib" / "torch"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("loader = type(__loader__).__name__")
    script = (
        "import importlib.util as u, sys\n"
        "assert u.find_spec('torch').loader.get_filename('torch').endswith('__init__.py')\n"
        "import torch; print(torch.loader, type(torch.__spec__.loader).__name__)\n"
        "print([f for f in sys.meta_path if 'ddptrace' in type(f).__module__])"
    )
    done = capture("--", *PYTHON, script, cwd=tmp_path, PYTHONPATH=str(tmp_path / "lib"))
    assert done.stdout == "SourceFileLoader SourceFileLoader\n[]\n"
    # The recorder could not be put into this torch, which is a line and nothing else.
    assert "ddptrace: no recording in this process: ModuleNotFoundError" in done.stderr


def test_a_script_can_mark_its_steps_outside_a_capture_too(tmp_path):
    script = "import ddptrace_capture, sys; ddptrace_capture.step(); print('torch' in sys.modules)"
    done = subprocess.run([*PYTHON, script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_recorder_works_where_its_package_is_not_installed(tmp_path):
    script = "import ddptrace_capture; ddptrace_capture.step(); print('there')"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    bare = subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True
    )
    assert bare.returncode == 0
    done = subprocess.run(
        [*CAPTURE, "--", str(tmp_path / "bare" / "bin" / "python"), "-c", script],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.stdout == "there\n"
