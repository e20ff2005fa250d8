"""What the times of an export count from."""

from __future__ import annotations

from folders import codes
from nsys_exports import SESSION_NS, plain, two_ranks
from shapes import PLAIN, figures

from ddptrace import analyze, load_run


def moments(run):
    """Return for each recording its clock and the start of its first operation."""
    return [(trace.clock, trace.start_ns) for trace in run.traces]


def test_times_are_the_sessions_start_in_utc_and_the_time_of_the_event(tmp_path):
    plain().write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    assert moments(run) == [("unix", SESSION_NS + 100_000)]
    assert run.traces[0].marks[0].start_ns == SESSION_NS
    assert run.traces[0].host.start_ns[0] == SESSION_NS
    assert analyze(run).run.origin_ns == str(SESSION_NS)


def test_two_sessions_of_one_host_have_one_clock(tmp_path):
    """The second session began 1 ms later; both ranks work at the same time of day."""
    plain(0).write(tmp_path / "rank0.sqlite")
    later = plain(1, nsys=None)
    later.tables["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"] += 1_000_000
    later.write(tmp_path / "rank1.sqlite")
    run = load_run(tmp_path)
    assert [start for _, start in moments(run)] == [SESSION_NS + 100_000, SESSION_NS + 1_100_000]
    assert "no_common_clock" not in codes(run)


def test_normalized_times_already_count_from_1970(tmp_path):
    nsys = plain().row("META_DATA_EXPORT", name="EXPORT_PARAM_TIME_NORMALIZE", value="true")
    for rows in nsys.tables.values():
        for row in rows:
            row |= {key: row[key] + SESSION_NS for key in ("start", "end") if key in row}
    nsys.write(tmp_path / "rank0.sqlite")
    run = load_run(tmp_path)
    assert moments(run) == [("unix", SESSION_NS + 100_000)]
    assert figures(analyze(run).steps[0]) == PLAIN


def test_without_the_sessions_start_our_recorders_mark_tells_the_time(tmp_path):
    """The mark was made 40 µs into the session, at a known time of day, for both ranks' sake."""
    nsys = two_ranks(session_ns=None).process(4100).recorder(0, at=40, utc_ns=SESSION_NS)
    nsys.process(4101).recorder(1, at=43, utc_ns=SESSION_NS + 7000)
    nsys.write(tmp_path / "run.sqlite")
    assert moments(load_run(tmp_path)) == [("unix", SESSION_NS + 60_000)] * 2


def test_the_sessions_start_counts_before_the_mark(tmp_path):
    plain().recorder(0, world_size=1, at=40, utc_ns=5).write(tmp_path / "rank0.sqlite")
    assert moments(load_run(tmp_path)) == [("unix", SESSION_NS + 100_000)]


def test_with_neither_the_times_count_from_an_unknown_moment(tmp_path):
    for rank in (0, 1):
        nsys = plain(rank)
        nsys.tables["TARGET_INFO_SESSION_START_TIME"].clear()
        nsys.write(tmp_path / f"rank{rank}.sqlite")
    run = load_run(tmp_path)
    assert moments(run) == [("relative", 100_000)] * 2
    assert "no_common_clock" in codes(run)
    assert [figures(row) for row in analyze(run).steps] == [PLAIN, PLAIN]


def test_ranks_of_one_report_share_its_clock_whatever_that_counts_from(tmp_path):
    two_ranks(session_ns=None).write(tmp_path / "run.sqlite")
    run = load_run(tmp_path)
    assert [clock for clock, _ in moments(run)] == ["relative", "relative"]
    assert "no_common_clock" not in codes(run)
