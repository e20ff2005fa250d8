"""`ddptrace history` as a user meets it, and `ddptrace check --history`."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
from contextlib import closing
from functools import partial
from pathlib import Path

import plotly.graph_objects as go
import pytest
from calling import call, csv, refused
from histories import figures, history, timed
from pages import HOSTILE, Page
from traces import Kineto, plain

from ddptrace.history import schema
from ddptrace.history.revision import Revision, revision
from ddptrace.history.runs import Choice, Entry, add, figures_of, slowest_ledgers, stored_runs
from ddptrace.history.store import reading, writing
from ddptrace.outputs.history import render_list, render_run
from ddptrace.outputs.history_page import render
from ddptrace.outputs.terminal import Destination

OLD = Path(__file__).parent / "data" / "history_v1.db.gz"
CI = ("GITHUB_SHA", "GITHUB_REF_NAME", "GITHUB_HEAD_REF", "CI_COMMIT_SHA", "CI_COMMIT_REF_NAME")


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Run in a folder that is no repository, on no CI system."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in CI:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ddptrace(monkeypatch):
    return partial(call, monkeypatch)


def steps_run(folder, step_us, ranks=2):
    """Write a run of eight steps of this length on each rank."""
    for rank in range(ranks):
        kineto = Kineto(rank=rank, world_size=ranks)
        for number in range(8):
            kineto.step(number, number * step_us, (number + 1) * step_us)
            kineto.gpu(number * step_us + 10, (number + 1) * step_us - 10)
        kineto.write(folder / f"rank{rank}.json")
    return folder


# --- add ---


def test_a_run_is_added_with_all_of_its_ranks_and_said_once_it_is_there(ddptrace, tmp_path):
    steps_run(tmp_path / "run", 1000)
    done = ddptrace("history", "add", "run", "--db", "h.db", "--tag", "a", "--tag", "b")
    assert (done.code, done.stdout, done.stderr) == (0, "added as run 1 of h.db\n", "")
    with reading(Path("h.db")) as database:
        (run,) = stored_runs(database)
    assert (run.name, run.ranks, run.tags, run.commit, run.branch) == (
        "run", [0, 1], ["a", "b"], None, None
    )  # fmt: skip
    assert (run.step_ns, run.counted_steps) == (1_000_000, 7)


def test_the_same_run_is_noticed_and_not_added_again(ddptrace, tmp_path):
    for folder in ("run", "copy"):
        steps_run(tmp_path / folder, 1000)
    ddptrace("history", "add", "run", "--db", "h.db")
    done = ddptrace("history", "add", "copy", "--history", "h.db")
    assert (done.code, done.stdout) == (
        0, "nothing added: the same steps are there already as run 1 of h.db\n"
    )  # fmt: skip


def test_a_saved_report_is_the_run_that_it_was_made_from(ddptrace, tmp_path):
    steps_run(tmp_path / "run", 1000)
    ddptrace("report", "run", "--json", "report.json")
    ddptrace("history", "add", "run", "--db", "h.db")
    assert "nothing added" in ddptrace("history", "add", "report.json", "--db", "h.db").stdout


def test_step_times_and_every_run_of_a_baseline_can_be_added(ddptrace, tmp_path):
    csv(tmp_path / "a.csv", 10)
    csv(tmp_path / "b.csv", 11)
    ddptrace("check", "a.csv", "b.csv", "--save-baseline", "base.json")
    done = ddptrace("history", "add", "base.json", "--db", "h.db")
    assert done.stdout == "added as run 1 of h.db\nadded as run 2 of h.db\n"
    assert "already as run 2" in ddptrace("history", "add", "b.csv", "--db", "h.db").stdout
    csv(tmp_path / "times.txt", 12)
    done = ddptrace("history", "add", "--steps", "times.txt", "--db", "h.db")
    assert done.stdout == "added as run 3 of h.db\n"
    for words in (["--steps", "a.csv", "b.csv"], []):
        refused(ddptrace("history", "add", *words, "--db", "h.db"), "give the RUN to add, or")


def test_step_times_of_several_files_are_a_run_each(ddptrace, tmp_path):
    first, second = csv(tmp_path / "a.csv", 10), csv(tmp_path / "b.csv", 11)
    done = ddptrace("history", "add", "--steps", first, "--steps", second, "--db", "h.db")
    assert [line.partition(" of ")[0] for line in done.stdout.splitlines()] == [
        "added as run 1", "added as run 2"
    ]  # fmt: skip


def test_a_run_that_is_there_already_can_become_a_new_start(ddptrace, tmp_path):
    csv(tmp_path / "a.csv", 10)
    csv(tmp_path / "b.csv", 11)
    ddptrace("check", "a.csv", "b.csv", "--save-baseline", "base.json")
    ddptrace("history", "add", "base.json", "--db", "h.db")
    done = ddptrace("history", "add", "b.csv", "--db", "h.db", "--new-start")
    assert done.stdout.endswith("already as run 2 of h.db, which is a new start now\n")
    assert "(new start)  b.csv" in ddptrace("history", "list", "--db", "h.db").stdout
    assert "new start: earlier runs" in ddptrace("history", "show", 2, "--db", "h.db").stdout
    done = ddptrace("history", "add", "base.json", "--db", "other.db", "--new-start")
    with reading(Path("other.db")) as database:
        assert [run.starts_anew for run in stored_runs(database)] == [True, False]


def test_nothing_is_made_for_a_run_that_has_no_usable_step(ddptrace, tmp_path):
    Kineto(rank=0, world_size=1).gpu(0, 100).write(tmp_path / "run" / "rank0.json")
    refused(ddptrace("history", "add", "run", "--db", "h.db"), "has no usable step")
    assert not (tmp_path / "h.db").exists()


def test_a_run_without_a_whole_rank_is_noted_and_is_unlike_whole_ones(ddptrace, tmp_path):
    ddptrace("history", "add", steps_run(tmp_path / "whole", 1000), "--db", "h.db")
    cut = steps_run(tmp_path / "cut", 1001) / "rank1.json"
    cut.write_bytes(cut.read_bytes()[:3000])
    done = ddptrace("history", "add", "cut", "--db", "h.db")
    assert (done.code, done.stdout) == (0, "added as run 2 of h.db\n")
    assert "rank 1 is PARTIAL" in done.stderr
    with reading(Path("h.db")) as database:
        assert [run.ranks for run in stored_runs(database)] == [[0, 1], [0]]
    done = ddptrace("check", steps_run(tmp_path / "now", 1002), "--history", "h.db")
    assert "1 comparable run of the history (1); 1 run left out, unlike" in done.stdout


def test_what_cannot_be_is_refused_before_the_run_is_read(ddptrace, tmp_path):
    (tmp_path / "text.db").write_text("no database" * 1000)
    for db, words in (
        (tmp_path, "is a folder"), ("no/h.db", "no such folder"), ("text.db", "no SQLite database")
    ):  # fmt: skip
        refused(ddptrace("history", "add", "no such run", "--db", db), words)
    refused(ddptrace("history", "add", "run", "--db", "h.db", "--tag", " "), "--tag: ")


def test_where_there_is_no_log_it_is_said(ddptrace, tmp_path, monkeypatch):
    monkeypatch.setattr("ddptrace.history.store.shared_file_system", lambda _: "nfs4")
    csv(tmp_path / "a.csv", 10)
    done = ddptrace("history", "add", "a.csv", "--db", "h.db")
    assert (done.code, done.stdout) == (0, "added as run 1 of h.db\n")
    assert done.stderr.startswith("h.db: is on nfs4, where SQLite has no write-ahead log")


# --- commit and branch ---


def test_what_is_given_comes_before_what_the_ci_system_tells(monkeypatch):
    monkeypatch.setenv("GITHUB_SHA", "aaa")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    assert revision(None, None) == Revision("aaa", "main")
    assert revision("ccc", None) == Revision("ccc", "main")
    assert revision(None, "mine") == Revision("aaa", "mine")


def test_the_branch_of_a_pull_request_is_its_own(monkeypatch):
    monkeypatch.setenv("GITHUB_REF_NAME", "7/merge")
    monkeypatch.setenv("GITHUB_HEAD_REF", "mine")
    assert revision(None, None).branch == "mine"
    monkeypatch.setenv("GITHUB_HEAD_REF", "")  # as it is of a push
    assert revision(None, None).branch == "7/merge"


def test_gitlab_tells_them_too(monkeypatch):
    monkeypatch.setenv("CI_COMMIT_SHA", "bbb")
    monkeypatch.setenv("CI_COMMIT_REF_NAME", "feature")
    assert revision(None, None) == Revision("bbb", "feature")


def test_else_git_tells_them_where_there_is_a_repository(tmp_path, monkeypatch):
    assert revision(None, None) == Revision(None, None)

    def git(*words):
        settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        command = ["git", *settings, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q", "-b", "topic")
    assert revision(None, None) == Revision(None, "topic")
    git("commit", "-q", "--allow-empty", "-m", "first")
    assert revision(None, None) == Revision(git("rev-parse", "HEAD"), "topic")
    git("checkout", "-q", "--detach")
    assert revision(None, None).branch is None
    monkeypatch.setenv("PATH", str(tmp_path))  # and no git at all
    assert revision(None, None) == Revision(None, None)


# --- list and show ---


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "h.db"
    with writing(path) as writer:
        for step_ms, commit, branch, tags in (
            (10, "a" * 40, "main", ("nightly",)), (11, None, None, ()), (12, "c", "main", ()),
        ):  # fmt: skip
            entry = Entry(
                figures(step_ms, name=f"run of {step_ms}"), Revision(commit, branch), tags
            )
            add(writer, entry)
    return path


def test_a_list_has_a_line_a_run_in_the_order_of_adding(ddptrace, filled):
    lines = ddptrace("history", "list", "--db", filled).stdout.splitlines()
    assert lines[0].split() == (
        ["run", "added", "(UTC)", "step", "steps", "ranks", "commit", "branch", "tags", "from"]
    )  # fmt: skip
    assert [line.split()[0] for line in lines[1:4]] == ["1", "2", "3"]
    assert lines[1].split()[3:] == (
        ["10.00", "10", "0-1", "a" * 12, "main", "nightly", "run", "of", "10"]
    )  # fmt: skip
    assert lines[2].split()[3:] == ["11.00", "10", "0-1", "-", "-", "run", "of", "11"]
    assert lines[4] == "3 runs; ms, medians of the steps"


def test_a_list_can_be_of_a_branch_a_tag_and_the_last_ones(ddptrace, filled):
    listed = ddptrace("history", "list", "--db", filled, "--branch", "main", "--last", 1)
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:2]] == ["3"]
    assert "2 runs of branch main, the last 1 shown" in listed.stdout
    none = ddptrace("history", "list", "--db", filled, "--tag", "nightly", "--branch", "x")
    assert (none.code, none.stdout) == (0, "no run of branch x with tag nightly\n")


def test_json_holds_what_the_list_shows_and_is_alone_on_stdout(ddptrace, filled, tmp_path):
    done = ddptrace("history", "list", "--db", filled, "--json", "-")
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    assert [run["number"] for run in document["runs"]] == [1, 2, 3]
    assert document["runs"][1]["commit"] is None
    assert document["runs"][0]["step_ns"] == 10_000_000
    ddptrace("history", "show", 2, "--db", filled, "--json", "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    assert document["run"]["name"] == "run of 11"
    assert [row["step_ns"] for row in document["ranks"]] == [11_000_000] * 2
    assert document["ranks"][0]["tail_ns"] is None


def test_a_run_is_shown_with_its_setup_and_ranks(ddptrace, filled):
    text = ddptrace("history", "show", 1, "--db", filled).stdout
    for line in (
        "commit: " + "a" * 40, "branch: main", "tags: nightly", "gpu: NVIDIA H200", "ranks: 0-1",
        "step: 10.00 ms, the median of 10 steps", "rank   step  exposed", "   0  10.00     1.00",
    ):  # fmt: skip
        assert f"{line}\n" in text
    assert "idle" not in text  # which no rank of this run tells


def test_times_without_a_profiler_have_a_column_where_any_run_has_them(tmp_path):
    path = history(tmp_path / "h.db", 10, timed(8))
    with reading(path) as database:
        runs = stored_runs(database)
    lines = render_list(runs, 2, Choice(), Destination()).splitlines()
    assert lines[0].split()[3:5] == ["step", "untraced"]
    assert lines[1].split()[3:6] == ["10.00", "-", "10"]
    assert lines[2].split()[3:6] == ["-", "8.00", "50"]
    assert "untraced: steps without a profiler" in lines[3]


def test_a_narrow_terminal_gets_lines_instead_of_a_table(tmp_path):
    path = history(tmp_path / "h.db", 10)
    with reading(path) as database:
        (run,) = stored_runs(database)
    narrow = Destination(width=40)
    assert "run 1  added (UTC) 2" in render_list([run], 1, Choice(), narrow)
    row = dict.fromkeys(schema.FIGURES, 1_000_000) | {"rank": 0, "timed_step_ns": None}
    assert "rank 0\n  step         1.00\n" in render_run(run, [row], Destination(width=24))


def test_what_is_not_there_is_one_line(ddptrace, filled, tmp_path):
    refused(ddptrace("history", "show", 9, "--db", filled), "the history has no run 9")
    for words in (["list"], ["show", "1"], ["plot", "-o", "x.html"]):
        refused(ddptrace("history", *words, "--db", "no.db"), "no.db: no such history")
    assert not (tmp_path / "no.db").exists()


def test_no_output_takes_the_place_of_the_history(ddptrace, filled):
    for words in (["list"], ["show", "1"]):
        done = ddptrace("history", *words, "--db", filled, "--json", filled)
        refused(done, "is the history itself")
    assert ddptrace("history", "list", "--db", filled).code == 0


# --- plot ---


def test_the_page_has_every_run_and_its_bytes_are_the_same_each_time(ddptrace, filled, tmp_path):
    for name in ("one.html", "two.html"):
        done = ddptrace("history", "plot", "--db", filled, "-o", name)
        assert (done.code, done.stderr) == (0, f"wrote {name}\n")
    first = (tmp_path / "one.html").read_text()
    assert first == (tmp_path / "two.html").read_text()
    page = Page(first)
    charts = page.charts
    assert [line["x"] for line in charts["steps"]["data"]] == [[1, 2, 3]]
    assert [line["y"] for line in charts["steps"]["data"]] == [[10.0, 11.0, 12.0]]
    stacks = {bars["name"]: bars["y"] for bars in charts["parts"]["data"]}
    assert stacks == {
        "compute": [9.0, 10.0, 11.0], "exposed communication": [1.0] * 3,
        "exposed copies": [0.0] * 3, "idle": [0.0] * 3,
    }  # fmt: skip
    assert page.tags.count("tr") == 4


def test_the_page_loads_nothing(ddptrace, filled, tmp_path):
    ddptrace("history", "plot", "--db", filled, "-o", "x.html")
    page = Page((tmp_path / "x.html").read_text())
    assert not {"src", "srcset", "action"} & {name for name, _ in page.attributes}
    assert [value for name, value in page.attributes if name == "href"] == ["data:,"]
    assert any("default-src 'none'" in (value or "") for _, value in page.attributes)


def test_names_are_text_and_never_markup(tmp_path):
    path = tmp_path / "h.db"
    with writing(path) as writer:
        run = figures(10, name=HOSTILE, gpu=HOSTILE)
        add(writer, Entry(run, Revision(HOSTILE, HOSTILE), (HOSTILE,)))
    with reading(path) as database:
        text = render(stored_runs(database), slowest_ledgers(database), Choice(HOSTILE))
    page = Page(text)
    assert "img" not in page.tags
    assert page.tags.count("script") == 2  # plotly and ours; the data has an id
    assert page.all_text.count(HOSTILE) >= 4
    (line,) = page.charts["steps"]["data"]
    assert line["customdata"][0][0] == "scriptimgsrc"


def test_runs_that_are_set_up_otherwise_have_a_line_of_their_own(tmp_path):
    path = history(tmp_path / "h.db", 10, figures(20, gpu="A100"), 11, timed(9))
    with reading(path) as database:
        page = Page(render(stored_runs(database), slowest_ledgers(database), Choice()))
    lines = page.charts["steps"]["data"]
    assert [(line["x"], line["line"]["dash"]) for line in lines] == [
        ([1, 3], "solid"), ([4], "dot"), ([2], "solid")
    ]  # fmt: skip
    assert lines[0]["line"]["color"] == lines[1]["line"]["color"] != lines[2]["line"]["color"]
    assert "setup 2: A100, 2 ranks, torch 2.9" in page.all_text
    assert page.charts["parts"]["data"][0]["x"] == [1, 2, 3]


def test_the_charts_are_what_plotly_takes_and_show_where_runs_start_anew(tmp_path):
    path = history(tmp_path / "h.db", 10, timed(9))
    with writing(path) as writer:
        add(writer, Entry(figures(12), Revision(None, None), starts_anew=True))
    with reading(path) as database:
        page = Page(render(stored_runs(database), slowest_ledgers(database), Choice()))
    for chart in page.charts.values():
        figure = go.Figure(data=chart["data"], layout=chart["layout"])
        assert [shape.x0 for shape in figure.layout.shapes] == [2.5]
    assert "Dotted: steps without a profiler. Dashed: here a run starts anew" in page.all_text
    assert page.charts["steps"]["layout"]["yaxis"]["rangemode"] == "normal"
    assert page.charts["parts"]["layout"]["yaxis"]["rangemode"] == "tozero"


def test_a_page_of_step_times_alone_has_no_parts(tmp_path):
    path = history(tmp_path / "h.db", timed(9))
    with reading(path) as database:
        page = Page(render(stored_runs(database), slowest_ledgers(database), Choice()))
    assert set(page.charts) == {"steps"}
    assert "div#parts" not in page.tags


def test_a_page_that_cannot_be_is_refused(ddptrace, filled):
    refused(ddptrace("history", "plot", "--db", filled, "-o", "-"), "--output needs a file")
    refused(ddptrace("history", "plot", "--db", filled, "-o", filled), "is the history itself")
    words = "has no run of branch x, so there is nothing to draw"
    refused(ddptrace("history", "plot", "--db", filled, "-o", "x.html", "--branch", "x"), words)


# --- check ---


@pytest.mark.parametrize(
    "damage",
    [
        "runs set fingerprint = 'xx'",
        "runs set fingerprint = '[1]'",
        "runs set fingerprint = x'00'",
        "runs set timed_step_ns = 'long'",
        "runs set step_ns = 0.5",
        "runs set counted_steps = 'many'",
        "runs set branch = x'00ff'",
        "runs set added_at = x'00'",
        "runs set document = x'00'",
        "ranks set step_ns = 'long'",
        "ranks set ledger_compute_ns = 'long'",
    ],
)
def test_a_column_that_holds_something_else_is_one_line(ddptrace, tmp_path, damage):
    path = history(tmp_path / "h.db", 10, 10)
    csv(tmp_path / "now.csv", 10)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"update {damage}")
        connection.commit()
    ends = []
    for words in (
        ("history", "list", "--db", path),
        ("history", "show", "1", "--db", path),
        ("history", "plot", "--db", path, "-o", tmp_path / "x.html"),
        ("check", "--steps", tmp_path / "now.csv", "--history", path),
    ):
        done = ddptrace(*words)
        assert done.code in (0, 2)
        ends += done.stderr.splitlines() if done.code else []
    assert any("run 1 of the history" in line for line in ends)
    assert all(line.startswith("ddptrace: ") for line in ends)


@pytest.mark.parametrize(("step_us", "code"), [(1020, 0), (1100, 1)])
def test_a_run_is_held_against_the_history(ddptrace, tmp_path, step_us, code):
    for number, length in enumerate((999, 1000, 1001)):
        ddptrace("history", "add", steps_run(tmp_path / f"{number}", length), "--db", "h.db")
    limit = ["--fail-on", "step:3%,min=1us"]
    done = ddptrace("check", steps_run(tmp_path / "now", step_us), "--history", "h.db", *limit)
    assert done.code == code
    assert f"1.00     {step_us / 1000:.2f}" in done.stdout
    assert "the baseline is the median of 3 comparable runs of the history (1-3)" in done.stdout
    one = ddptrace("check", "now", "--history", "h.db", "--window", 1, *limit)
    assert "1 comparable run of the history (3)" in one.stdout


def test_branch_tags_and_allowed_differences_choose_the_runs(ddptrace, tmp_path):
    history(tmp_path / "h.db", timed(10), branch="main")
    history(tmp_path / "h.db", timed(20), branch="other", tags=["t"])
    csv(tmp_path / "now.csv", 20)
    check = ("check", "now.csv", "--history", "h.db")
    assert ddptrace(*check, "--branch", "main").code == 1
    assert ddptrace(*check, "--branch", "other", "--tag", "t").code == 0
    refused(ddptrace(*check, "--branch", "none"), "h.db: the history has no run of branch none")


def test_a_run_of_another_branch_is_not_said_to_be_of_this_one(ddptrace, tmp_path):
    now = csv(tmp_path / "now.csv", 10)
    ddptrace("history", "add", "--steps", now, "--db", "h.db", "--branch", "dev")
    for branch, words in (("main", "branch main; add one"), ("dev", "branch dev besides this one")):
        done = ddptrace("check", "--steps", now, "--history", "h.db", "--branch", branch)
        refused(done, f"has no run of {words}")


def test_a_check_does_not_change_the_history(ddptrace, tmp_path):
    history(tmp_path / "h.db", timed(10))
    before = (tmp_path / "h.db").read_bytes()
    ddptrace("check", csv(tmp_path / "now.csv", 10), "--history", "h.db")
    assert (tmp_path / "h.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["h.db", "now.csv"]


def test_options_that_have_no_meaning_together_are_refused(ddptrace, tmp_path):
    csv(tmp_path / "a.csv", 10)
    history(tmp_path / "h.db", timed(10))
    both = ("--history", "h.db", "--baseline", "a.csv")
    refused(ddptrace("check", "a.csv", *both), "--history and --baseline: give one of them")
    for option in (("--window", 3), ("--branch", "x"), ("--tag", "x")):
        done = ddptrace("check", "a.csv", "--baseline", "a.csv", *option)
        refused(done, f"{option[0]}: is about the runs of --history")
    refused(
        ddptrace("check", "a.csv"),
        "give --baseline with what to hold the run against, or --history",
    )
    refused(ddptrace("check", "a.csv", "--history", "no.db"), "no.db: no such history")


# --- files of before ---


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "old.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    return path


def test_a_history_of_the_first_version_is_read_as_it_is(ddptrace, old):
    before = old.read_bytes()
    done = ddptrace("history", "list", "--db", old, "--json", "-")
    assert [
        (run["number"], run["branch"], run["tags"], run["step_ns"], run["timed_step_ns"],
         run["starts_anew"])
        for run in json.loads(done.stdout)["runs"]
    ] == [
        (1, "main", ["nightly"], 10_000_000, None, False),
        (2, "main", ["nightly"], None, 8_000_000, False),
        (3, "odd 'name'", [], 11_000_000, None, False),
    ]  # fmt: skip
    assert old.read_bytes() == before


def test_adding_brings_a_history_of_the_first_version_up_to_date_with_all_it_holds(old):
    def content():
        with closing(sqlite3.connect(old)) as connection:
            columns = "id, digest, added_at, name, branch, fingerprint, document"
            runs = connection.execute(f"select {columns} from runs where id < 4").fetchall()
            ranks = connection.execute("select * from ranks where run_id < 4").fetchall()
            version = connection.execute("pragma user_version").fetchone()[0]
        return version, runs, ranks

    before = content()
    history(old, 12)
    after = content()
    assert (before[0], after[0]) == (1, schema.VERSION)
    assert before[1:] == after[1:]
    assert (len(after[1]), len(after[2])) == (3, 5)
    with reading(old) as database:
        assert [run.number for run in stored_runs(database)] == [1, 2, 3, 4]
        assert figures_of(database, [3])[0].fingerprint["gpu"] == "NVIDIA A100"


def test_the_tables_of_an_old_history_become_those_of_a_new_one(old, tmp_path):
    def tables(path):
        with closing(sqlite3.connect(path)) as connection:
            names = connection.execute("select name from sqlite_master where type != 'index'")
            return {
                name: [row[1:4] for row in connection.execute(f"pragma table_info({name})")]
                for (name,) in names.fetchall()
            }

    history(old, 12)
    assert tables(old) == tables(history(tmp_path / "new.db", 12))


def test_a_migration_that_is_stopped_leaves_the_old_history(old, monkeypatch):
    def broken(connection):
        connection.execute("alter table runs add column x")
        raise KeyboardInterrupt

    before = old.read_bytes()
    monkeypatch.setattr(schema, "_STEPS", (schema._first, broken))
    with pytest.raises(KeyboardInterrupt):
        history(old, 12)
    monkeypatch.undo()
    with closing(sqlite3.connect(old)) as connection:
        assert connection.execute("pragma user_version").fetchone() == (1,)
        assert "x" not in {row[1] for row in connection.execute("pragma table_info(runs)")}
    assert len(before) == len(old.read_bytes())


def test_a_plain_trace_with_few_steps_can_be_added(ddptrace, tmp_path):
    plain(0, world_size=1).write(tmp_path / "rank0.json")
    assert ddptrace("history", "add", "rank0.json", "--db", "h.db").code == 0
