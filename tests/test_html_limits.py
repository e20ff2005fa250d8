"""What a page of a large run holds, draws first and leaves out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from pages import Page, page, two_ranks
from traces import run, trace

from ddptrace import analyze
from ddptrace.metrics.bucket_summary import Bucket
from ddptrace.metrics.settings import Settings
from ddptrace.model import Warn
from ddptrace.outputs.html import render, waits
from ddptrace.outputs.html.budget import MOST_BYTES, Budget, fitting
from ddptrace.outputs.html.chosen import MOST_ROWS, MOST_STEPS, choose
from ddptrace.outputs.html.held import held
from ddptrace.report import Report, from_json

MOST_PARTS = 4_000


def many(count: int, ranks: int, *, steps: int = 2) -> Report:
    """State a report with so many collectives of each step; later ones are exposed for longer."""
    report = two_ranks()
    (one, *_) = report.collectives
    (part, *_) = one.ranks
    return replace(
        report,
        collectives=[
            replace(
                one,
                step=step,
                order=order,
                ranks=[replace(part, rank=rank, exposed_ns=order) for rank in range(ranks)],
            )
            for step in range(steps)
            for order in range(count)
        ],
    )


def kept_of(report: Report) -> list[tuple[int, int]]:
    found = from_json(page(report).texts["ddptrace-report"])
    return [(one.step, one.order) for one in found.collectives]


def test_the_page_holds_all_collectives_up_to_the_limit():
    report = many(MOST_PARTS // 4, 2)
    found = page(report)
    assert from_json(found.texts["ddptrace-report"]) == replace(report, timeline=None)
    assert "To stay small" not in found.all_text
    extra = replace(report.collectives[0], order=MOST_PARTS)
    one_more = replace(report, collectives=[*report.collectives, extra])
    assert len(kept_of(one_more)) == MOST_PARTS // 2
    assert "To stay small this page holds 2,000 of 2,001 collectives" in page(one_more).all_text


def test_beyond_the_limit_those_of_the_step_to_show_come_first():
    report = many(1_300, 2)
    shown = report.summary.median_step
    assert kept_of(report) == sorted(
        [(shown, order) for order in range(1_300)]
        + [(1 - shown, order) for order in range(1_300 - 700, 1_300)]
    )


def test_where_there_is_less_room_fewer_records_are_held_before_none_are():
    report = many(1_000, 2)
    found = held(report, choose(report), 200_000)
    assert len(found.json) <= 200_000
    kept = from_json(found.json)
    assert 100 < len(kept.collectives) < 1_000
    assert kept.run == report.run
    (sentence,) = found.left_out
    assert f"{len(kept.collectives):,} of 2,000 collectives" in sentence


def large(ranks: int) -> Report:
    """State a run in which each rank computes a little longer, and the last one is late."""

    def rows(rank):
        late = 300 if rank == ranks - 1 else 0
        yield "compute", 0, 500 + rank
        yield (
            "comm",
            600 + late + rank % 7,
            1100,
            1,
            True,
            {"group": "0", "seq": 1, "size": 1 << 20},
        )
        yield "compute", 1100, 1200

    traces = [trace(*rows(rank), rank=rank) for rank in range(ranks)]
    return analyze(run(*traces))


def test_up_to_8_ranks_all_are_drawn_at_first():
    assert list(choose(large(8)).drawn) == list(range(8))
    assert choose(large(8)).roles == {}


def test_of_many_ranks_the_late_the_slow_the_typical_and_the_fast_are_drawn_at_first():
    report = large(40)
    found = choose(report)
    assert report.stragglers.rank == 39
    assert len(found.drawn) == 8
    assert found.roles[39] == "late"
    assert set(found.roles.values()) >= {"late", "slowest", "typical", "fastest"}
    text = page(report).all_text
    assert "of 0-39; at first the slowest, typical and fastest" in text
    assert "Over all 40 ranks" in text
    assert "Over all 8" not in page(large(8)).all_text


def test_the_figures_over_all_ranks_name_the_least_and_the_most():
    report = large(40)
    found = page(report)
    lengths = {one["rank"]: one["compute_ns"] for one in report.summary.ranks}
    least, most = min(lengths, key=lengths.get), max(lengths, key=lengths.get)
    assert f"({least})" in found.all_text
    assert f"({most})" in found.all_text
    assert {str(lengths[least]), str(lengths[most])} <= set(found.figures)


def test_the_rank_that_pays_most_is_among_those_drawn():
    report = large(40)
    (row,) = [one for one in report.diagnosis.ledger if one.rank == 3]
    paying = replace(row, straggler_ns=row.step_ns)
    ledger = [paying if one.rank == 3 else one for one in report.diagnosis.ledger]
    diagnosis = replace(report.diagnosis, ledger=ledger, bottleneck="straggler")
    found = choose(replace(report, diagnosis=diagnosis))
    assert found.roles[3] == "pays most"


def stepped(steps: int) -> Report:
    report = two_ranks()
    (row, *_) = [row for row in report.steps if row.rank == 0]
    rows = [replace(row, step=n, step_ns=row.step_ns + n % 5) for n in range(steps)]
    return replace(report, steps=rows)


def test_a_page_holds_so_many_steps_the_median_longest_and_shortest_among_them():
    found = choose(stepped(MOST_STEPS))
    assert len(found.rows) == found.all_steps == MOST_STEPS
    report = stepped(MOST_STEPS + 40)
    times = {row.step: row.step_ns for row in report.steps}
    median = replace(report.summary, median_step=MOST_STEPS + 30)
    times[MOST_STEPS + 20], times[MOST_STEPS + 25] = 10**9, 1
    report = replace(
        report,
        summary=median,
        steps=[replace(row, step_ns=times[row.step]) for row in report.steps],
    )
    found = choose(report)
    assert len(found.rows) == MOST_STEPS
    assert {MOST_STEPS + 20, MOST_STEPS + 25, MOST_STEPS + 30} < set(found.rows)
    assert found.first == MOST_STEPS + 30
    assert "The list holds 60 of 100 steps" in page(report).all_text


def test_many_ranks_leave_room_for_fewer_steps():
    report = large(8)
    rows = [replace(row, rank=rank) for row in report.steps for rank in range(MOST_ROWS // 2)]
    both = [*rows, *(replace(row, step=1) for row in rows)]
    assert len(choose(replace(report, steps=both)).rows) == 2
    third = [*both, *(replace(row, step=2) for row in rows)]
    assert len(choose(replace(report, steps=third)).rows) == 2


def test_of_a_step_with_too_many_ranks_those_to_draw_and_the_longest_are_held():
    report = large(8)
    (row, *_) = report.steps
    rows = [replace(row, rank=n, step_ns=row.step_ns + n) for n in range(MOST_ROWS + 500)]
    chosen = choose(replace(report, steps=rows))
    kept = {one.rank for one in chosen.rows[chosen.first]}
    assert len(kept) == MOST_ROWS
    assert set(chosen.drawn) <= kept
    assert MOST_ROWS + 499 in kept


def test_the_waiting_of_all_ranks_is_in_the_page_although_their_records_are_not():
    report = large(40)
    parts = 40 * 150
    report = replace(
        report, collectives=[replace(report.collectives[0], order=n) for n in range(150)]
    )
    assert parts > MOST_PARTS
    found = page(report)
    kept = from_json(found.texts["ddptrace-report"])
    assert len(kept.collectives) == 150
    assert max(len(one.ranks) for one in kept.collectives) < 40
    assert found.about["recorded"] == [40] * 150
    (table,) = json.loads(found.unpacked("waits")).values()
    assert table["ranks"] == list(range(40))
    expected = [each.wait_ns for each in report.collectives[0].ranks]
    assert [row[0] for row in table["rows"]] == expected


def test_too_much_waiting_is_told_of_the_ranks_to_draw_and_those_that_wait_longest():
    report = large(40)
    chosen = choose(report)
    found = waits.waits_by_step(report, chosen, 10)[chosen.first]
    assert len(found.ranks) == 10
    assert set(chosen.drawn) <= set(found.ranks)
    (one,) = report.collectives
    waited = {each.rank: each.wait_ns for each in one.ranks if each.rank not in chosen.drawn}
    assert max(waited, key=waited.get) in found.ranks


@pytest.mark.parametrize("what", ["warnings", "options", "names", "parameters"])
def test_texts_of_any_length_leave_the_page_small(what):
    report = two_ranks()
    long = "x" * 40_000
    changed = {
        "warnings": lambda: replace(report.run, warnings=[Warn("c", long, n) for n in range(400)]),
        "options": lambda: replace(
            report.run, settings=Settings(options={str(n): long for n in range(400)})
        ),
    }
    if what in changed:
        report = replace(report, run=changed[what]())
    elif what == "names":
        report = replace(report, steps=[replace(row, name=long * 60) for row in report.steps])
    else:
        buckets = [Bucket(n, 1, [long], None, []) for n in range(400)]
        report = replace(report, buckets=buckets)
    most = Budget().report_bytes
    assert len(held(report, choose(report), most).json) <= most
    assert len(render(report).encode()) <= MOST_BYTES == 8_000_000


def test_a_page_of_a_large_run_stays_below_8_mb():
    assert len(render(many(5_000, 8)).encode()) <= 8_000_000


def test_an_empty_list_of_collectives_is_no_problem():
    report = replace(two_ranks(), collectives=[])
    assert Page(render(report)).about["recorded"] == []


def test_a_page_has_half_of_everything_until_it_is_small_enough():
    asked = []

    def page_of(budget: Budget) -> str:
        asked.append(budget.rows)
        return "é" * (budget.rows * 20)

    assert len(fitting(page_of).encode()) <= MOST_BYTES
    assert asked == [250_000, 125_000]
    assert fitting(lambda budget: "x" * MOST_BYTES) == "x" * MOST_BYTES
    assert len(fitting(lambda budget: "x" * (MOST_BYTES + 1))) > MOST_BYTES  # it ends all the same


def test_data_that_cannot_be_compressed_leaves_the_page_small():
    rng = np.random.default_rng(0)
    report = two_ranks()
    recordings = []
    for one in report.timeline.recordings:
        start = np.sort(rng.integers(0, 1_000_000, 90_000))
        rows = np.stack(
            (start, start + rng.integers(1, 10**5, 90_000), rng.integers(0, 9_999, 90_000))
        )
        names = [rng.bytes(80).hex() for _ in range(10_000)]
        recordings.append(replace(one, kernels=list(map(tuple, rows.T.tolist())), names=names))
    wide = replace(report, timeline=replace(report.timeline, recordings=recordings))
    assert len(render(wide).encode()) <= MOST_BYTES
