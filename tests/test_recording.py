"""What recording cost, how it is said, and when it makes figures untrustworthy."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from captured import captured, full_file, full_part, rank_entry, write_manifest
from pages import page
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.manifest import Manifest, Mark, RankFacts, RecordedPart, Unprofiled
from ddptrace.outputs.text import Destination, render
from ddptrace.report import from_json, to_json


def part(name, *step_ns, first=22):
    marks = tuple(Mark(first + place, "step", place, place + 1) for place in range(len(step_ns)))
    return RecordedPart(name, f"{name}.json", marks=marks, step_ns=step_ns)


def rank(number, unprofiled, *parts, first=11):
    timed = None if unprofiled is None else Unprofiled(first, None, tuple(unprofiled))
    return RankFacts(number, unprofiled=timed, parts=parts)


def report(*ranks, parts=("full",), **facts):
    """Return the report of a run whose manifest tells these times, in any unit."""
    recorded = [
        trace(("compute", at, at + 100), rank=one.rank, part=name, marks=[(at, at + 100)], **facts)
        for one in ranks
        for at, name in zip((0, 500), parts, strict=False)
    ]
    return analyze(replace(run(*recorded), manifest=Manifest(ranks=ranks)))


def times(found):
    return {time.part: (time.step_ns, time.slowdown_ratio) for time in found.run.recording.parts}


def codes(found):
    return {warning.code for warning in found.run.warnings}


def lines(found, start):
    text = render(found, step="median", next_command="next", destination=Destination())
    return [line for line in text.splitlines() if line.startswith(start)]


# --- the figures


def test_nothing_is_known_without_a_manifest_or_its_times():
    assert analyze(run(trace(("compute", 0, 100)))).run.recording is None
    assert report(rank(0, [100, 100])).run.recording is None
    assert lines(report(rank(0, [100, 100])), "recording") == []


def test_a_step_is_that_of_its_longest_rank_and_the_median_is_over_all_steps():
    """
    step         11   12   13        22   23   24   25
    rank 0      100  100  100       900  120  200  100
    rank 1       90  130   90       900  110  110  300
    longest     100  130  100         -  120  200  300
    """
    found = report(
        rank(0, [100, 100, 100], part("full", 900, 120, 200, 100)),
        rank(1, [90, 130, 90], part("full", 900, 110, 110, 300)),
    )
    assert found.run.recording.unprofiled_step_ns == 100
    assert times(found) == {"full": (200, 1.0)}


def test_of_two_steps_the_first_counts_too():
    assert times(report(rank(0, [100], part("full", 300, 100)))) == {"full": (200, 1.0)}


def test_steps_are_matched_by_number_and_not_by_place():
    found = report(
        rank(0, [100, 100, 100, 400], part("full", 100), first=11),
        rank(1, [400, 100, 100, 100], part("full", 100), first=14),
    )
    assert found.run.recording.unprofiled_step_ns == 100


def test_ranks_that_lack_times_which_others_have_are_left_out():
    found = report(
        rank(0, [100], part("full", 110)), rank(1, [500]), rank(2, None, part("full", 900))
    )
    assert found.run.recording.unprofiled_step_ns == 100
    assert times(found) == {"full": (110, 0.1)}


def test_times_of_different_ranks_are_not_compared():
    found = report(rank(0, [100]), rank(1, None, part("full", 900)))
    assert found.run.recording.unprofiled_step_ns is None
    assert times(found) == {"full": (900, None)}


def test_a_rank_without_a_recording_does_not_count():
    recorded = trace(("compute", 0, 100), part="full")
    ranks = (rank(0, [100], part("full", 110)), rank(1, [500], part("full", 900)))
    found = analyze(replace(run(recorded), manifest=Manifest(ranks=ranks)))
    assert times(found) == {"full": (110, 0.1)}


def test_without_unprofiled_steps_there_is_no_slowdown():
    found = report(rank(0, None, part("full", 110)))
    assert found.run.recording.unprofiled_step_ns is None
    assert times(found) == {"full": (110, None)}
    assert codes(found) == set()
    assert lines(found, "recording")[0].endswith("without a profiler it was not timed")


def test_times_without_marks_count_by_their_place():
    bare = RecordedPart("full", "f.json", step_ns=(110, 115, 125))
    assert times(report(rank(0, [100], bare))) == {"full": (120, pytest.approx(0.2))}


def test_the_json_tells_medians_and_slowdown_of_each_part(tmp_path):
    found = analyze(load_run(captured(tmp_path)))
    assert json.loads(to_json(found))["run"]["recording"] == {
        "unprofiled_step_ns": 1_000_000,
        "parts": [
            {"part": "figures", "step_ns": 1_020_000, "slowdown_ratio": 0.02},
            {"part": "full", "step_ns": 1_500_000, "slowdown_ratio": 0.5},
        ],
    }
    assert from_json(to_json(found, timeline=True)) == found


def test_a_report_of_before_there_were_parts_can_be_read(tmp_path):
    document = json.loads(to_json(analyze(run(trace(("compute", 0, 100))))))
    for name in ("parts", "recording", "missing_reasons"):
        del document["run"][name]
    assert from_json(json.dumps(document)).run.parts is None


# --- the warning


@pytest.mark.parametrize(("step_ns", "warned"), [(1100, False), (1101, True), (900, False)])
def test_recording_that_slows_the_step_by_more_than_a_tenth_is_warned_of(step_ns, warned):
    found = report(rank(0, [1000], part("full", step_ns)))
    assert ("recording_slowed_run" in codes(found)) == warned


@pytest.mark.parametrize(("figures_ns", "warned"), [(1100, False), (1101, True)])
def test_what_counts_is_the_part_that_figures_come_from(figures_ns, warned):
    both = part("figures", figures_ns), part("full", 1500, first=26)
    found = report(rank(0, [1000], *both), parts=("figures", "full"))
    assert ("recording_slowed_run" in codes(found)) == warned


def test_where_figures_fall_back_to_the_full_part_its_slowdown_counts():
    both = part("figures", 1000), part("full", 1500, first=26)
    found = report(rank(0, [1000], *both), rank(1, [1000], *both), parts=("full",))
    assert "recording_slowed_run" in codes(found)


def test_where_one_rank_has_the_figures_part_alone_the_slower_full_part_counts():
    both = part("figures", 1000), part("full", 1500, first=26)
    full = trace(("compute", 500, 600), part="full", marks=[(500, 600)])
    cheap = trace(("compute", 0, 100), rank=1, part="figures")
    manifest = Manifest(ranks=(rank(0, [1000], *both), rank(1, [1000], *both)))
    assert "recording_slowed_run" in codes(analyze(replace(run(full, cheap), manifest=manifest)))


def test_the_warning_names_what_it_makes_untrustworthy():
    found = report(rank(0, [1000], part("full", 1500)))
    (warning,) = found.run.warnings
    for words in ("50 % longer", "idle", "late", "kernels' own durations stay good"):
        assert words in warning.message


def test_on_a_cpu_run_the_operators_own_times_are_not_called_good():
    found = report(rank(0, [1000], part("full", 1500)), device="host")
    (warning,) = found.run.warnings
    assert warning.message.endswith("the times of host operators contain the profiler's own")


# --- the sentences


def test_the_text_has_one_line_on_the_parts_and_one_on_the_cost(tmp_path):
    found = analyze(load_run(captured(tmp_path)))
    assert lines(found, "parts") == [
        "parts: figures from steps 22-24 (GPU activities only); causes, sizes and names from steps "
        "26-28 (host and GPU)"
    ]
    assert lines(found, "recording") == [
        "recording: a step took 1.00 ms without a profiler, 1.02 ms (2.0 % longer) while figures "
        "were recorded, 1.50 ms (50.0 % longer) while causes were, so that causes come from slower "
        "steps than figures"
    ]
    assert lines(found, "warning") == []


def test_nothing_is_said_of_slower_causes_where_they_are_not_slower():
    both = part("figures", 1000), part("full", 1050, first=26)
    (line,) = lines(report(rank(0, [1000], *both), parts=("figures", "full")), "recording")
    assert "slower" not in line
    assert "0.00 ms (0.0 % longer) while figures were recorded" in line


def test_one_part_is_just_what_was_recorded(tmp_path):
    full_part(world_size=1).write(full_file(tmp_path))
    entry = rank_entry()
    write_manifest(tmp_path, entry | {"parts": entry["parts"][1:]})
    found = analyze(load_run(tmp_path))
    assert lines(found, "parts") == []
    assert lines(found, "recording") == [
        "recording: a step took 1.00 ms without a profiler, 1.50 ms (50.0 % longer) while it was "
        "recorded"
    ]


def test_a_part_that_gives_nothing_is_not_spoken_of():
    both = part("figures", 1000), part("full", 1500, first=26)
    cheap = trace(("compute", 0, 100), part="figures", marks=())
    full = trace(("compute", 500, 600), part="full", marks=[(500, 600)])
    manifest = Manifest(ranks=(rank(0, [1000], *both),))
    found = analyze(replace(run(cheap, full), manifest=manifest))
    (line,) = lines(found, "parts")
    assert line == "parts: figures, causes, sizes and names from step 0 (GPU activities only)"
    (line,) = lines(found, "recording")
    assert line.count("%") == 1


def test_a_faster_recording_is_shorter():
    (line,) = lines(report(rank(0, [1000], part("full", 990))), "recording")
    assert "(1.0 % shorter)" in line


def test_the_page_says_the_same(tmp_path):
    found = analyze(load_run(captured(tmp_path)))
    text = page(found).all_text
    for sentence in [*lines(found, "parts"), *lines(found, "recording")]:
        assert f"{sentence[0].upper()}{sentence[1:]}." in text


def test_a_step_that_the_manifest_marks_is_called_by_its_number_on_the_page(tmp_path):
    steps = page(analyze(load_run(captured(tmp_path)))).about["steps"]
    assert [one["title"] for one in steps if one["figures"]] == ["step 22", "step 23", "step 24"]
