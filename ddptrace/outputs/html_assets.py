"""What pages are made of: style sheet, script and head, kept in code so that one import finds them.

Pages load nothing, and say so to the browser.
"""

from html import escape

# Tells the browser, too, that nothing may be fetched.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --ink: #1b1f24; --quiet: #57606a;
  --rule: #d0d7de; --note: #fff4d6; --alarm: #b34e00; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171a; --ink: #e6e8eb; --quiet: #a3adb8; --rule: #3a424a; --note: #3a3010;
    --alarm: #ff9d5c; } }
@media print {
  :root { color-scheme: light; --paper: #fff; --ink: #000; --quiet: #444; --rule: #bbb;
    --note: #fff; --alarm: #b34e00; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.25rem; margin: 0; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p, ul, dl, figure { margin: .5rem 0; padding: 0; }
dl.run { display: flex; flex-wrap: wrap; gap: 0 1.25rem; color: var(--quiet); font-size: .9rem; }
dl.run div { display: flex; gap: .4rem; }
dl.run dd { margin: 0; color: var(--ink); }
.headline { font-size: 1.15rem; font-weight: 600; }
.quiet, figcaption { color: var(--quiet); font-size: .9rem; }
.warnings { list-style: none; }
.warnings li { margin: .4rem 0; padding: .4rem .75rem; background: var(--note);
  border-left: 4px solid #e69f00; overflow-wrap: anywhere; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; font-size: .9rem; }
.legend li { display: flex; align-items: center; gap: .4rem; }
.swatch { width: 1.5rem; height: .9rem; flex: none; border: 1px solid rgba(128, 128, 128, .7);
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
select { font: inherit; padding: .15rem .4rem; max-width: 100%; }
.chart { width: 100%; overflow: hidden; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; white-space: nowrap; }
thead th, tbody + tbody th[scope=rowgroup] { border-bottom: 1px solid var(--rule); }
th[scope=rowgroup] { text-align: left; }
.partial { color: var(--alarm); }
figure, tbody, .warnings li { break-inside: avoid; }
/* Plotly writes colours into its elements; these follow the reader's scheme instead. */
.chart .xtick text, .chart .ytick text, .chart .xtitle, .chart .annotation text,
.chart .hovertext text, .chart text[style*="ddptrace-faint"] {
  fill: var(--ink) !important; }
.chart text[style*="ddptrace-faint"] { paint-order: stroke; stroke: var(--paper);
  stroke-width: 3px; }
.chart .hovertext path { fill: var(--paper) !important; stroke: var(--quiet) !important; }
.chart .gridlayer path { stroke: var(--rule) !important; }
h2, .legend { break-after: avoid; }
@media print { .modebar-container, .choice { display: none; } }
"""

SCRIPT = """
(() => {
  "use strict";
  const steps = JSON.parse(document.getElementById("ddptrace-charts").textContent);
  const choice = document.getElementById("step-choice");
  // Without these, plotly offers to upload the chart.
  const offline = { responsive: true, displaylogo: false, showSendToCloud: false,
    plotlyServerURL: "" };
  const names = ["breakdown", "timeline"].filter((name) => document.getElementById(name));
  const configs = {
    breakdown: { ...offline, displayModeBar: false },
    timeline: { ...offline, modeBarButtons: [["zoomIn2d", "zoomOut2d", "resetScale2d"]] },
  };
  const touch = window.matchMedia("(pointer: coarse)").matches;
  // Hover shows a bar's length, which plotly knows only as `x`, beside where it ends. The least
  // width is far below a pixel: plotly widens such a bar to one pixel, but drops narrower ones.
  const drawn = (bars, least) => bars.base ? {
    ...bars,
    customdata: bars.x.map((length, i) => [length, bars.count[i]]),
    x: bars.x.map((length) => Math.max(length, least)),
  } : bars;
  const show = (step) => {
    for (const name of names) {
      const chart = step[name];
      const least = (chart.layout.xaxis.range ?? [0, 0])[1] / 20000;
      // A finger scrolls the page; the buttons zoom.
      const layout = { ...chart.layout, dragmode: touch ? false : "zoom" };
      Plotly.react(name, chart.data.map((bars) => drawn(bars, least)), layout, configs[name]);
      document.getElementById(name + "-note").textContent = chart.note;
      document.getElementById(name + "-step").textContent = step.title;
    }
  };
  const resize = (size) => {
    for (const name of names) Plotly.relayout(name, size);
  };
  show(steps[choice ? choice.value : 0]);
  if (choice) choice.addEventListener("change", () => show(steps[choice.value]));
  window.addEventListener("beforeprint", () => resize({ width: 660 }));
  window.addEventListener("afterprint", () => resize({ width: null, autosize: true }));
})();
"""


def head(title: str, of: str) -> str:
    """Return the start of a page, up to its heading."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(title)}: {escape(of)}</title>
<style>{STYLE}</style></head>
<body><main>
<h1>{escape(title)}</h1>"""


def data(name: str, json: str) -> str:
    """Return JSON as an element that scripts read; no `<` in it can end the element."""
    safe = json.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>'
