// Puts the page together: what is shown follows the step and the ranks that the reader chooses.
"use strict";

class Page {
  constructor(about, report, names) {
    this.about = about;
    this.report = report;
    this.decoded = new Map();
    this.step = null;
    this.ranks = about.drawn;
    this.choice = $("step-choice");
    this.recorded = new Map((report.collectives ?? []).map((one, at) => [one, about.recorded[at]]));
    this.timeline = $("timeline") === null ? null : this.makeTimeline(names);
  }

  makeTimeline(names) {
    const parts = { canvas: $("timeline"), tip: $("timeline-tip"), readout: $("timeline-readout"), note: $("timeline-note") };
    return new Timeline(parts, {
      looks: this.about.looks,
      names,
      title: (row, narrow) => this.rowTitle(row, narrow),
      collective: (one, row) => this.tellCollective(one, row),
    });
  }

  title(rank) {
    const role = this.about.roles[rank];
    return role === undefined ? `rank ${rank}` : `rank ${rank} (${role})`;
  }

  rowTitle(row, narrow) {
    const whose = row.run === "" ? "" : `${row.run}, `;
    const tail = row.tail === null ? "" : `, tail ${ms(row.tail[1] - row.tail[0])} ms`;
    const length = `${ms(row.window[1] - row.window[0])} ms`;
    return `${whose}${this.title(row.rank)}: ${narrow ? length : `step ${length}`}${tail}`;
  }

  tellCollective(one, row) {
    const { all, part } = one;
    const bandwidth = all.busbw_gb_s === null ? "" : `, bus bandwidth ${all.busbw_gb_s.toFixed(2)} GB/s`;
    const waiting = part.wait_ns === null
      ? "not matched over the ranks: waiting is not known"
      : `waits ${ms(part.wait_ns, 3)} ms, then transfers ${ms(all.transfer_ns, 3)} ms`;
    const queue = part.bucket?.queue_ns ?? null;
    return [
      `${collectiveName(all)}, ${all.op ?? "operation unknown"}, ${all.size_bytes === null ? "size unknown" : size(all.size_bytes)}${bandwidth}`,
      waiting,
      `hidden ${ms(part.hidden_ns, 3)} ms, exposed ${ms(part.exposed_ns, 3)} ms`,
      ...(queue === null ? [] : [`started ${ms(queue, 3)} ms after its gradients were ready`]),
      `from ${ms(one.start, 3)} to ${ms(one.end, 3)} ms, ${row.run ? `${row.run}, ` : ""}rank ${row.rank}`,
    ];
  }

  // --- what is chosen ---

  async start() {
    for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
    this.choice?.addEventListener("change", () => this.showStep(this.choice.value));
    $("rank-choice")?.addEventListener("change", (event) => this.chooseRanks(event.target.value));
    $("rank-choice-first")?.addEventListener("click", () => this.chooseRanks(null));
    $("bucket-rank")?.addEventListener("change", () => this.drawCharts(this.chartsOfBuckets()));
    for (const button of document.querySelectorAll(".goto")) {
      button.addEventListener("click", () => this.goto(this.about.places[Number(button.dataset.place)]));
    }
    for (const button of document.querySelectorAll("[data-act]")) {
      button.addEventListener("click", () => this.act(button.dataset.act));
    }
    whenThemeChanges(() => this.drawCharts([...this.chartsOfStep(), ...this.chartsOfRun()]));
    window.addEventListener("beforeprint", () => this.print(true));
    window.addEventListener("afterprint", () => this.print(false));
    this.waits = JSON.parse(await unpackText("waits"));
    await this.showStep(this.about.first);
    await loadPlotly(); // last: reading it takes longer than all that could be read before
    await this.drawCharts([...this.chartsOfStep(), ...this.chartsOfRun()]);
    document.documentElement.dataset.ready = "yes";
  }

  act(name) {
    const { timeline } = this;
    const acts = {
      in: () => timeline.zoom(0.5, timeline.middle()),
      out: () => timeline.zoom(2, timeline.middle()),
      all: () => timeline.full(),
      left: () => timeline.pan(-0.4),
      right: () => timeline.pan(0.4),
      before: () => timeline.next(-1),
      after: () => timeline.next(1),
    };
    acts[name]();
  }

  async showStep(key) {
    const step = this.about.steps.find((one) => one.key === key);
    this.shown = step;
    if (this.choice !== null) this.choice.value = key;
    for (const place of document.querySelectorAll(".step-title")) place.textContent = step.title;
    await this.drawTimeline();
    if (!step.figures) return;
    this.step = step;
    for (const place of document.querySelectorAll(".figures-title")) place.textContent = step.title;
    this.drawStep();
  }

  chooseRanks(text) {
    const field = $("rank-choice");
    const found = text === null ? [] : ranksIn(text, this.about.ranks);
    this.ranks = found.length ? found : this.about.drawn;
    field.value = ranges(this.ranks);
    this.drawTimeline();
    this.drawCharts([...this.chartsOfStep(), ...this.chartsOfRun()]);
  }

  async goto(place) {
    if (!this.ranks.includes(place.rank)) this.chooseRanks(ranges([...this.ranks, place.rank]));
    if (place.step !== undefined && place.step !== this.shown.key) await this.showStep(place.step);
    else await this.pending;
    this.timeline.goto({ lane: null, ...place });
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    $("timeline-section").scrollIntoView({ behavior: still ? "auto" : "smooth" });
    $("timeline").focus({ preventScroll: true });
  }

  // --- the timeline ---

  drawTimeline() {
    this.pending = this.drawTimelineNow();
    return this.pending;
  }

  async drawTimelineNow() {
    if (this.timeline === null) return;
    const step = this.shown;
    if (!this.decoded.has(step.key)) {
      const header = decode(await unpack(step.key));
      for (const row of header.rows) row.collectives = this.collectivesOf(row);
      this.decoded.set(step.key, header);
    }
    if (step !== this.shown) return; // chosen again meanwhile
    const rows = this.decoded.get(step.key).rows.filter((row) => this.ranks.includes(row.rank) || row.run !== "");
    this.timeline.show(step, rows, step.note);
  }

  /** Return the collectives in a row's window, as far as the page holds them, in order of time. */
  collectivesOf(row) {
    const found = [];
    for (const all of this.collectives(row.run)) {
      const part = all.ranks.find((each) => each.rank === row.rank);
      if (part === undefined) continue;
      const [start, end] = [part.start_ns - row.origin_ns, part.end_ns - row.origin_ns];
      if (end > row.window[0] && start < row.window[1]) found.push({ all, part, start, end, label: shortName(all) });
    }
    return found.sort((a, b) => a.start - b.start);
  }

  collectives() {
    return this.report.collectives;
  }

  // --- charts and tables ---

  get rows() {
    return this.report.steps.filter((row) => row.step === this.step.step);
  }

  get drawnRows() {
    return this.rows.filter((row) => this.ranks.includes(row.rank)).slice(0, MOST_ROWS);
  }

  get stepCollectives() {
    return this.report.collectives.filter((one) => one.step === this.step.step);
  }

  drawStep() {
    this.fillTables();
    return this.drawCharts(this.chartsOfStep());
  }

  fillTables() {
    fillTable("ranks-table", rankRows(this.rows, (rank) => this.title(rank)));
    fillTable("collectives-table", collectiveRows(this.stepCollectives, (one) => this.recorded.get(one), (place) => this.goto({ ...place, step: this.step.key })));
  }

  /** Draw charts one after the other, so that the page stays at hand; a later call goes first. */
  async drawCharts(charts) {
    if (!("Plotly" in window)) return;
    const names = new Set(charts.map(([name]) => name));
    const started = charts.length > 0 && this.waiting !== undefined && this.waiting.length > 0;
    this.waiting = [...charts, ...(this.waiting ?? []).filter(([name]) => !names.has(name))];
    if (started) return;
    while (this.waiting.length) {
      const [name, chart] = this.waiting.shift();
      draw(name, chart());
      await new Promise((resolve) => { setTimeout(resolve); });
    }
  }

  chartsOfStep() {
    const title = (rank) => this.title(rank);
    return [
      ["ranks-chart", () => ranksChart(this.drawnRows, this.about.looks, title)],
      ["waits-chart", () => waitsChart(this.waits[this.step.key], title)],
      ...this.chartsOfBuckets(),
    ];
  }

  chartsOfBuckets() {
    return [["buckets-chart", () => {
      const rank = Number($("bucket-rank").value);
      const row = this.rows.find((one) => one.rank === rank);
      if (row === undefined) return "This rank has no such step.";
      return bucketsChart(this.stepCollectives, rank, row.start_ns, this.about.looks);
    }]];
  }

  /** Return the charts that are of the whole run. */
  chartsOfRun() {
    const { about, report } = this;
    const ranks = this.ranks.slice(0, MOST_ROWS);
    const charts = [
      ["spread-chart", () => spreadChart(about.spread, ranks, (rank) => this.title(rank))],
      ["link-chart", () => linkChart(report.collectives, about, "transfer")],
      ["bandwidth-chart", () => linkChart(report.collectives, about, "bandwidth")],
    ];
    if (report.whatif !== null) charts.push(["whatif-chart", () => whatIfChart(report.whatif, about.measured_cap_mb)]);
    return charts;
  }

  print(begins) {
    const width = begins ? 680 : null;
    for (const chart of document.querySelectorAll(".js-plotly-plot")) {
      Plotly.relayout(chart, begins ? { width } : { width, autosize: true });
    }
  }
}

/** Two runs side by side: one timeline with the rows of both, and what their steps differ in. */
class Comparison extends Page {
  collectives(run) {
    return this.about.collectives[run] ?? [];
  }

  title(rank) {
    return `rank ${rank}`;
  }

  fillTables() {}

  chartsOfStep() {
    return [["waterfall-chart", () => waterfallChart(this.report)]];
  }

  chartsOfRun() {
    return [];
  }
}

/** Run plotly: its text is in the page, packed, and its hash is in the page's policy. */
const loadPlotly = async () => {
  const script = make("script");
  script.textContent = await unpackText("plotly");
  document.head.append(script);
};

const main = async () => {
  if (!("DecompressionStream" in window)) throw new Error("this browser cannot unpack data; use one of 2023 or newer");
  const names = await unpackText("names");
  const about = data("ddptrace-page");
  const report = data("ddptrace-report") ?? data("ddptrace-comparison");
  const kind = about.kind === "comparison" ? Comparison : Page;
  await new kind(about, report, JSON.parse(names)).start();
};

main().catch((error) => {
  const place = $("failed");
  place.hidden = false;
  place.append(` ${error.message}`);
  throw error;
});
