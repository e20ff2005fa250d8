"""The pages in a real browser: what is drawn, what can be chosen, sorted, zoomed and read."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from browser import chromium, opened
from pages import HOSTILE, one_rank, prediction, two_ranks
from traces import run, trace

from ddptrace import analyze, load_run
from ddptrace.compare.comparison import compare
from ddptrace.metrics.settings import DdpSettings, Settings
from ddptrace.outputs.html import comparison, render
from ddptrace.report import Report, Timeline, to_json

SAMPLES = Path(__file__).parent.parent / "sample_traces"
CHARTS = ("ranks", "waits", "spread", "buckets", "link", "bandwidth", "whatif")


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def late() -> Report:
    report = analyze(load_run(SAMPLES / "late-compute"))
    settings = Settings(ddp=[DdpSettings(25 * 2**20, None, None, None, None)])
    return replace(report, whatif=prediction(), run=replace(report.run, settings=settings))


@pytest.fixture(scope="module")
def late_path(late, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "report.html"
    path.write_text(render(late), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shown(browser, late_path):
    """The page that all tests of one report look at."""
    return opened(browser, late_path)


@pytest.fixture
def fresh(shown):
    """The same page, put back to how it was opened: opening one takes a second and more."""
    shown.page.set_viewport_size({"width": 1200, "height": 900})
    shown.page.emulate_media(media="screen", color_scheme="light")
    shown.page.select_option("#step-choice", label="step 24")
    shown.settled("() => document.querySelector('.step-title').textContent === 'step 24'")
    shown.run(
        """() => {
          for (const head of document.querySelectorAll("[aria-sort]")) {
            head.removeAttribute("aria-sort");
          }
          document.getElementById("rank-choice-first").click();
          document.activeElement.blur();
        }"""
    )
    shown.settled(
        "() => document.getElementById('timeline-note').textContent.startsWith('Shown: 124.4')"
    )
    return shown


def document(report: Report) -> dict:
    return json.loads(to_json(report))


def test_nothing_is_logged_and_nothing_is_fetched(shown, late_path):
    assert shown.logged == []
    assert [url for url in shown.requests if not url.startswith("data:")] == [late_path.as_uri()]


def test_each_picture_is_drawn(shown):
    for name in CHARTS:
        marks = shown.page.locator(f"#{name}-chart .cartesianlayer :is(path, image)")
        assert marks.count() > 0, name
    assert shown.colours() > 8
    assert shown.run("() => document.querySelectorAll('.js-plotly-plot').length") == len(CHARTS)


def test_the_figures_of_the_page_are_those_of_the_json(shown, late):
    steps = [row for row in document(late)["steps"] if row["step"] == 24]
    names = ["step_ns", "compute_ns", "hidden_comm_ns", "exposed_comm_ns", "exposed_wait_ns"]
    names += ["exposed_transfer_ns", "exposed_mem_ns", "idle_ns", "tail_ns", "overlap_ratio"]
    for at, name in enumerate(names, start=1):
        found = [float(text) for text in shown.column("ranks-table", at)]
        assert found == [row[name] for row in steps]
    collectives = [one for one in document(late)["collectives"] if one["step"] == 24]
    for at, name in ((0, "bucket"), (3, "size_bytes"), (5, "transfer_ns"), (9, "busbw_gb_s")):
        found = [float(text) for text in shown.column("collectives-table", at)]
        assert found == [one[name] for one in collectives]
    waits = [max(each["wait_ns"] for each in one["ranks"]) for one in collectives]
    assert [int(text) for text in shown.column("collectives-table", 6)] == waits


def test_the_bars_of_a_rank_add_up_to_its_step(shown, late):
    bars = {bar["name"]: bar["x"] for bar in shown.bars("ranks-chart")}
    rows = [row for row in late.steps if row.step == 24]
    for at, row in enumerate(rows):
        lengths = [bar[at] for bar in bars.values() if bar[at] is not None]
        assert sum(lengths) == pytest.approx(row.step_ns / 1e6)
        assert bars["exposed waiting"][at] == pytest.approx(row.exposed_wait_ns / 1e6)
        assert bars["compute alone"][at] == pytest.approx(
            (row.compute_ns - row.hidden_comm_ns) / 1e6
        )


def test_the_map_of_waiting_is_that_of_the_json(shown, late):
    (heat,) = shown.bars("waits-chart")
    collectives = [one for one in late.collectives if one.step == 24]
    assert heat["y"] == ["rank 0", "rank 1"]
    for at, one in enumerate(collectives):
        assert [row[at] for row in heat["z"]] == [each.wait_ns / 1e6 for each in one.ranks]


def test_a_prediction_has_its_interval_and_the_measured_point(shown):
    low, high, curve, measured = shown.bars("whatif-chart")
    assert curve["x"] == [5, 25, 100]
    assert curve["y"] == [120.05, 120.25, 121.0]
    assert (low["y"], high["y"]) == ([119.0] * 3, [126.0] * 3)
    assert (measured["x"], measured["y"]) == ([25], [124.0])


def test_another_step_can_be_chosen(fresh, late):
    fresh.page.select_option("#step-choice", label="step 23")
    (row,) = [row for row in late.steps if (row.step, row.rank) == (23, 0)]
    fresh.settled("() => document.querySelector('.figures-title').textContent === 'step 23'")
    assert float(fresh.column("ranks-table", 1)[0]) == row.step_ns
    fresh.settled(
        "(ms) => Math.abs(document.getElementById('ranks-chart').data"
        ".reduce((sum, bar) => sum + (bar.x[0] ?? 0), 0) - ms) < 1e-6",
        row.step_ns / 1e6,
    )
    assert fresh.text("#timeline-head") == "Timeline: step 23"
    assert fresh.logged == []


def test_a_step_with_the_host_changes_the_timeline_only(fresh):
    before = fresh.column("ranks-table", 1)
    height = fresh.run("() => document.getElementById('timeline').height")
    fresh.page.select_option("#step-choice", label="step 27 with the host")
    fresh.settled("() => document.querySelector('#timeline-note').textContent.includes('host')")
    assert fresh.text("#timeline-head") == "Timeline: step 27 with the host"
    assert fresh.column("ranks-table", 1) == before
    assert fresh.text("#ranks") == "Ranks: step 24"
    assert fresh.run("() => document.getElementById('timeline').height") > height


@pytest.mark.parametrize(("table", "at"), [("ranks-table", 2), ("collectives-table", 6)])
def test_a_table_is_sorted_by_a_click_and_the_other_way_round_by_a_second(fresh, table, at):
    before = [float(text) for text in fresh.column(table, at)]
    head = fresh.page.locator(f"#{table} thead th").nth(at)
    head.locator("button").click()
    assert [float(text) for text in fresh.column(table, at)] == sorted(before, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.locator("button").press("Enter")
    assert [float(text) for text in fresh.column(table, at)] == sorted(before)
    assert head.get_attribute("aria-sort") == "ascending"


def test_a_finding_leads_to_its_place_in_the_timeline(fresh):
    fresh.page.click(".goto")
    fresh.settled("() => document.activeElement.id === 'timeline'")
    said = fresh.text("#timeline-readout")
    assert "bucket" in said
    assert "waits" in said
    assert "rank 0" in said
    assert "Shown: 124" not in fresh.text("#timeline-note")
    assert fresh.logged == []


def test_a_collective_of_the_table_leads_to_its_place(fresh):
    fresh.page.locator("#collectives-table tbody button").nth(3).click()
    fresh.settled("() => document.getElementById('timeline-readout').textContent !== ''")
    assert fresh.text("#timeline-readout").startswith("bucket 3,")


def test_the_timeline_answers_to_keys(fresh):
    canvas = fresh.page.locator("#timeline")
    canvas.focus()
    whole = fresh.text("#timeline-note")
    canvas.press("+")
    assert fresh.text("#timeline-note") != whole
    canvas.press("ArrowRight")
    canvas.press("0")
    assert fresh.text("#timeline-note") == whole
    canvas.press(".")
    first = fresh.text("#timeline-readout")
    assert "compute" in first
    canvas.press(".")
    assert fresh.text("#timeline-readout") != first
    canvas.press("ArrowDown")
    assert fresh.text("#timeline-readout") == "rank 0, communication"
    canvas.press(".")
    assert fresh.text("#timeline-readout").startswith("bucket 0, all_reduce")


def hovered(found, x: float, y: float) -> str:
    """Return what is told of a point of the timeline; x is a part of its width, y in pixels."""
    box = found.page.locator("#timeline").bounding_box()
    found.page.locator("#timeline").hover(position={"x": x * box["width"], "y": y})
    return found.run("() => document.getElementById('timeline-tip').innerText")


def test_hovering_tells_names_sizes_bandwidth_and_waiting(fresh):
    compute = hovered(fresh, 0.5, 26 + 20 + 9)
    assert "compute" in compute
    assert "rank 0" in compute
    bucket = hovered(fresh, 0.5, 26 + 20 + 18 + 12)
    assert "bucket 0, all_reduce, 33.55 MB, bus bandwidth 216" in bucket
    assert "waits 42.8" in bucket
    assert "now: " in bucket


def test_dragging_zooms_and_a_double_click_shows_the_whole_step(fresh):
    box = fresh.page.locator("#timeline").bounding_box()
    whole = fresh.text("#timeline-note")
    mouse = fresh.page.mouse
    fresh.page.locator("#timeline").scroll_into_view_if_needed()
    box = fresh.page.locator("#timeline").bounding_box()
    mouse.move(box["x"] + 400, box["y"] + 60)
    mouse.down()
    mouse.move(box["x"] + 500, box["y"] + 60, steps=4)
    mouse.up()
    assert fresh.text("#timeline-note") != whole
    fresh.page.locator("#timeline").dblclick(position={"x": 300, "y": 100})
    assert fresh.text("#timeline-note") == whole


def test_ranks_can_be_chosen(fresh):
    height = fresh.run("() => document.getElementById('timeline').height")
    fresh.page.fill("#rank-choice", "1")
    fresh.page.locator("#rank-choice").press("Enter")
    fresh.settled("(was) => document.getElementById('timeline').height < was", height)
    fresh.settled("() => document.getElementById('ranks-chart').data[0].y.join() === 'rank 1'")
    fresh.page.click("#rank-choice-first")
    fresh.settled("(was) => document.getElementById('timeline').height === was", height)
    assert fresh.page.input_value("#rank-choice") == "0-1"


def narrowed(found) -> None:
    """Make the window narrow, and wait until the pictures are, too."""
    found.page.set_viewport_size({"width": 360, "height": 900})
    found.settled(
        "() => [...document.querySelectorAll('canvas, .main-svg')]"
        ".every((one) => one.getBoundingClientRect().width <= 360)"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_sideways_scrolling(fresh, scheme):
    fresh.page.emulate_media(color_scheme=scheme)
    narrowed(fresh)
    assert fresh.run("() => document.documentElement.scrollWidth") == 360
    paper = fresh.run("() => getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    ink = fresh.run("() => document.getElementById('ranks-chart').layout.font.color")
    assert ink == {"light": "#1b1f24", "dark": "#e6e8eb"}[scheme]
    assert fresh.logged == []


def test_the_printed_page_has_the_pictures_and_no_tools(fresh):
    fresh.page.emulate_media(media="print", color_scheme="dark")
    assert not fresh.page.locator(".tools").is_visible()
    assert fresh.page.locator("#ranks-chart").is_visible()
    paper = fresh.run("() => getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert len(fresh.page.pdf()) > 50_000
    assert fresh.logged == []


def test_without_scripts_the_answer_is_there(browser, late_path, late):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(late_path.as_uri())
    assert page.locator(".headline").inner_text().lower() == late.diagnosis.headline.lower()
    assert page.locator("noscript").is_visible()
    context.close()


def test_no_name_of_a_trace_does_anything(browser, tmp_path):
    report = two_ranks()
    recordings = [replace(one, names=[HOSTILE] * 9) for one in report.timeline.recordings]
    collectives = [replace(one, op=HOSTILE, group=HOSTILE) for one in report.collectives]
    steps = [replace(row, name=HOSTILE) for row in report.steps]
    hostile = replace(report, timeline=Timeline(recordings), collectives=collectives, steps=steps)
    path = tmp_path / "page.html"
    path.write_text(render(hostile), encoding="utf-8")
    found = opened(browser, path)
    assert HOSTILE in hovered(found, 0.2, 26 + 20 + 9)
    assert HOSTILE in hovered(found, 0.28, 26 + 20 + 18 + 12)
    assert found.page.locator("img[src*=x]").count() == 0
    assert HOSTILE in found.text("#collectives-table")
    assert found.logged == []
    assert len(found.requests) == 1


def test_small_waits_and_labels_beside_names_can_be_read(browser, tmp_path):
    """
    comm  rank 0  wTTTTTTTT.wTTTTTTTT   each with a label on the name of what it was
    comm  rank 1  .TTTTTTTT..TTTTTTTT
    """
    ranks = [
        trace(
            *[("compute", 0, 100), ("comm", 200 + late, 1200), ("comm", 1300 + late, 2300)],
            *[("compute", 2300, 2400)],
            marks=[(0, 2500)],
            rank=rank,
        )
        for rank, late in enumerate((0, 12))
    ]
    path = tmp_path / "report.html"
    path.write_text(render(analyze(run(*ranks))), encoding="utf-8")
    shown = opened(browser, path)
    (heat,) = shown.bars("waits-chart")
    assert heat["z"] == [[12.0, 12.0], [0.0, 0.0]]
    assert heat["colorbar"]["title"]["text"] == "µs"
    assert heat["texttemplate"] == "%{z:.1f}"
    shown.run(
        """() => {
          window.written = [];
          const write = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
            const wide = this.measureText(text).width;
            if (this.textAlign === "left") window.written.push([text, x, x + wide, y]);
            return write.call(this, text, x, y);
          };
        }"""
    )
    shown.page.set_viewport_size({"width": 1000, "height": 900})
    shown.settled("() => window.written.some(([text]) => text === 'exposed transfer')")
    texts = [tuple(one) for one in shown.run("() => window.written")]
    texts = list(dict.fromkeys(texts))
    for text, left, right, y in texts:
        for other, left_of_other, right_of_other, y_of_other in texts:
            if (text, left) != (other, left_of_other) and y == y_of_other:
                assert right <= left_of_other or right_of_other <= left, (text, other)


def test_two_runs_are_aligned_and_the_waterfall_adds_up(browser, late, tmp_path):
    healthy = analyze(load_run(SAMPLES / "healthy"))
    found = compare(healthy, late).named("healthy", "late-compute")
    path = tmp_path / "compare.html"
    path.write_text(comparison.render(found, healthy, late), encoding="utf-8")
    shown = opened(browser, path)
    (fall,) = shown.bars("waterfall-chart")
    assert fall["x"][0] == found.step_ns.a_ns / 1e6
    assert sum(fall["x"][:-1]) == pytest.approx(found.step_ns.b_ns / 1e6)
    assert fall["x"][-1] == found.step_ns.b_ns / 1e6
    assert shown.colours() > 8
    narrowed(shown)
    assert shown.run("() => document.documentElement.scrollWidth") == 360
    shown.settled("() => document.getElementById('waterfall-chart').data[0].y[2].includes('<br>')")
    for texts in ("#waterfall-chart .bartext", "#waterfall-chart .ytick text"):
        ends = shown.run(
            "(texts) => [...document.querySelectorAll(texts)]"
            ".map((one) => one.getBoundingClientRect())"
            ".map((one) => [one.left, one.right])",
            texts,
        )
        assert ends
        assert all(0 <= left < right <= 352 for left, right in ends), (texts, ends)
    hidden = "(one) => [one.scrollWidth - one.clientWidth, one.getAttribute('aria-label')]"
    scrolled = shown.run(f"() => [...document.querySelectorAll('.scroll')].map({hidden})")
    assert [0, "Parts of the step, in ms"] in scrolled
    assert shown.logged == []
    assert len(shown.requests) == 1


def test_100_000_intervals_are_drawn_in_few_strokes_and_one_by_one_when_zoomed(browser, tmp_path):
    whole = one_rank(("compute", 0, 1_000_000))
    pieces = [(10_000 * at, 10_000 * at + 5_000, -1) for at in range(100_000 - 2)]
    (recorded,) = whole.timeline.recordings
    path = tmp_path / "page.html"
    path.write_text(render(replace(whole, timeline=Timeline([replace(recorded, kernels=pieces)]))))
    found = opened(browser, path)
    assert "99,997 intervals narrower than a pixel are merged" in found.text("#timeline-note")
    strokes = found.run(
        """async () => {
          let strokes = 0;
          const draws = CanvasRenderingContext2D.prototype.fillRect;
          CanvasRenderingContext2D.prototype.fillRect = function fill(...at) {
            strokes += 1;
            return draws.apply(this, at);
          };
          document.querySelector("[data-act=all]").click();
          CanvasRenderingContext2D.prototype.fillRect = draws;
          return strokes;
        }"""
    )
    assert strokes < 5_000
    for _ in range(12):
        found.page.click("[data-act=in]")
    assert "Every interval is drawn on its own." in found.text("#timeline-note")
    assert found.logged == []
