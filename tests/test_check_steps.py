"""Step times alone: what a CSV file may look like, and runs that were only timed."""

import pytest
from captured import captured, rank_entry, write_manifest
from check_runs import checked, steps_of

from ddptrace.check.step_times import read_csv, timed_run
from ddptrace.errors import RunError


def written(folder, text, name="steps.csv", encoding="utf-8"):
    path = folder / name
    path.write_text(text, encoding=encoding)
    return path


def read(folder, text, **options):
    """Return the steps and times of each rank."""
    found = read_csv(written(folder, text, **options)).timed
    return {one.rank: dict(zip(one.steps, one.values["step"], strict=True)) for one in found}


@pytest.mark.parametrize(
    "header", ["step_ms", "ms", "time (ms)", "Step Time [ms]", "step_time_ms", "duration_ms", "MS"]
)
def test_the_unit_is_the_end_of_the_columns_name(tmp_path, header):
    assert read(tmp_path, f"{header}\n10\n10.5\n") == {0: {0: 10_000_000, 1: 10_500_000}}


@pytest.mark.parametrize(
    ("header", "cell", "ns"),
    [
        ("step_ns", "1500", 1500),
        ("step_us", "1.5", 1500),
        ("step_µs", "1.5", 1500),
        ("step_s", "0.0000015", 1500),
        ("seconds", "1.5e-6", 1500),
        ("step_ms", "0.1234567", 123_457),
    ],
)
def test_times_are_read_to_the_nanosecond(tmp_path, header, cell, ns):
    assert read(tmp_path, f"{header}\n{cell}\n") == {0: {0: ns}}


def test_ranks_and_numbers_of_steps_are_told_by_their_columns(tmp_path):
    text = "rank,step,loss,step_ms\n0,7,0.1,10\n1,7,0.1,11\n0,8,0.1,12\n1,8,0.1,9\n"
    assert read(tmp_path, text) == {
        0: {7: 10_000_000, 8: 12_000_000},
        1: {7: 11_000_000, 8: 9_000_000},
    }
    found = checked(read_csv(tmp_path / "steps.csv"), read_csv(tmp_path / "steps.csv"))
    assert found.limits[0].baseline_ns == 11_500_000


def test_the_step_is_chosen_where_other_columns_are_times_too(tmp_path):
    assert read(tmp_path, "step_ns,compute_ns\n5,4\n") == {0: {0: 5}}


@pytest.mark.parametrize(
    "text",
    ["\n\nstep_ms\n\n10\n\n11\n\n", "step_ms\r\n10\r\n11\r\n", "\ufeffstep_ms\n10\n11\n",
     '"step_ms"\n"10"\n"11"\n', "step_ms,\n10,\n11,\n", " step_ms \n 10 \n 11"],
)  # fmt: skip
def test_what_editors_and_spreadsheets_leave_is_no_matter(tmp_path, text):
    assert read(tmp_path, text) == {0: {0: 10_000_000, 1: 11_000_000}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no step times; name the column"),
        ("\n \n", "holds no step times"),
        ("step_ms\n", "holds no step times below its header"),
        ("10\n11\n", "no column in its first line has step times; name the column"),
        ("step\n10\n", "no column in its first line"),
        ("loss,accuracy\n1,2\n", "no column in its first line"),
        ("forward_ms,backward_ms\n1,2\n", "more than one column"),
        ("step_ms\nfast\n", "line 2: 'fast' is no step time"),
        ("step_ms\n10\n\nnan\n", "line 4: 'nan' is no step time"),
        ("step_ms\ninf\n", "is no step time"),
        ("step_ms\n-1\n", "'-1' is no step time"),
        ("step_ms\n0\n", "line 2: '0' is no step time"),
        ("step_ms\n0.0000004\n", "line 2: '0.0000004' is no step time: it is less than 1 ns"),
        ("step_ms\n12\n12,0\n", "line 3 has more cells than the first line; write times with"),
        ("step_ms\n1e30\n", "is no step time"),
        ("step_ms\n1e999999999\n", "is no step time"),
        ("step,step_ms\n1,10\n1,11\n", "line 3 has step 1 of its rank again"),
        ("step,step_ms\n1.5,10\n", "'1.5' is no number of a rank or step"),
        ("rank,step_ms\n-1,10\n", "'-1' is no number"),
        ("rank,step_ms\n9999999,10\n", "is no number"),
        ("rank,step_ms\n0\n", "line 2 has fewer cells"),
        ('step_ms\n"' + "1" * 200_000 + "\n", "field larger than field limit"),
    ],
)
def test_anything_else_is_refused_in_one_line(tmp_path, text, words):
    with pytest.raises(RunError) as refused:
        read_csv(written(tmp_path, text))
    assert str(refused.value).startswith(f"{tmp_path / 'steps.csv'}: ")
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "steps.csv").write_bytes(b"step_ms\n\xff\xfe\x00")
    with pytest.raises(RunError, match="it is no text"):
        read_csv(tmp_path / "steps.csv")
    with pytest.raises(RunError, match="cannot be read"):
        read_csv(tmp_path / "none.csv")


def test_step_times_are_held_against_each_other(tmp_path):
    def times(step_us, name):
        text = "step_us\n" + "\n".join(map(str, steps_of(step_us)))
        return read_csv(written(tmp_path, text, name=name))

    base = times(10_000, "base.csv")
    assert checked(base, times(11_000, "now.csv")).exit_code == 1
    assert checked(base, times(10_100, "now.csv")).exit_code == 0
    assert checked(base, times(11_000, "now.csv"), "idle:5%").exit_code == 2


# --- runs that were timed and not recorded ---


def timed_rank(rank, step_us, count=20, **facts):
    times = {"first_step": 11, "block_ns": 1, "step_ns": [round(step_us * 1000)] * count}
    plain = {"files": [], "parts": [], "status": "timed", "unprofiled": times, "device": "H200"}
    return rank_entry(rank, **plain | facts)


def test_a_run_that_was_only_timed_tells_its_steps_and_how_it_was_set_up(tmp_path):
    ddp = [{"initial_bucket_bytes": [1, 2], "rebuilt_bucket_bytes": [3, 4]}]
    ranks = [timed_rank(rank, 1000 + rank, ddp=ddp, backend="nccl") for rank in (0, 1)]
    options = {"step_mark": None}
    write_manifest(tmp_path, *ranks, versions={"torch": "2.11"}, options=options)
    found = timed_run(tmp_path)
    assert [(one.rank, one.steps[0], len(one.steps)) for one in found.timed] == [
        (0, 11, 20),
        (1, 11, 20),
    ]
    assert found.fingerprint == {
        "gpu": "H200", "world_size": 2, "ranks": [0, 1], "backend": "nccl",
        "torch_version": "2.11", "step_mark": "optimizer", "buckets": [3, 4],
    }  # fmt: skip


def test_runs_that_were_only_timed_are_checked(tmp_path):
    for name, step_us in (("base", 1000), ("same", 1020), ("slow", 1100)):
        write_manifest(tmp_path / name, timed_rank(0, step_us))
    base = timed_run(tmp_path / "base")
    assert checked(base, timed_run(tmp_path / "same")).exit_code == 0
    assert checked(base, timed_run(tmp_path / "slow")).exit_code == 1


def test_a_timed_run_is_held_against_a_recorded_one_by_the_steps_of_both_without_a_profiler(
    tmp_path,
):
    from ddptrace import load_run
    from ddptrace.check.measured import figures_of

    recorded = figures_of(load_run(captured(tmp_path / "recorded")))
    ranks = [timed_rank(rank, 1200, device=None) for rank in (0, 1)]
    write_manifest(tmp_path / "timed", *ranks)
    found = checked(recorded, timed_run(tmp_path / "timed"))
    assert (found.exit_code, found.limits[0].source) == (1, "timed")
    assert found.limits[0].baseline_ns == 1_000_000


def test_the_nodes_of_a_timed_run_are_one_run(tmp_path):
    for node in (0, 1):
        write_manifest(tmp_path / f"node{node}", timed_rank(node, 1000), world_size=2)
    assert timed_run(tmp_path).ranks == [0, 1]


def test_a_run_whose_recordings_are_lost_was_not_only_timed(tmp_path):
    write_manifest(tmp_path, rank_entry(0))
    assert timed_run(tmp_path) is None


def test_a_folder_without_times_is_no_timed_run(tmp_path):
    assert timed_run(tmp_path) is None
    write_manifest(tmp_path, timed_rank(0, 1000, count=0))
    assert timed_run(tmp_path) is None


# --- steps that not every rank tells ---


def of_ranks(tmp_path, name, **times):
    """Write the times of ranks in ms, by the number of the step."""
    rows = [f"{rank[1:]},{step},{ms}" for rank, mine in times.items() for step, ms in mine.items()]
    return read_csv(written(tmp_path, "\n".join(["rank,step,step_ms", *rows]), name=name))


@pytest.mark.parametrize(
    ("straggler", "counted", "exit_code"),
    [
        (dict.fromkeys((3, 9), 15), 2, 2),
        (dict.fromkeys(range(4), 15), 4, 2),
        (dict.fromkeys(range(5), 15), 5, 1),
        (dict.fromkeys(range(20, 40), 15), 0, 2),
    ],
)
def test_only_steps_that_every_rank_tells_count(tmp_path, straggler, counted, exit_code):
    steady = dict.fromkeys(range(20), 10)
    base = of_ranks(tmp_path, "base.csv", r0=steady, r1=steady)
    found = checked(base, of_ranks(tmp_path, "now.csv", r0=steady, r1=straggler))
    assert (found.exit_code, found.current.timed_steps) == (exit_code, counted)
    assert any("not every rank tells" in note for note in found.notes) == (counted > 0)
    if not counted:
        assert (
            "step was measured in no step of the current run on all of ranks 0-1" in found.headline
        )


def test_a_rank_that_timed_two_steps_of_a_manifest_hides_nothing(tmp_path):
    write_manifest(tmp_path / "base", timed_rank(0, 1000), timed_rank(1, 1000))
    write_manifest(tmp_path / "now", timed_rank(0, 1000), timed_rank(1, 1500, count=2))
    found = checked(timed_run(tmp_path / "base"), timed_run(tmp_path / "now"))
    assert (found.exit_code, found.current.timed_steps) == (2, 2)


def test_steps_without_any_length_are_none(tmp_path):
    write_manifest(tmp_path / "base", timed_rank(0, 1000), timed_rank(1, 1000))
    write_manifest(tmp_path / "now", timed_rank(0, 1000), timed_rank(1, 0))
    now = timed_run(tmp_path / "now")
    assert not now.is_usable
    found = checked(timed_run(tmp_path / "base"), now)
    assert found.exit_code == 2
    assert "could not be measured in the current run on rank 1" in found.headline


def test_the_same_steps_given_twice_count_once(tmp_path):
    few = [of_ranks(tmp_path, name, r0=dict.fromkeys(range(3), 10)) for name in ("a.csv", "b.csv")]
    other = of_ranks(tmp_path, "c.csv", r0=dict.fromkeys(range(3), 10.1))
    enough = of_ranks(tmp_path, "d.csv", r0=dict.fromkeys(range(9), 10))
    for sides in ((few, enough), (enough, few)):
        found = checked(*sides)
        assert found.exit_code == 2
        assert any("the same steps do once" in note for note in found.notes)
    found = checked(enough, [few[0], other])
    assert (found.exit_code, found.current.timed_steps, found.notes) == (0, 6, [])


def test_exported_steps_were_recorded(tmp_path):
    header = "id,rank,step,step_ns,compute_ns,exposed_comm_ns,idle_ns,partial"
    rows = [f"{step},0,{step},{10_000_000 + step},1,1,1,0" for step in range(9)]
    found = read_csv(written(tmp_path, "\n".join([header, *rows]), name="x.steps.csv"))
    assert (len(found.recorded), found.timed) == (1, [])
    assert checked(found, found).limits[0].source == "recorded"
