// What all parts of the page use: elements, figures as people read them, packed data.
"use strict";

const $ = (id) => document.getElementById(id);

const data = (id) => {
  const element = $(id);
  return element === null ? null : JSON.parse(element.textContent);
};

/** Return a new element; text only ever becomes text. */
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

const UNKNOWN = "-";

const ms = (ns, decimals = 2) => (ns === null || ns === undefined ? UNKNOWN : (ns / 1e6).toFixed(decimals));
const percent = (ratio) => (ratio === null || ratio === undefined ? UNKNOWN : `${(100 * ratio).toFixed(1)} %`);
const size = (bytes) => {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  return bytes < 1e5 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(2)} MB`;
};
const grouped = new Intl.NumberFormat("en");
const counted = (number, noun) => `${grouped.format(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Return a time in the unit in which it is read best. */
const span = (ns) => {
  if (Math.abs(ns) < 1e3) return `${ns} ns`;
  if (Math.abs(ns) < 1e6) return `${(ns / 1e3).toPrecision(4)} µs`;
  return `${(ns / 1e6).toFixed(3)} ms`;
};

/** Return ranks as runs: "0-2, 5". */
const ranges = (numbers) => {
  const runs = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = runs[runs.length - 1];
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ");
};

/** Return the ranks that a text such as "0, 4-7" names, as far as there are any of them. */
const ranksIn = (text, known) => {
  const found = new Set();
  for (const [, first, last] of text.matchAll(/(\d+)(?:\s*-\s*(\d+))?/g)) {
    for (const rank of known) {
      if (rank >= Number(first) && rank <= Number(last ?? first)) found.add(rank);
    }
  }
  return [...found].sort((a, b) => a - b);
};

const bytesOf = (text) => {
  if ("fromBase64" in Uint8Array) return Uint8Array.fromBase64(text); // ten times faster, and new
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at += 1) bytes[at] = packed.charCodeAt(at);
  return bytes;
};

/** Return the bytes that a block of the page holds. */
const unpack = async (id) => {
  const stream = new Blob([bytesOf($(id).textContent.trim())]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
};

const unpackText = async (id) => new TextDecoder().decode(await unpack(id));

/** Return the value of a colour of the style sheet in the reader's scheme. */
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// As the style sheet has it.
const NARROW_SCREEN = "(max-width: 40rem)";

/** Draw anew when colours or margins become others. */
const whenThemeChanges = (draw) => {
  for (const query of ["(prefers-color-scheme: dark)", "print", NARROW_SCREEN]) {
    window.matchMedia(query).addEventListener("change", draw);
  }
};
