// What collectives of a size take: those of steps, the line through them, and those timed on the link alone.
"use strict";

const SHAPES = ["circle", "square", "diamond", "cross", "x", "triangle-up", "star"];
const INKS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"];

/** Group the collectives of a run whose size and transfer are known by what they do, and where. */
const byKind = (collectives) => {
  const kinds = new Map();
  for (const one of collectives) {
    if (!one.size_bytes || !one.transfer_ns) continue;
    const key = JSON.stringify([one.op, one.group]);
    if (!kinds.has(key)) kinds.set(key, []);
    kinds.get(key).push(one);
  }
  return [...kinds.entries()].slice(0, SHAPES.length);
};

const kindName = (kinds, op, group) => {
  const several = new Set(kinds.map(([key]) => JSON.parse(key)[1])).size > 1;
  return safe(`${op ?? "collective"}${several ? `, group ${group}` : ""}`);
};

/** Return an axis for values above 0: by powers of ten where they spread that far. */
const axisOver = (values, text) =>
  (Math.max(...values) > 8 * Math.min(...values)
    ? axis({ text, type: "log", dtick: "D2" })
    : axis({ text, rangemode: "tozero" }));

/** Size against what is told of each collective, with the fitted line and what was timed alone. */
const linkChart = (collectives, { lines, timed }, figure) => {
  const kinds = byKind(collectives);
  if (!kinds.length) return "No collective of known size was matched over its ranks.";
  const of = figure === "transfer" ? (one) => one.transfer_ns / 1e6 : (one) => one.busbw_gb_s;
  const unit = figure === "transfer" ? "ms" : "GB/s";
  const data = kinds.flatMap(([key, all], at) => {
    const [op, group] = JSON.parse(key);
    const shown = all.filter((one) => of(one) !== null);
    const name = kindName(kinds, op, group);
    const marks = {
      type: "scatter",
      mode: "markers",
      name,
      x: shown.map((one) => one.size_bytes / 1e6),
      y: shown.map(of),
      customdata: shown.map((one) => `${safe(collectiveName(one))}, step ${one.step ?? "none"}`),
      marker: { color: INKS[at], symbol: SHAPES[at], size: 8, opacity: 0.75, line: { width: 1, color: themed("--ink") } },
      hovertemplate: `%{customdata}<br>%{x:.3f} MB, %{y:.4g} ${unit}<extra></extra>`,
    };
    const line = figure === "transfer" ? lines.find((one) => one.op === op && one.group === group) : undefined;
    return line === undefined ? [marks] : [marks, fitted(line, shown, INKS[at], name)];
  });
  const alone = timed.filter((one) => of(one) !== null);
  if (alone.length) data.push(timedAlone(alone, of, unit));
  const drawn = data.filter((one) => one.mode !== "lines");
  const [x, y] = ["x", "y"].map((name) => drawn.flatMap((one) => one[name]));
  if (!x.length) return "Nothing is known of this.";
  return {
    data,
    layout: frame(340, NUMBERS, {
      showlegend: true,
      xaxis: axisOver(x, "size in MB (10⁶ bytes)"),
      yaxis: figure === "transfer" ? axisOver(y, "transfer in ms") : axis({ text: "bus bandwidth in GB/s", rangemode: "tozero" }),
    }),
  };
};

const fitted = (line, shown, colour, name) => {
  const sizes = shown.map((one) => one.size_bytes);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  const x = Array.from({ length: 30 }, (_, at) => least * (most / least) ** (at / 29));
  return {
    type: "scatter",
    mode: "lines",
    name: `${name}: α + S/B`,
    x: x.map((bytes) => bytes / 1e6),
    y: x.map((bytes) => (line.fixed_ns + line.ns_per_byte * bytes) / 1e6),
    line: { color: colour, dash: "dash", width: 2 },
    hoverinfo: "skip",
  };
};

const timedAlone = (points, of, unit) => ({
  type: "scatter",
  mode: "lines+markers",
  name: "timed alone",
  x: points.map((one) => one.size_bytes / 1e6),
  y: points.map(of),
  line: { color: themed("--quiet"), width: 1 },
  marker: { color: themed("--quiet"), symbol: "circle-open", size: 6 },
  hovertemplate: `timed alone<br>%{x:.3f} MB, %{y:.4g} ${unit}<extra></extra>`,
});
