"""The HTML page: what it says, what it holds, and what it refuses to say."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest
from pages import HOSTILE, Page, one_rank, page, prediction, two_ranks
from plotly.offline import get_plotlyjs
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.diagnosis.finding import Evidence, Finding
from ddptrace.diagnosis.ledger import PARTS
from ddptrace.metrics.recording import PartTime, Recording
from ddptrace.metrics.settings import Settings
from ddptrace.model import Warn
from ddptrace.outputs.figures import ms
from ddptrace.outputs.html import render
from ddptrace.outputs.html.glossary import GLOSSARY
from ddptrace.outputs.html.looks import LEDGER, LOOKS
from ddptrace.report import Report, from_json

ROOT = Path(__file__).parent.parent
SAMPLES = ROOT / "sample_traces"


@pytest.fixture(scope="module")
def late() -> Report:
    return analyze(load_run(SAMPLES / "late-compute"))


def test_the_page_holds_the_report_without_its_timeline(late):
    for report in (two_ranks(), late):
        assert from_json(page(report).texts["ddptrace-report"]) == replace(report, timeline=None)


def test_two_renders_of_a_report_are_equal(late):
    assert render(late) == render(late)
    again = analyze(load_run(SAMPLES / "late-compute"))
    assert render(again) == render(late)


def test_the_page_asks_for_nothing_and_only_its_own_scripts_may_run():
    found = page(two_ranks())
    links = {value for name, value in found.attributes if name in ("src", "href", "action")}
    assert {link for link in links if not link.startswith("#")} == {"data:,"}
    policy = dict(found.attributes)["content"] or ""
    (metas,) = [v for k, v in found.attributes if k == "content" and "default-src" in (v or "")]
    assert "default-src 'none'" in metas
    script_rule = re.search(r"script-src ([^;]*)", metas)[1].split()
    plotly = get_plotlyjs()
    (own,) = found.scripts
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in (own, plotly)
    ]
    assert script_rule == hashes
    assert found.unpacked("plotly").decode() == plotly
    assert policy
    assert "showSendToCloud: false" in own
    assert not re.search(r"\beval\(|new Function|innerHTML|insertAdjacent|document\.write", own)


def test_links_within_the_page_have_their_place():
    found = page(two_ranks())
    ids = {tag.partition("#")[2] for tag in found.tags if "#" in tag}
    links = {v[1:] for k, v in found.attributes if k == "href" and (v or "").startswith("#")}
    assert links
    assert links <= ids


def with_text(where: str, text: str) -> Report:
    report = two_ranks()
    facts, diagnosis = report.run, report.diagnosis
    finding = Finding(text, 5_000, [0], [Evidence(f"kernel_ns: {text}", 4, None)], text)
    (recorded, *others) = report.timeline.recordings
    (one, *more) = report.collectives
    return {
        "warning": lambda: replace(report, run=replace(facts, warnings=[Warn("code", text, 0)])),
        "device": lambda: replace(report, run=replace(facts, device=text)),
        "step name": lambda: replace(report, steps=[replace(r, name=text) for r in report.steps]),
        "headline": lambda: replace(report, diagnosis=replace(diagnosis, headline=text)),
        "version": lambda: replace(report, run=replace(facts, versions={text: text})),
        "command": lambda: replace(report, run=replace(facts, settings=Settings(command=[text]))),
        "option": lambda: replace(
            report, run=replace(facts, settings=Settings(options={text: text}))
        ),
        "finding": lambda: replace(report, diagnosis=replace(diagnosis, findings=[finding])),
        "kernel": lambda: replace(
            report,
            timeline=replace(
                report.timeline, recordings=[replace(recorded, names=[text] * 9), *others]
            ),
        ),
        "operation": lambda: replace(
            report, collectives=[replace(one, op=text, group=text), *more]
        ),
    }[where]()


@pytest.mark.parametrize(
    "where",
    [
        *("warning", "device", "step name", "headline", "version", "command", "option", "finding"),
        *("kernel", "operation"),
    ],
)
def test_no_text_of_a_trace_changes_the_page(where):
    plain, hostile = (page(with_text(where, text)) for text in ("plain", HOSTILE))
    assert hostile.tags == plain.tags
    kept = from_json(hostile.texts["ddptrace-report"])
    assert kept == replace(with_text(where, HOSTILE), timeline=None)
    if where == "kernel":
        assert HOSTILE in hostile.names
    elif where != "operation":  # which only the script puts into the page
        shown = shlex.quote(HOSTILE) if where == "command" else HOSTILE
        assert shown in hostile.all_text


# --- what a reader who stops at the top has ---


def test_the_top_tells_verdict_cost_confidence_and_advice(late):
    found, text = late.diagnosis, page(late).all_text
    (verdict,) = [one for one in found.findings if one.code == found.bottleneck]
    assert text.index(found.headline) < text.index("Timeline:")
    assert f"{ms(verdict.cost_ns)} ms" in text
    assert "How suremedium2 steps counted, which are few".lower() in text.lower()
    assert verdict.advice[1:] in text
    assert found.where[1:] in text


def test_a_verdict_without_a_cost_promises_none():
    found = page(one_rank(("compute", 0, 300)))
    assert "nothing to win back" in found.all_text
    assert "straggler" not in found.all_text.split("Timeline:")[0]


def cards(report: Report) -> str:
    return page(report).all_text.split("Where the step went")[0]


def without_matching() -> Report:
    """
    compute  ####....   of one rank of two: 40 % of the step are exposed for an unknown reason
    comm     ....###.
    """
    return one_rank(("compute", 0, 600), ("comm", 600, 1000))


@pytest.mark.parametrize(
    "report",
    [without_matching(), one_rank(("compute", 0, 300), ("comm", 200, 500), marks=())],
    ids=["unknown cause", "no step marks"],
)
def test_an_unknown_cost_is_not_told_as_nothing(report):
    assert report.diagnosis.bottleneck == "unknown"
    text = cards(report)
    assert "What it costsnot known" in text
    assert "How sureno verdict" in text
    assert "nothing to win back" not in text


def test_a_tail_of_compute_has_advice_and_no_price():
    report = analyze(load_run(SAMPLES / "long-last-backward"))
    assert report.diagnosis.bottleneck == "compute_tail"
    text = cards(report)
    assert "What it costscannot be priced" in text
    assert "nothing to win back" not in text


@pytest.mark.parametrize(
    ("code", "step_ns", "told"),
    [
        ("compute_bound", 100, "nothing to win back"),
        ("no_communication", 100, "nothing to win back"),
        ("compute_bound", None, "not known"),
        ("comm_bandwidth", 100, "not known"),
    ],
)
def test_nothing_to_win_back_needs_a_measured_step(code, step_ns, told):
    report = two_ranks()
    verdict = Finding(code, None, [0], [], "")
    found = replace(
        report.diagnosis, bottleneck=code, findings=[verdict], step_ns=step_ns, confidence=None
    )
    text = cards(replace(report, diagnosis=found))
    assert f"What it costs{told}" in text
    assert "How surenot known" in text


def test_the_bar_of_the_median_step_adds_up(late):
    text = render(late)
    bar = re.search(r'<div class="ledger-bar".*?</div>', text)[0]
    pieces = dict(re.findall(r'look-ledger-(\w+)" style="flex: (\d+) 0 0"', bar))
    (row,) = [one for one in late.diagnosis.ledger if one.rank == 0]  # which waits for rank 1
    assert {name: int(ns) for name, ns in pieces.items()} == {
        name: getattr(row, name) for name in PARTS if getattr(row, name)
    }
    assert sum(map(int, pieces.values())) == row.step_ns
    assert "step 24 on rank 0, the rank that pays most: 124.42 ms" in text


def test_parts_too_small_to_list_are_summed_up():
    """
    compute  ####|####   a copy of 4 µs, which rounds to 0.00 ms
    mem      ....#
    """
    report = one_rank(("compute", 0, 1000), ("mem", 1000, 1004), ("compute", 1004, 2000))
    text = page(report).all_text
    assert "all others 0.0040 ms" in text
    assert "exposed copies" not in text.split("Where the step went")[1].split("Timeline:")[0]


def test_a_step_with_an_unknown_part_has_no_ledger():
    report = one_rank(("compute", 0, 300), ("compute", 500, 600), comm_missing=True)
    found = page(report)
    assert "so there is no ledger" in found.all_text
    assert "ledger-bar" not in render(report).split("</style>")[1]


def test_times_with_and_without_a_profiler_stand_beside_each_other():
    report = two_ranks()
    cost = Recording(100_000_000, [PartTime("figures", 110_000_000, 0.1)])
    found = page(replace(report, run=replace(report.run, recording=cost)))
    assert "Without a profiler100.00 ms" in found.all_text
    assert "While figures were recorded110.00 ms (10.0 % longer)" in found.all_text
    assert "Without a profiler" not in page(report).all_text


def test_without_unprofiled_steps_the_page_says_so():
    report = two_ranks()
    cost = Recording(None, [PartTime("full", 110_000_000, None)])
    found = page(replace(report, run=replace(report.run, recording=cost))).all_text
    assert "Without a profiler the step was not timed." in found
    assert "% longer" not in found


def test_missing_ranks_are_named_once():
    report = two_ranks()
    warning = Warn("missing_ranks", "2 of 4 ranks are here; missing: 2, 3")
    facts = replace(report.run, missing_ranks=[2, 3], warnings=[warning])
    found = page(replace(report, run=facts)).all_text
    assert "Missing: ranks 2-3." in found
    assert warning.message not in found
    assert "Missing" not in page(report).all_text


def test_a_partial_rank_is_named():
    rows = [("compute", 0, 300), ("comm", 200, 500)]
    report = analyze(run(trace(*rows), trace(*rows, rank=1, partial="cut short")))
    assert page(report).all_text.count("PARTIAL: rank 1.") == 1


def test_a_run_of_partial_ranks_only_has_a_page():
    found = page(one_rank(("compute", 0, 300), partial="cut short"))
    assert "every rank here is partial" in found.all_text
    assert found.timeline().lanes == {}


# --- steps, findings, facts, glossary ---


def three_steps() -> Report:
    steps = [("compute", 0, 300), ("compute", 1000, 1200), ("compute", 2000, 2900)]
    return one_rank(*steps, marks=[(0, 1000), (1000, 2000), (2000, 3000)])


def test_all_steps_can_be_chosen_and_the_median_one_is_shown_first():
    report = three_steps()
    found = page(report)
    assert [one["title"] for one in found.about["steps"]] == ["step 0", "step 1", "step 2"]
    assert found.selected == found.about["first"] == "step-1"
    assert report.summary.median_step == 1
    assert "of 3 steps" not in found.all_text


def test_a_recording_without_marks_is_shown_whole():
    found = page(one_rank(("compute", 0, 300), ("comm", 200, 500), marks=()))
    assert [one["title"] for one in found.about["steps"]] == ["whole recording"]


def test_a_step_is_titled_with_its_name_where_that_says_more():
    report = two_ranks()
    named = replace(report, steps=[replace(row, name="epoch 1") for row in report.steps])
    titles = [one["title"] for one in page(named).about["steps"]]
    assert titles == ["step 0: epoch 1", "step 1: epoch 1"]


def test_each_finding_has_evidence_advice_and_a_place_in_the_timeline(late):
    found = page(late)
    (straggler,) = late.diagnosis.findings
    for evidence in straggler.evidence:
        assert evidence.metric in found.all_text
        assert str(evidence.value) in found.figures
    (place,) = found.about["places"]
    mine = [
        each
        for one in late.collectives
        if one.step == late.summary.median_step
        for each in one.ranks
        if each.rank == 0
    ]
    longest = max(mine, key=lambda each: min(each.wait_ns, each.exposed_ns))
    assert (place["rank"], place["start_ns"]) == (0, longest.start_ns)
    assert place["step"] == found.about["first"]


@pytest.mark.parametrize(
    ("sample", "code", "lane"),
    [
        ("item-in-forward", "sync_wait", "idle_sync"),
        ("input-bound", "input_stall", "idle_input"),
    ],
)
def test_a_finding_of_idle_time_leads_to_idle_time_of_its_cause(sample, code, lane):
    report = analyze(load_run(SAMPLES / sample))
    found = page(report)
    (at,) = [n for n, one in enumerate(report.diagnosis.findings) if one.code == code]
    place = found.about["places"][at]
    assert place["lane"] == lane
    assert found.timeline().of(lane, place["rank"])


@pytest.mark.parametrize("code", ["recording_slowed_run", "comm_bandwidth", "bucket_schedule"])
def test_a_finding_leads_to_the_step_the_collective_or_the_tail_that_it_is_about(code):
    """
    compute  ####....##..   of rank 0
    comm     ..####......
    """
    report = two_ranks()
    finding = Finding(code, None, [0], [], "")
    (place,) = page(replace(report, diagnosis=replace(report.diagnosis, findings=[finding]))).about[
        "places"
    ]
    step = report.summary.median_step
    (row,) = [row for row in report.steps if (row.rank, row.step) == (0, step)]
    (one,) = [one for one in report.collectives if one.step == step]
    (part,) = [each for each in one.ranks if each.rank == 0]
    assert (place["start_ns"], place["end_ns"]) == {
        "recording_slowed_run": (row.start_ns, row.end_ns),
        "comm_bandwidth": (part.start_ns, part.end_ns),
        "bucket_schedule": (part.end_ns - row.tail_ns, part.end_ns),
    }[code]


def test_without_a_timeline_findings_have_no_place_in_it(late):
    found = page(replace(late, timeline=None))
    assert found.about["places"] == [None]
    assert "Show it in the timeline" not in found.all_text
    assert "This report holds no timeline" in found.all_text
    assert "canvas#timeline" not in found.tags


def test_a_run_without_findings_says_so():
    report = two_ranks()
    none = replace(report, diagnosis=replace(report.diagnosis, findings=[]))
    assert "No finding" in page(none).all_text
    assert "No finding" not in page(report).all_text


def test_the_words_of_the_glossary_are_figures_that_metrics_md_defines():
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    formats = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    shown = page(two_ranks()).all_text
    for term in GLOSSARY:
        assert term.meaning in shown
        if term.metric:
            assert term.metric in text + formats, term


def test_facts_of_the_run_are_told(late):
    text = page(late).all_text
    for word in (
        "NVIDIA H200",
        "nccl",
        "2.28.9",
        "--switch late-compute",
        "DDP's bucket_cap_bytes",
    ):
        assert word in text


def test_no_secret_of_a_manifest_is_in_the_page():
    report = two_ranks()
    told = Settings(
        command=[
            *("python", "train.py", "--api-key", "hunter2a", "--token=hunter2b"),
            *("https://host/x?a=1&access_token=hunter2g", "-p", "hunter2h"),
            *("WANDB_API_KEY=hunter2c", "https://me:hunter2d@host/data", "--tokenizer", "gpt2"),
        ],
        options={
            "env": {"HF_TOKEN": "hunter2e", "WIDTH": "80"},
            "password": "hunter2f",
            "steps": 3,
        },
    )
    text = render(replace(report, run=replace(report.run, settings=told)))
    assert "hunter2" not in text
    for kept in ("train.py", "gpt2", "host/data", "80"):
        assert kept in text
    kept_options = json.loads(Page(text).texts["ddptrace-report"])["run"]["settings"]["options"]
    assert kept_options["steps"] == 3


def test_a_prediction_is_drawn_where_the_report_has_one_else_a_sentence():
    report = two_ranks()
    assert "This report holds no prediction." in page(report).all_text
    found = page(replace(report, whatif=prediction()))
    assert "div#whatif-chart" in found.tags
    assert "bucket_cap_mb=5 takes 120.05 of 124.00 ms a step" in found.all_text
    assert "trust: high" in found.all_text
    assert "what <b> says" in found.all_text
    assert "no prediction" not in found.all_text


def test_headings_descend_in_order():
    tags = [tag.partition("#")[0] for tag in page(two_ranks()).tags]
    levels = [int(tag[1]) for tag in tags if tag in ("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_every_kind_of_time_has_a_pattern_or_a_place_of_its_own_beside_its_colour():
    exposed = [LOOKS[kind] for kind in ("hidden", "transfer", "wait", "unclear")]
    assert len({look.hatch for look in exposed}) == len(exposed)
    ledger = [(look.colour, look.hatch) for look in LEDGER.values()]
    assert len(set(ledger)) == len(PARTS) == len(LEDGER)
    assert {field.name for field in fields(LOOKS["wait"])} >= {"title", "colour", "hatch"}
