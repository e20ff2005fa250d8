"""A user's expression that would take for ever ends in one line, wherever it is asked."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from commands import assert_refused, quick
from nsys_exports import Nsys, plain
from traces import plain as plain_kineto

from ddptrace import expressions, load_run
from ddptrace.errors import UsageError
from ddptrace.expressions import UserExpression

FOR_EVER = r"(\w+\s?)*!"
NAME = "one two three four five six seven eight nine ten"

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no such clock")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(expressions, "_LIMIT_S", 0.2)


@pytest.fixture
def before():
    """Check that the signal and its clock are afterwards as they were."""
    handler = signal.getsignal(signal.SIGVTALRM)
    yield
    assert signal.getsignal(signal.SIGVTALRM) is handler
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def exports(folder):
    """Write two ranks with a text, a registered one, a range of NCCL and a kernel of the name."""
    for rank in (0, 1):
        nsys = plain(rank).recorder(rank).range(NAME, 0, 10).range(NAME, 20, 30, registered=True)
        nsys.range(f"nccl {NAME}", 5, 6).gpu(900, 910, name=NAME).write(
            folder / f"rank{rank}.sqlite"
        )
    return folder


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("option", ["--step-range", "--comm-kernel"])
def test_an_expression_that_takes_for_ever_is_one_line(tmp_path, monkeypatch, before, jobs, option):
    done = quick(monkeypatch, exports(tmp_path), option, FOR_EVER, "--jobs", jobs)
    assert_refused(done, f"{option} {FOR_EVER!r} takes more than 0.2 s", NAME[:30], "nested")


def test_it_is_one_line_for_a_trace_of_torch_too(tmp_path, monkeypatch):
    plain_kineto().gpu(900, 910, name=NAME).write(tmp_path / "rank0.json")
    done = quick(monkeypatch, tmp_path, "--comm-kernel", FOR_EVER)
    assert_refused(done, "--comm-kernel", "takes more than")


def test_it_is_one_line_for_a_range_of_the_collectives_library(tmp_path, monkeypatch):
    """That is wanted without a question, and asked about when steps are looked for."""
    Nsys().range(f"nccl {NAME}", 0, 10).gpu(1, 2).write(tmp_path / "rank0.sqlite")
    assert_refused(quick(monkeypatch, tmp_path, "--step-range", FOR_EVER), "--step-range", NAME[:9])


def test_it_is_one_line_for_an_export_to_parquet(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from test_nsys_parquet import export

    folder = export(plain().range(NAME, 0, 10), tmp_path / "rank0_pqtdir")
    assert_refused(quick(monkeypatch, folder, "--step-range", FOR_EVER), "--step-range")


def test_all_names_together_have_the_time(before):
    """Each of them takes a part of it."""
    slow = UserExpression(r"(a|a)*b", "--step-range")
    started = time.process_time()
    names = ("a" * 14 + str(number) for number in range(10_000))
    with pytest.raises(UsageError, match="takes more than"):
        any(map(slow.search, names))
    assert time.process_time() - started < 2


def test_a_name_is_asked_about_once(before):
    class Counting:
        asked = 0

        def search(self, string):
            self.asked += 1

    expression = UserExpression("a", "--step-range")
    expression._compiled = Counting()
    assert [expression.search("b") for _ in range(3)] == [None] * 3
    assert expression._compiled.asked == 1


def test_in_another_thread_everything_works_without_a_limit(tmp_path):
    """Python handles signals in the main thread alone."""
    found = []
    exports(tmp_path)
    thread = threading.Thread(
        target=lambda: found.append(load_run(tmp_path, step_range="one two", jobs=1))
    )
    thread.start()
    thread.join()
    assert [len(trace.marks) for trace in found[0].traces] == [2, 2]
