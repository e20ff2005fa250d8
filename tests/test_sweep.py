"""What a sweep found: measurements, the winner, predictions beside them; folders are stated."""

import json

import pytest
from sweeps import MS, Sweep, steps, timed
from whatif_jobs import Job, step_of, write

from ddptrace import load_run
from ddptrace.errors import RunError, UsageError
from ddptrace.sweep.build import sweep_of
from ddptrace.sweep.document import to_json


@pytest.fixture
def made(tmp_path):
    return lambda *args, **told: Sweep(tmp_path / "s", *args, **told)


def found(sweep, **options):
    return sweep_of(sweep.folder, load_run, **options)


def by_cap(result):
    return {("own" if one.is_own else one.bucket_cap_mb): one for one in result.configurations}


# --- measurements ---


def test_the_median_and_p95_are_those_of_the_slowest_rank_of_each_step(made):
    first, second = [ms * MS for ms in range(1, 42)], [20 * MS] * 41
    one = by_cap(found(made().run(None, [first, second])))["own"]
    assert (one.step_ns, one.p95_ns, one.steps) == (21 * MS, 39 * MS, 41)


def test_of_several_runs_the_median_is_that_of_their_medians(made):
    sweep = made(repeat=3)
    for repeat, ms in ((1, 10), (2, 11), (3, 40)):
        sweep.run(None, [ms * MS] * 10, repeat=repeat)
    one = by_cap(found(sweep))["own"]
    assert (one.step_ns, one.p95_ns, one.steps) == (11 * MS, 40 * MS, 30)
    assert one.folders == ["own", "own-run2", "own-run3"]


def test_of_a_rank_that_was_not_timed_the_step_could_be_longer(made):
    sweep = made().run(None, steps(10), world_size=3)
    one = by_cap(found(sweep))["own"]
    assert (one.step_ns, one.p95_ns, one.steps) == (None, None, 0)
    assert "own: not every rank was timed" in found(sweep).notes


def test_the_scripts_own_comes_first_and_then_caps_by_size(made):
    sweep = made().run(100, steps(9)).run(None, steps(10)).run(1, steps(11))
    assert [one.bucket_cap_mb for one in found(sweep).configurations] == [25.0, 1.0, 100.0]


@pytest.mark.parametrize(
    ("asked", "cap", "told"),
    [(None, 25.0, None), (25.0, 25.0, 25.0), (7.5, 7.5, 7.5), ([1.0, 7.0], None, [1.0, 7.0])],
)
def test_the_own_cap_is_what_the_script_asked_for(made, asked, cap, told):
    one = by_cap(found(made().run(None, steps(10), asked=asked)))["own"]
    assert (one.bucket_cap_mb, one.asked_mb) == (cap, told)


def test_a_run_that_was_only_timed_has_no_figures_of_a_recording(made):
    one = by_cap(found(made().run(None, steps(10))))["own"]
    figures = (one.buckets, one.comm_kernels, one.exposed_comm_ns, one.tail_ns, one.predicted)
    assert figures == (None,) * 5


# --- the winner ---


def test_a_cap_that_is_surely_faster_wins_with_a_line_to_paste(made):
    result = found(made().run(None, steps(10)).run(1, steps(11)).run(100, steps(9.5)))
    winner = result.winner
    assert (winner.outcome, winner.bucket_cap_mb) == ("faster", 100.0)
    assert winner.line == "DistributedDataParallel(model, …, bucket_cap_mb=100)"
    assert winner.gain_ns == pytest.approx(0.5 * MS, rel=0.01)
    assert "bucket_cap_mb=100 is faster than yours (PyTorch's default, 25 MiB)" in winner.sentence
    change = by_cap(result)[100.0].change
    assert change.low_ratio < -0.05 < change.high_ratio < 0
    assert by_cap(result)["own"].change is None


def test_a_difference_within_the_noise_is_none(made):
    noisy = {"spread": 0.5}
    winner = found(made().run(None, steps(10, **noisy)).run(100, steps(9.9, **noisy))).winner
    assert (winner.outcome, winner.bucket_cap_mb, winner.line) == ("no_difference", None, None)
    assert winner.sentence.startswith("keep yours (PyTorch's default, 25 MiB): no difference that")


def test_where_all_others_are_surely_slower_the_own_cap_is_kept(made):
    winner = found(made().run(None, steps(10)).run(1, steps(11)).run(100, steps(10.5))).winner
    assert (winner.outcome, winner.line) == ("keep", None)
    assert "every other cap is slower, the next one, bucket_cap_mb=100" in winner.sentence


def test_slower_but_for_one_that_may_be_as_fast_is_no_difference(made):
    sweep = made().run(None, steps(10)).run(1, steps(11)).run(100, steps(10.001))
    winner = found(sweep).winner
    assert (winner.outcome, winner.as_good_mb) == ("no_difference", [100.0])


def test_of_several_faster_ones_the_fastest_wins_and_its_equals_are_named(made):
    sweep = made(caps=(1, 50, 100, 250)).run(None, steps(10)).run(1, steps(9.8))
    winner = found(sweep.run(50, steps(9.501)).run(100, steps(9.5)).run(250, steps(9.7))).winner
    assert (winner.bucket_cap_mb, winner.as_good_mb) == (100.0, [50.0])


def test_a_lucky_noisy_cap_does_not_hide_one_that_is_surely_faster(made):
    sweep = made().run(None, steps(10)).run(1, steps(9.4, spread=0.9)).run(100, steps(9.5))
    assert found(sweep).winner.bucket_cap_mb == 100.0


def test_runs_that_differ_widen_the_interval_of_all(made):
    """What two runs with one cap differ by is not known of a cap that ran as fast twice."""
    sweep = made(caps=(1, 100), repeat=2)
    for repeat, own, one in ((1, 10, 9.0), (2, 10, 11.0)):
        sweep.run(None, steps(own, seed=repeat), repeat=repeat)
        sweep.run(1, steps(one, seed=repeat), repeat=repeat)
        sweep.run(100, steps(9.9, seed=repeat), repeat=repeat)
    assert found(sweep).winner.outcome == "no_difference"
    alike = Sweep(sweep.folder.parent / "alike", caps=(1, 100), repeat=2)
    for repeat in (1, 2):
        alike.run(None, steps(10, seed=repeat), repeat=repeat)
        alike.run(1, steps(11, seed=repeat), repeat=repeat)
        alike.run(100, steps(9.9, seed=repeat), repeat=repeat)
    assert found(alike).winner.bucket_cap_mb == 100.0


@pytest.mark.parametrize(
    ("equal", "own_equal", "winner"),
    [(False, True, None), (None, True, 100.0), (False, False, 100.0), (False, None, None)],
)
def test_a_cap_with_which_ranks_drift_apart_is_no_winner_unless_they_do_so_anyway(
    made, equal, own_equal, winner
):
    sweep = made().run(None, steps(10), equal=own_equal).run(100, steps(9), equal=equal)
    result = found(sweep)
    assert result.winner.bucket_cap_mb == winner
    assert by_cap(result)[100.0].replicas_equal is equal
    if equal is False:
        assert any("ranks do not train the same model: 1 of 2" in note for note in result.notes)


def test_one_run_of_several_in_which_ranks_drift_apart_is_enough(made):
    sweep = made(repeat=2).run(None, steps(10)).run(None, steps(10), repeat=2)
    sweep.run(1, steps(9)).run(1, steps(9), repeat=2, equal=False)
    assert by_cap(found(sweep))[1.0].replicas_equal is False


def test_without_the_own_cap_or_another_one_nothing_is_said_to_be_best(made):
    assert found(made().run(1, steps(10)).run(100, steps(9))).winner.outcome == "unknown"
    assert found(Sweep(made().folder).run(None, steps(10))).winner.outcome == "unknown"


@pytest.mark.parametrize(("count", "outcome"), [(4, "unknown"), (5, "faster")])
def test_fewer_steps_than_five_tell_nothing(made, count, outcome):
    sweep = made().run(None, [10 * MS] * count).run(100, [5 * MS] * count)
    assert found(sweep).winner.outcome == outcome


@pytest.mark.parametrize(
    ("ms", "repeat", "outcome", "said"),
    [
        (9.81, 1, "no_difference", True),
        (9.79, 1, "faster", False),
        (9.81, 2, "faster", False),
        (10.19, 1, "no_difference", True),
        (10.21, 1, "keep", False),
    ],
)
def test_one_run_each_is_not_believed_what_runs_of_one_job_may_differ_by(
    made, ms, repeat, outcome, said
):
    sweep = made(repeat=repeat)
    for number in range(1, repeat + 1):
        sweep.run(None, steps(10), repeat=number).run(100, steps(ms), repeat=number)
    result = found(sweep)
    assert result.winner.outcome == outcome
    assert any("bucket_cap_mb=100 differs by less" in note for note in result.notes) is said


def test_a_cap_that_packs_the_same_buckets_is_another_run_of_the_same(made):
    """Its step tells what chance does: of other caps no more than that is believed, either."""
    sweep = made(caps=(1, 50, 100)).run(None, steps(10), sizes=[5, 6])
    sweep.run(50, steps(9.5), sizes=[5, 6]).run(1, steps(9.6), sizes=[1] * 11)
    result = found(sweep)
    assert result.winner.outcome == "no_difference"
    assert "bucket_cap_mb=1," in result.winner.sentence
    assert result.winner.as_good_mb == [1.0, 50.0]
    assert (
        "the same buckets as yours: bucket_cap_mb=50; what differs there is chance" in result.notes
    )


def test_other_buckets_of_the_same_number_are_others(made):
    sweep = made().run(None, steps(10), sizes=[5, 6]).run(100, steps(9.5), sizes=[6, 5])
    result = found(sweep)
    assert result.winner.bucket_cap_mb == 100.0
    assert not any("the same buckets" in note for note in result.notes)


def test_where_all_caps_pack_the_same_buckets_nothing_is_to_be_chosen(made):
    sweep = made().run(None, steps(10), sizes=[5]).run(100, steps(9), sizes=[5])
    winner = found(sweep).winner
    assert (winner.outcome, winner.line) == ("unknown", None)
    assert winner.sentence == "no other cap with buckets of its own was measured"


# --- runs that are missing ---


def test_a_run_that_failed_has_its_reason_and_no_figure(made):
    sweep = made().run(None, steps(10)).run(1, problem="the job ended with exit code 7")
    result = found(sweep)
    one = by_cap(result)[1.0]
    assert (one.status, one.problem, one.step_ns) == (
        "failed",
        "the job ended with exit code 7",
        None,
    )
    assert "cap-1: the job ended with exit code 7" in result.notes
    assert "not run yet: bucket_cap_mb=100; the same command goes on with it" in result.notes


def test_damaged_figures_are_no_measurement_and_no_traceback(made):
    sweep = made(caps=(1, 50, 100)).run(None, steps(10), asked=-3.0).run(1, [0] * 20)
    result = found(sweep.run(100, [0] * 9 + [10 * MS] * 11))
    assert (result.configurations[0].bucket_cap_mb, result.winner.outcome) == (
        None,
        "no_difference",
    )
    assert by_cap(result)[1.0].change is None


def test_what_a_failed_run_left_in_its_folder_does_not_count(made):
    sweep = made().run(None, steps(10)).run(100, steps(5), problem="interrupted")
    assert found(sweep).winner.outcome == "unknown"


def test_the_own_cap_is_not_missed_where_it_is_among_those_wanted(made):
    sweep = made(caps=(25, 100), own_cap_mb=25.0, repeat=2).run(None, steps(10)).run(100, steps(9))
    missing = [note for note in found(sweep).notes if note.startswith("not run yet")]
    assert missing == [
        "not run yet: the script's own cap (run 2), bucket_cap_mb=100 (run 2); the same command "
        "goes on with it"
    ]


def test_a_recording_that_cannot_be_read_is_a_note_and_the_times_count(made):
    sweep = made().run(None, steps(10), files=["rank0.json", "rank1.json"]).run(100, steps(9))
    (sweep.folder / "own" / "rank0.json").write_text("no trace")
    result = found(sweep)
    assert result.winner.bucket_cap_mb == 100.0
    assert any(note.startswith("own: ") for note in result.notes)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "no sweep is there"),
        ("", "is not what a sweep wrote"),
        ("[]", "is not what a sweep wrote"),
        ("{}", "is not what a sweep wrote"),
        ("[" * 5000, "is not what a sweep wrote"),
        ({"ddptrace_sweep": 2}, "has version 2, and this ddptrace reads 1"),
        ({"problem": "the job has no\nDDP model"}, "the job has no DDP model"),
        ({"bucket_caps_mb": [-1]}, "is not what a sweep wrote"),
        (
            {"runs": [{"folder": "../x", "bucket_cap_mb": 1, "repeat": 1, "status": "done",
                       "exit_code": 0}]},
            "is not what a sweep wrote",
        ),
    ],
)  # fmt: skip
def test_a_folder_without_a_sweep_is_one_line(made, text, sentence):
    sweep = made()
    path = sweep.folder / "sweep.json"
    if text is None:
        path.unlink()
    else:
        path.write_text(text if isinstance(text, str) else json.dumps(sweep.document | text))
    with pytest.raises(RunError, match=sentence) as refused:
        found(sweep)
    assert "\n" not in str(refused.value)


# --- predictions ---

JOB = Job([4, 4, 8, 2, 2, 16, 4, 4], [[0, 1, 2], [3, 4, 5], [6, 7]])
BIG = Job(JOB.sizes, [[*range(8)]])
FILES = ("rank0.json", "rank1.json")


@pytest.fixture
def recorded(made):
    """Return a sweep of a stated job: its own cap 16, and 100, in which all is one bucket."""
    sweep = made(caps=(1, 100))
    for cap, job in ((None, JOB), (100, BIG)):
        asked = 16.0 if cap is None else None
        times = [round(1000 * step_of(job))] * 20
        sweep.run(cap, times, files=FILES, **{"asked": 16.0} if asked else {})
        write(job, sweep.folder / ("own" if cap is None else "cap-100"))
    return sweep


def test_a_prediction_stands_beside_the_measurement_with_its_error(recorded):
    result = found(recorded)
    assert result.predicted_from == "own"
    own, big = by_cap(result)["own"], by_cap(result)[100.0]
    assert (own.predicted.is_source, big.predicted.is_source) == (True, False)
    assert big.predicted.step_ns == pytest.approx(1000 * step_of(BIG), rel=0.002)
    assert big.predicted.error_ratio == pytest.approx(big.predicted.step_ns / big.step_ns - 1)
    assert big.predicted.low_ns < big.step_ns < big.predicted.high_ns


def test_the_error_is_a_part_of_the_measured_step(recorded):
    """What is predicted starts from the script's own steps, however long those of others are."""
    timed(recorded.folder / "cap-100", [round(2000 * step_of(BIG))] * 20, set_to=100, files=FILES)
    one = by_cap(found(recorded))[100.0]
    assert one.predicted.error_ratio == pytest.approx(-0.5, abs=0.002)


def test_figures_of_a_recording_are_those_of_its_step(recorded):
    own, big = by_cap(found(recorded))["own"], by_cap(found(recorded))[100.0]
    assert (own.buckets, own.comm_kernels) == (3, 3)
    assert (big.buckets, big.comm_kernels) == (1, 1)
    assert big.exposed_comm_ns == big.tail_ns == pytest.approx(1000 * JOB.cost(range(8)), rel=1e-6)


def test_another_recording_may_be_the_source(recorded):
    result = found(recorded, predict_from=100.0)
    assert result.predicted_from == "cap-100"
    assert by_cap(result)[100.0].predicted.is_source
    with pytest.raises(
        UsageError, match="--predict-from 7: no recording has that cap; there are 16"
    ):
        found(recorded, predict_from=7.0)


def test_a_cap_that_failed_has_its_prediction_and_no_error(recorded):
    recorded.run(1, problem="interrupted")
    one = by_cap(found(recorded))[1.0]
    assert (one.predicted.error_ratio, one.step_ns) == (None, None)
    assert one.predicted.step_ns > 0


def test_steps_that_cannot_be_replayed_are_a_note(recorded):
    for rank in (0, 1):
        path = recorded.folder / "own" / f"rank{rank}.json"
        document = json.loads(path.read_text())
        kept = [one for one in document["traceEvents"] if "nccl" not in str(one.get("name"))]
        path.write_text(json.dumps(document | {"traceEvents": kept}))
    result = found(recorded)
    assert (result.predicted_from, result.trust) == (None, None)
    assert any(note.startswith("nothing is predicted: ") for note in result.notes)


def test_the_json_has_a_version_and_null_for_what_is_unknown(made):
    document = json.loads(to_json(found(made().run(None, steps(10)).run(100, steps(9)))))
    assert next(iter(document)) == "schema"
    assert (document["schema"], document["world_size"], document["device"]) == (1, 2, "H200")
    assert document["configurations"][0]["predicted"] is None
    assert document["winner"]["bucket_cap_mb"] == 100.0
