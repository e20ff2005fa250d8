// The charts that plotly draws. Its texts are markup, so that names are escaped before they get there.
"use strict";

const FONT = "system-ui, sans-serif";
const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const HATCH = { "": "", "/": "/", "\\": "\\", x: "x", "-": "-", "|": "|", ".": "." };

/** Return the fill of bars that look so: a pattern as well as a colour. */
const fill = (look) => ({
  color: look.colour,
  line: { width: 0.5, color: "rgba(128,128,128,.8)" },
  pattern: { shape: HATCH[look.hatch], fillmode: "overlay", fgcolor: "rgba(0,0,0,.35)", size: 7, solidity: 0.2 },
});

const axis = (more = {}) => ({
  gridcolor: themed("--rule"),
  linecolor: themed("--rule"),
  zeroline: false,
  fixedrange: true,
  title: { text: more.text ?? "", standoff: 8 },
  ...Object.fromEntries(Object.entries(more).filter(([name]) => name !== "text")),
});

/** Return the layout of a chart; its margins hold what stands beside the axes. */
const frame = (height, labels, more = {}) => ({
  height,
  // Plotly can find the margins itself, but then draws everything twice.
  margin: { l: 14 + 6.7 * Math.max(...labels.map((label) => label.length)), r: more.room ?? 16, t: more.showlegend ? 36 : 8, b: 46 },
  showlegend: false,
  hovermode: "closest",
  hoverlabel: { font: { family: FONT, color: themed("--ink") }, bgcolor: themed("--paper"), bordercolor: themed("--quiet"), align: "left" },
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
  font: { family: FONT, size: 12, color: themed("--ink") },
  legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
  dragmode: false,
  ...more,
});

// Without these plotly offers to upload the chart.
const CONFIG = { responsive: true, displayModeBar: false, displaylogo: false, showSendToCloud: false, plotlyServerURL: "" };

/** Draw a chart, or say in its place why there is none. */
const draw = (id, chart) => {
  const place = $(id);
  if (place === null) return;
  if (typeof chart === "string") {
    Plotly.purge(place);
    place.replaceChildren(make("p", { class: "quiet" }, chart));
    return;
  }
  if (!place.classList.contains("js-plotly-plot")) place.replaceChildren();
  Plotly.react(place, chart.data, chart.layout, CONFIG);
};

const rankNames = (rows, title) => rows.map((row) => title(row.rank));

/** Stacked bars a rank; where something is not known the rest of the step is. */
const rankParts = (row) => {
  const split = row.exposed_wait_ns !== null && row.exposed_transfer_ns !== null;
  const alone = row.compute_ns !== null && row.hidden_comm_ns !== null
    ? row.compute_ns - row.hidden_comm_ns : row.compute_ns;
  const parts = {
    compute: alone,
    hidden: row.hidden_comm_ns,
    wait: split ? row.exposed_wait_ns : null,
    transfer: split ? row.exposed_transfer_ns : null,
    unclear: split ? null : row.exposed_comm_ns,
    copies: row.exposed_mem_ns,
    idle: row.idle_ns,
  };
  const known = Object.values(parts).reduce((sum, part) => sum + (part ?? 0), 0);
  return { ...parts, unknown: row.step_ns !== null && known < row.step_ns ? row.step_ns - known : null };
};

const PART_WORDS = { compute: "compute alone", hidden: "compute with communication hidden under it", copies: "exposed copies" };

const ranksChart = (rows, looks, title) => {
  const whole = rows.filter((row) => !row.partial && row.step_ns !== null);
  if (!whole.length) return "No rank of this step was read whole.";
  const parts = whole.map(rankParts);
  const kinds = Object.keys(parts[0]).filter((kind) => parts.some((part) => part[kind]));
  const data = kinds.map((kind) => ({
    type: "bar",
    orientation: "h",
    name: PART_WORDS[kind] ?? looks[kind].title,
    y: rankNames(whole, title),
    x: parts.map((part) => (part[kind] === null ? null : part[kind] / 1e6)),
    customdata: whole.map((row, at) => (100 * (parts[at][kind] ?? 0)) / row.step_ns),
    marker: fill(looks[kind]),
    texttemplate: "%{x:.2f}",
    textposition: "inside",
    insidetextanchor: "middle",
    textangle: 0,
    textfont: { color: looks[kind].ink },
    hovertemplate: `%{y}<br>${PART_WORDS[kind] ?? looks[kind].title}: %{x:.3f} ms<br>%{customdata:.1f} % of the step<extra></extra>`,
  }));
  const layout = frame(70 + 34 * whole.length, rankNames(whole, title), {
    barmode: "stack",
    bargap: 0.25,
    uniformtext: { mode: "hide", minsize: 10 },
    xaxis: axis({ text: "ms", rangemode: "tozero" }),
    yaxis: axis({ autorange: "reversed", showgrid: false, type: "category" }),
  });
  return { data, layout };
};

const collectiveName = (one) =>
  one.bucket === null ? `${one.op ?? "collective"} #${one.order}` : `bucket ${one.bucket}`;
const shortName = (one) => (one.bucket === null ? `#${one.order}` : `b${one.bucket}`);

/** Who waited for whom: waiting by rank and collective, in ms or µs, as the longest asks for. */
const waitsChart = (waits, title) => {
  const { ranks, collectives: known, rows } = waits;
  if (!known.length) return "No waiting is known of this step's collectives: none is matched over several ranks.";
  const most = rows.flat().reduce((longest, ns) => Math.max(longest, ns ?? 0), 0);
  const [unit, unitNs] = most < 1e6 ? ["µs", 1e3] : ["ms", 1e6];
  const z = rows.map((row) => row.map((ns) => (ns === null ? null : ns / unitNs)));
  const names = known.map(([name]) => safe(name));
  const few = ranks.length <= 24 && known.length * 32 < $("waits-chart").clientWidth - 120;
  return {
    data: [{
      type: "heatmap",
      x: known.map((_, at) => at),
      y: ranks.map((rank) => title(rank)),
      z,
      customdata: ranks.map(() => names),
      colorscale: "Cividis",
      zmin: 0,
      xgap: few ? 1 : 0,
      ygap: few ? 1 : 0,
      texttemplate: few ? `%{z:.${most < 100 * unitNs ? 1 : 0}f}` : undefined,
      textfont: { size: 11 },
      colorbar: { title: { text: unit, side: "right" }, thickness: 12, len: 1 },
      hovertemplate: `%{y} waits %{z:.3f} ${unit}<br>in %{customdata}<extra></extra>`,
    }],
    layout: frame(Math.min(90 + 30 * ranks.length, 720), ranks.map(title), {
      xaxis: axis({ text: "collectives in order of time", ...named(known), showgrid: false }),
      yaxis: axis({ autorange: "reversed", showgrid: false, type: "category" }),
    }),
  };
};

/** Return the ticks that name collectives, as many as there is room for. */
const named = (collectives) => {
  const every = Math.ceil((collectives.length * 26) / Math.max($("waits-chart").clientWidth - 120, 100));
  const shown = collectives.map((_, at) => at).filter((at) => at % every === 0);
  return { tickvals: shown, ticktext: shown.map((at) => collectives[at][1]), tickangle: 0 };
};

/** Step times of each rank: a box from quartile to quartile, a line to the extremes, the steps. */
const spreadChart = (spread, ranks, title) => {
  const shown = spread.filter((one) => ranks.includes(one.rank));
  if (!shown.length) return "No step time is known.";
  const names = shown.map((one) => title(one.rank));
  const inMs = (part) => shown.map((one) => one[part] / 1e6);
  const points = shown.flatMap((one) => one.steps.map(([step, ns]) => [title(one.rank), ns / 1e6, step]));
  return {
    data: [{
      type: "box",
      orientation: "h",
      y: names,
      q1: inMs("q1"), median: inMs("median"), q3: inMs("q3"), lowerfence: inMs("min"), upperfence: inMs("max"),
      hoverinfo: "x",
      line: { color: themed("--ink"), width: 1.5 },
      fillcolor: "rgba(86,180,233,.35)",
    }, {
      type: "scatter",
      mode: "markers",
      y: points.map((point) => point[0]),
      x: points.map((point) => point[1]),
      customdata: points.map((point) => point[2]),
      marker: { color: themed("--mark"), symbol: "diamond-open", size: 8 },
      hovertemplate: "%{y}, step %{customdata}: %{x:.3f} ms<extra></extra>",
    }],
    layout: frame(70 + 34 * shown.length, names, {
      xaxis: axis({ text: "ms" }),
      yaxis: axis({ autorange: "reversed", showgrid: false, type: "category", categoryorder: "array", categoryarray: names }),
    }),
  };
};

/** When each bucket of a rank was ready, started, moved data and ended. */
const bucketsChart = (collectives, rank, origin, looks) => {
  const rows = collectives
    .map((one) => ({ one, part: one.ranks.find((each) => each.rank === rank) }))
    .filter((row) => row.part !== undefined)
    .slice(0, 200);
  if (!rows.length) return "No collective of this step is known on this rank.";
  const passes = new Set(rows.map((row) => row.one.backward_pass).filter((pass) => pass !== null)).size;
  const names = rows.map(({ one }, at) => {
    const pass = passes > 1 && one.backward_pass !== null ? `, pass ${one.backward_pass}` : "";
    const named = one.bucket === null ? `${one.op ?? "collective"} #${one.order}` : `bucket ${one.bucket}`;
    return `${safe(named)}${pass}${"\u200b".repeat(at)}`; // kept apart where names are alike
  });
  const bars = (name, look, width, of) => {
    const found = rows.map(({ part }, at) => [names[at], of(part), rows[at]]).filter(([, times]) => times !== null && times[1] > times[0]);
    return {
      type: "bar",
      orientation: "h",
      name,
      width,
      y: found.map(([y]) => y),
      base: found.map(([, [from]]) => (from - origin) / 1e6),
      x: found.map(([, [from, to]]) => (to - from) / 1e6),
      customdata: found.map(([, [, to], { one }]) => [(to - origin) / 1e6, size(one.size_bytes)]),
      marker: fill(look),
      hovertemplate: `%{y}, %{customdata[1]}<br>${name}: %{x:.3f} ms<br>from %{base:.3f} to %{customdata[0]:.3f} ms<extra></extra>`,
    };
  };
  const waited = (part) => (part.wait_ns === null ? null : part.start_ns + part.wait_ns);
  const data = [
    bars("gradients ready, not started", { colour: "#98a2ad", hatch: "-" }, 0.3,
      (part) => (part.bucket === null || part.bucket.ready_ns === null ? null : [part.bucket.ready_ns, part.start_ns])),
    bars("waiting for another rank", looks.wait, 0.7, (part) => (waited(part) === null ? null : [part.start_ns, waited(part)])),
    bars("transfer", looks.transfer, 0.7, (part) => [waited(part) ?? part.start_ns, part.end_ns]),
  ].filter((bar) => bar.x.length);
  return {
    data,
    layout: frame(110 + 22 * rows.length, names.map((name) => name.replace(/\u200b/g, "")), {
      barmode: "overlay",
      showlegend: true,
      xaxis: axis({ text: "ms from the step's start", fixedrange: false }),
      yaxis: axis({ autorange: "reversed", showgrid: false, type: "category", categoryorder: "array", categoryarray: names, dtick: rows.length > 60 ? 5 : 1 }),
    }),
  };
};

const NUMBERS = ["0.000 ms"]; // as long as what stands at an axis of figures, with its title

/** What another bucket size would do to the step, with how sure that is and what was measured. */
const whatIfChart = (whatif, measuredCap) => {
  const rows = [...(whatif.predictions ?? [])].filter((one) => one.bucket_cap_mb !== null && one.step_ns !== null)
    .sort((a, b) => a.bucket_cap_mb - b.bucket_cap_mb);
  if (!rows.length) return "The model predicts nothing for this run.";
  const x = rows.map((one) => one.bucket_cap_mb);
  const inMs = (name) => rows.map((one) => ((one[name] ?? one.step_ns) / 1e6));
  const data = [
    { type: "scatter", mode: "lines", x, y: inMs("low_ns"), line: { width: 0 }, hoverinfo: "skip", showlegend: false },
    { type: "scatter", mode: "lines", name: "interval", x, y: inMs("high_ns"), line: { width: 0 }, fill: "tonexty", fillcolor: "rgba(86,180,233,.3)", hoverinfo: "skip" },
    {
      type: "scatter", mode: "lines+markers", name: "predicted", x, y: inMs("step_ns"),
      customdata: rows.map((one) => [one.buckets ?? UNKNOWN, ms(one.low_ns), ms(one.high_ns), ms(one.exposed_comm_ns), ms(one.tail_ns)]),
      line: { color: "#0072b2", width: 2 },
      hovertemplate: "%{x} MB: %{y:.2f} ms (%{customdata[1]} to %{customdata[2]})<br>buckets: %{customdata[0]}, exposed %{customdata[3]} ms, tail %{customdata[4]} ms<extra></extra>",
    },
  ];
  if (whatif.measured_step_ns && measuredCap !== null) {
    data.push({
      type: "scatter", mode: "markers", name: "measured", x: [measuredCap], y: [whatif.measured_step_ns / 1e6],
      marker: { symbol: "star", size: 15, color: "#d55e00", line: { width: 1, color: themed("--ink") } },
      hovertemplate: "measured with %{x} MB: %{y:.2f} ms<extra></extra>",
    });
  }
  const layout = frame(320, NUMBERS, {
    showlegend: true,
    xaxis: axis({ text: "bucket_cap_mb", type: "log", dtick: "D2" }),
    yaxis: axis({ text: "step in ms" }),
  });
  if (whatif.measured_step_ns && measuredCap === null) {
    layout.shapes = [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: whatif.measured_step_ns / 1e6, y1: whatif.measured_step_ns / 1e6, line: { color: "#d55e00", dash: "dot" } }];
  }
  return { data, layout };
};

/** How the step of one run becomes that of the other, part by part; the parts add up. */
const waterfallChart = (comparison) => {
  const step = comparison.step_ns;
  if (step === null || !comparison.parts.length) return comparison.reason ? `No parts: ${comparison.reason}.` : "No parts are known.";
  const parts = comparison.parts.filter((part) => part.difference_ns !== 0);
  const begin = waterfallBegin(step, parts);
  const narrow = window.matchMedia(NARROW_SCREEN).matches;
  const lines = ["step of A", ...parts.map((part) => part.words), "step of B"].map((words) => (narrow ? wrapped(words) : [words]));
  return {
    data: [{
      type: "waterfall",
      orientation: "h",
      measure: ["absolute", ...parts.map(() => "relative"), "total"],
      y: lines.map((words) => words.join("<br>")),
      x: [step.a_ns / 1e6, ...parts.map((part) => part.difference_ns / 1e6), step.b_ns / 1e6],
      customdata: lines.map((words) => words.join(" ")),
      text: [ms(step.a_ns), ...parts.map((part) => signed(part.difference_ns)), ms(step.b_ns)],
      textposition: "outside",
      cliponaxis: false,
      increasing: { marker: { color: "#d55e00" } },
      decreasing: { marker: { color: "#0072b2" } },
      totals: { marker: { color: "#8a939c" } },
      connector: { line: { color: themed("--quiet"), width: 1 } },
      hovertemplate: "%{customdata}: %{text} ms<extra></extra>",
    }],
    layout: frame(80 + (narrow ? 46 : 34) * lines.length, lines.flat(), {
      xaxis: axis(begin > 0
        ? { text: `ms; the axis begins at ${ms(begin, 0)} ms`, range: [begin / 1e6, null], autorangeoptions: { minallowed: begin / 1e6 } }
        : { text: "ms", rangemode: "tozero" }),
      yaxis: axis({ autorange: "reversed", showgrid: false, type: "category" }),
      room: 56, // for what stands behind the longest bar
    }),
  };
};

/** Return words as lines of a label that leaves room for the picture on a narrow screen. */
const wrapped = (words) => {
  const lines = [""];
  for (const word of words.split(" ")) {
    const longer = `${lines[lines.length - 1]} ${word}`.trim();
    if (longer.length <= 16) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter((line) => line);
};

/** Return a difference in ms with its sign, which one that rounds to 0 lacks. */
const signed = (ns) => {
  const text = ms(Math.abs(ns));
  if (text === "0.00") return text;
  return `${ns > 0 ? "+" : "−"}${text}`;
};

/** Return where the axis begins: at 0, or later where all that differs is far from it. */
const waterfallBegin = (step, parts) => {
  let now = step.a_ns;
  const reached = parts.map((part) => (now += part.difference_ns));
  const least = Math.min(step.a_ns, step.b_ns, ...reached);
  const most = Math.max(step.a_ns, step.b_ns, ...reached);
  const begin = least - 1.5 * Math.max(most - least, 0.02 * most);
  return begin > 0.6 * least ? Math.floor(begin / 1e6) * 1e6 : 0;
};
