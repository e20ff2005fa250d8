"""The fixture `ddptrace_check`: a test fails with what the command prints."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from calling import call, csv
from histories import history, timed

from ddptrace.check.baseline import read
from ddptrace.outputs import check as _text  # noqa: F401  # see `test_file`
from ddptrace.pytest_plugin import _names

pytest_plugins = ("pytester",)


@pytest.fixture
def test_file(pytester, monkeypatch):
    """Return a function that runs a test file with the plugin, as installing it would do.

    In this process, which has numpy already: it cannot be imported again once it is forgotten.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(pytester.path)

    def run(body, *options):
        pytester.makepyfile(test_perf=body)
        return pytester.runpytest_inprocess("-p", "ddptrace.pytest_plugin", *options)

    return run


SIMPLE = """
    def test_step(ddptrace_check):
        ddptrace_check("now.csv", baseline="base.csv")
"""


@pytest.mark.parametrize(("step_ms", "passed"), [(10.2, 1), (11, 0)])
def test_a_slower_run_fails_the_test_with_the_text_of_the_command(
    test_file, pytester, monkeypatch, step_ms, passed
):
    csv(pytester.path / "base.csv", 10)
    csv(pytester.path / "now.csv", step_ms)
    result = test_file(SIMPLE)
    result.assert_outcomes(passed=passed, failed=1 - passed)
    if not passed:
        done = call(monkeypatch, "check", "now.csv", "--baseline", "base.csv")
        assert done.code == 1
        assert done.stdout in result.stdout.str()
        assert "pytest_plugin.py" not in result.stdout.str()


def test_limits_differences_and_doubt_are_told_as_to_the_command(test_file, pytester):
    csv(pytester.path / "base.csv", 10)
    csv(pytester.path / "now.csv", 11)
    csv(pytester.path / "few.csv", 10, count=3)
    test_file(
        """
        def test_wide(ddptrace_check):
            result = ddptrace_check("now.csv", "base.csv", fail_on=["step:20%"])
            assert result.limits[0].change_ns == 1_000_000
        def test_several(ddptrace_check):
            ddptrace_check(["base.csv", "base.csv"], ["base.csv"], allow=["gpu"])
        def test_texts(ddptrace_check):
            ddptrace_check("now.csv", "base.csv", fail_on="step:20%", allow="gpu,torch_version")
        def test_doubt(ddptrace_check):
            assert ddptrace_check("few.csv", "base.csv", inconclusive="pass").exit_code == 0
        def test_doubt_stops(ddptrace_check):
            ddptrace_check("few.csv", "base.csv")
        """
    ).assert_outcomes(passed=4, failed=1)


def test_what_cannot_be_checked_fails_in_one_line(test_file, pytester):
    csv(pytester.path / "now.csv", 10)
    result = test_file(
        """
        def test_a(ddptrace_check):
            ddptrace_check("now.csv", "no.json")
        def test_b(ddptrace_check):
            ddptrace_check("no.csv", "now.csv")
        def test_c(ddptrace_check):
            ddptrace_check("now.csv", "now.csv", fail_on=["step"])
        def test_d(ddptrace_check):
            ddptrace_check("now.csv", "now.csv", branch="main")
        def test_e(ddptrace_check):
            ddptrace_check("now.csv", "now.csv", history="h.db")
        """
    )
    result.assert_outcomes(failed=5)
    result.stdout.fnmatch_lines(
        [
            "ddptrace: no.json: no such baseline; --ddptrace-update-baselines saves it",
            "ddptrace: no.csv: *",
            "ddptrace: --fail-on step: states no limit*",
            "ddptrace: branch: is given without a history*",
            "ddptrace: baseline: is given with a history*",
        ]
    )


OWN = """
    import pytest
    @pytest.mark.parametrize("size", ["small", "a/b"])
    def test_step(ddptrace_check, size):
        ddptrace_check("now.csv")
        ddptrace_check("now.csv")
"""


def test_each_test_has_baselines_of_its_own_which_an_option_saves(test_file, pytester):
    csv(pytester.path / "now.csv", 10)
    missing = test_file(OWN)
    missing.assert_outcomes(failed=2)
    assert "no such baseline; --ddptrace-update-baselines saves it" in missing.stdout.str()
    saved = test_file(OWN, "--ddptrace-update-baselines")
    saved.assert_outcomes(passed=2)
    files = sorted((pytester.path / "ddptrace_baselines").iterdir())
    assert len(files) == 4
    assert all(read(path).runs[0].timed for path in files)
    saved.stdout.fnmatch_lines(["*ddptrace baselines saved*", *[f"{path}" for path in files][:1]])
    test_file(OWN).assert_outcomes(passed=2)
    csv(pytester.path / "now.csv", 11)
    test_file(OWN).assert_outcomes(failed=2)
    test_file(OWN, "--ddptrace-update-baselines").assert_outcomes(passed=2)
    test_file(OWN).assert_outcomes(passed=2)


def test_the_folder_of_baselines_is_an_option_or_a_setting(test_file, pytester):
    csv(pytester.path / "now.csv", 10)
    update = "--ddptrace-update-baselines"
    test_file(OWN, update, "--ddptrace-baseline", "here").assert_outcomes(passed=2)
    assert len(list((pytester.path / "here").iterdir())) == 4
    pytester.makeini("[pytest]\nddptrace_baseline = there/deep")
    test_file(OWN, update).assert_outcomes(passed=2)
    assert len(list((pytester.path / "there" / "deep").iterdir())) == 4


def test_a_named_baseline_is_saved_where_it_is_named(test_file, pytester):
    csv(pytester.path / "now.csv", 10)
    body = """
        def test_step(ddptrace_check):
            assert ddptrace_check("now.csv", baseline="deep/base.json") is None
        def test_folder(ddptrace_check, tmp_path):
            ddptrace_check("now.csv", baseline=tmp_path)
    """
    result = test_file(body, "--ddptrace-update-baselines")
    result.assert_outcomes(passed=1, failed=1)
    assert "this baseline is no file that can be saved" in result.stdout.str()
    assert read(pytester.path / "deep" / "base.json").runs[0].name == "now.csv"


def test_a_run_without_a_usable_step_is_not_saved(test_file, pytester):
    (pytester.path / "run").mkdir()
    from traces import Kineto

    Kineto(rank=0, world_size=1).gpu(0, 100).write(pytester.path / "run" / "rank0.json")
    body = """
        def test_step(ddptrace_check):
            ddptrace_check("run", baseline="base.json")
    """
    result = test_file(body, "--ddptrace-update-baselines")
    result.assert_outcomes(failed=1)
    assert not (pytester.path / "base.json").exists()


@pytest.mark.parametrize(("step_ms", "passed"), [(10.2, 1), (11, 0)])
def test_a_run_is_held_against_a_history(test_file, pytester, step_ms, passed):
    history(pytester.path / "h.db", timed(10), timed(10.01), branch="main", tags=["a"])
    history(pytester.path / "h.db", timed(30))
    csv(pytester.path / "now.csv", step_ms)
    test_file(
        """
        def test_step(ddptrace_check):
            ddptrace_check("now.csv", history="h.db", branch="main", tags=["a"], window=2)
        """
    ).assert_outcomes(passed=passed, failed=1 - passed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('"now.csv", history="h.db", window=0', "window 0: give how many runs"),
        ('"now.csv", history="h.db", window=-1', "window -1: give how many runs"),
        ('"now.csv", history="h.db", window="x"', "window 'x': give how many runs"),
        ('"now.csv", "now.csv", window=0', "window: is given without a history"),
        ('None, "now.csv"', "None is no run: give a folder"),
        ('["now.csv", 1], "now.csv"', "1 is no run: give a folder"),
        ('"now.csv", "now.csv", fail_on=[5]', "fail_on [[]5]: give a text"),
        ('"now.csv", "now.csv", inconclusive=None', "inconclusive None: give a text"),
    ],
)
def test_arguments_that_mean_nothing_are_refused_in_one_line(test_file, pytester, arguments, words):
    history(pytester.path / "h.db", timed(10), timed(10.01))
    csv(pytester.path / "now.csv", 10)
    result = test_file(f"""
        def test_step(ddptrace_check):
            ddptrace_check({arguments})
        """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"ddptrace: {words}*"])


def test_runs_and_reports_of_this_process_are_taken(test_file, pytester):
    from traces import Kineto

    kineto = Kineto(rank=0, world_size=1)
    for number in range(8):
        kineto.step(number, number * 1000, number * 1000 + 1000)
        kineto.gpu(number * 1000 + 10, number * 1000 + 990)
    kineto.write(pytester.path / "run" / "rank0.json")
    test_file(
        """
        import ddptrace
        def test_run(ddptrace_check):
            run = ddptrace.load_run("run")
            assert ddptrace_check(run, ddptrace.analyze(run)).exit_code == 0
            assert ddptrace_check([run, "run"], run).current.recorded_steps == 7
        """
    ).assert_outcomes(passed=1)


def test_other_runs_of_pytest_import_nothing_of_it():
    code = (
        "import sys, pytest, ddptrace.pytest_plugin\n"
        "heavy = {'numpy', 'msgspec', 'typer', 'sqlite_utils', 'rich.console', 'ddptrace.errors'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_pytest_finds_the_plugin_where_ddptrace_is_installed():
    settings = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    (module,) = re.findall(r"\[project\.entry-points\.pytest11\]\nddptrace = \"(.*)\"", settings)
    assert callable(import_module(module).ddptrace_check)


def test_names_of_baselines_are_readable_and_never_those_of_another_test():
    assert next(_names("tests/test_perf.py::test_step")) == "tests.test_perf.py.test_step.json"
    ids = ["t.py::test[a/b]", "t.py::test[a b]", "t.py::test[a-b]", "t.py::test" + "x" * 300]
    ids += [f"t.py::test{'x' * 300}y"]
    names = [next(_names(test)) for test in ids]
    assert len(set(names)) == len(ids)
    assert all(len(name) < 130 and "/" not in name for name in names)
