// The timeline: all ranks of a step on a canvas, drawn anew at every zoom from the packed columns.
"use strict";

class Timeline {
  /** `parts` are the elements; `about` has looks, names and what is known of collectives. */
  constructor(parts, about) {
    this.parts = parts;
    this.about = about;
    this.canvas = parts.canvas;
    this.context = this.canvas.getContext("2d");
    this.patterns = new Map();
    this.rows = [];
    this.cursor = { row: 0, lane: 0, kind: null, index: -1 };
    this.drag = null;
    this.listen();
  }

  // --- what is shown ---

  show(step, rows, note) {
    this.step = step;
    this.rows = rows.slice(0, MOST_ROWS);
    this.more = rows.length - this.rows.length;
    this.note = note;
    this.lanes = LANES.filter((lane) =>
      rows.some((row) => lane.kinds.some((kind) => row.lanes[kind])) || lane.name === "compute");
    this.cursor = { row: 0, lane: 0, kind: null, index: -1 };
    this.full();
  }

  full() {
    const length = Math.max(...this.rows.map((row) => row.window[1]), 1);
    this.look(0, length);
  }

  /** Show the time from one moment to another, at least 100 ns. */
  look(from, to) {
    const longest = Math.max(...this.rows.map((row) => row.window[1]), 1);
    const length = Math.min(Math.max(to - from, 100), longest);
    this.from = Math.min(Math.max(from, 0), longest - length);
    this.to = this.from + length;
    this.draw();
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    const from = around - (around - this.from) * factor;
    this.look(from, from + (this.to - this.from) * factor);
  }

  pan(part) {
    const by = (this.to - this.from) * part;
    this.look(this.from + by, this.to + by);
  }

  /** Show a place of a rank with as much time around it, and select what is there. */
  goto(place) {
    const row = this.rows.findIndex((one) => one.rank === place.rank);
    if (row < 0) return;
    let [from, to, kind, index] = this.placed(this.rows[row], place);
    const lane = this.lanes.findIndex((one) => one.kinds.includes(kind));
    this.cursor = { row, lane: Math.max(lane, 0), kind, index };
    const around = Math.max(to - from, 1000) * 0.6;
    this.look(from - around, to + around);
    this.say();
  }

  placed(row, place) {
    if (place.start_ns !== null) {
      const [from, to] = [place.start_ns - row.origin_ns, place.end_ns - row.origin_ns];
      const index = row.collectives.findIndex((one) => one.start === from && one.end === to);
      return [from, to, index < 0 ? null : "collective", index];
    }
    const lane = row.lanes[place.lane];
    if (!lane) return [...row.window, null, -1];
    let longest = 0;
    for (let i = 1; i < lane.length; i += 1) {
      if (lane.end[i] - lane.start[i] > lane.end[longest] - lane.start[longest]) longest = i;
    }
    return [lane.start[longest], lane.end[longest], place.lane, longest];
  }

  // --- drawing ---

  get rowHeight() {
    return HEAD + this.lanes.reduce((sum, lane) => sum + lane.height, 0) + BETWEEN;
  }

  x(moment) {
    return this.left + ((moment - this.from) / (this.to - this.from)) * (this.width - this.left);
  }

  moment(x) {
    return this.from + ((x - this.left) / (this.width - this.left)) * (this.to - this.from);
  }

  draw() {
    if (!this.rows.length) return;
    const ratio = window.devicePixelRatio || 1;
    this.width = Math.max(this.canvas.parentElement.clientWidth, 200);
    this.narrow = this.width < NARROW;
    this.left = this.narrow ? 40 : 108;
    this.height = 2 * AXIS + this.rows.length * this.rowHeight;
    this.canvas.style.height = `${this.height}px`;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    const c = this.context;
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.ink = themed("--ink");
    this.quiet = themed("--quiet");
    this.paper = themed("--paper");
    this.rule = themed("--rule");
    this.mark = themed("--mark");
    c.fillStyle = this.paper;
    c.fillRect(0, 0, this.width, this.height);
    this.merged = 0;
    this.drawAxis();
    this.rows.forEach((row, at) => this.drawRow(row, AXIS + at * this.rowHeight));
    if (this.drag && this.drag.zooms) this.drawSelection();
    this.tell();
  }

  drawAxis() {
    const c = this.context;
    const step = this.tick();
    const digits = Math.max(0, Math.ceil(-Math.log10(step / 1e6) - 1e-9));
    c.font = "12px system-ui, sans-serif";
    c.fillStyle = this.quiet;
    c.strokeStyle = this.rule;
    c.lineWidth = 1;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      c.beginPath();
      c.moveTo(x, AXIS - 6);
      c.lineTo(x, this.height - AXIS + 6);
      c.stroke();
      const text = (at / 1e6).toFixed(digits);
      const half = c.measureText(text).width / 2;
      const inside = Math.min(Math.max(x, this.left + half), this.width - half - 1);
      c.fillText(text, inside, 10);
      c.fillText(text, inside, this.height - 12);
    }
    c.textAlign = "left";
    c.fillText("ms", 4, 10);
    c.fillText("ms", 4, this.height - 12);
  }

  /** Return the distance of two lines of the axis: 1, 2 or 5 times a power of ten, in ns. */
  tick() {
    const least = ((this.to - this.from) * (this.narrow ? 50 : 70)) / (this.width - this.left);
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map((times) => times * power).find((step) => step >= least);
  }

  drawRow(row, top) {
    const c = this.context;
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.font = "600 13px system-ui, sans-serif";
    c.fillStyle = this.ink;
    const title = this.about.title(row, this.narrow);
    c.fillText(title, 4, top + HEAD / 2);
    if (row.partial) {
      c.fillText("PARTIAL: not drawn", this.left, top + HEAD + 14);
      return;
    }
    let y = top + HEAD;
    for (const lane of this.lanes) {
      this.drawLane(row, lane, y);
      y += lane.height;
    }
    this.drawWindow(row, top + HEAD, y);
    this.drawCursor(row, top + HEAD);
  }

  drawLane(row, lane, y) {
    const c = this.context;
    c.font = "11px system-ui, sans-serif";
    c.fillStyle = this.quiet;
    c.textAlign = "right";
    c.fillText(this.narrow ? lane.short : lane.name, this.left - 6, y + lane.height / 2);
    c.textAlign = "left";
    c.save();
    c.beginPath();
    c.rect(this.left, y, this.width - this.left, lane.height);
    c.clip();
    const labels = lane.name === "communication" ? this.labelsOf(row) : [];
    this.taken = labels.map(({ from, to }) => [from, to]);
    for (const kind of lane.kinds) {
      if (row.lanes[kind]) this.drawTimes(row.lanes[kind], kind, y + 1, lane.height - 2);
    }
    if (lane.name === "communication") this.drawCollectives(row, labels, y, lane.height);
    c.restore();
  }

  /** Draw the rows of a lane; neighbours that are narrower than a pixel become one. */
  drawTimes(lane, kind, y, height) {
    const pixel = (this.to - this.from) / (this.width - this.left);
    let i = lane.firstAfter(this.from);
    while (i < lane.length && lane.start[i] < this.to) {
      const first = i;
      let end = lane.end[i];
      let busy = lane.busy[i];
      let count = lane.count === null ? 1 : lane.count[i];
      i += 1;
      if (end - lane.start[first] < pixel) {
        while (i < lane.length && lane.start[i] - end < pixel && lane.end[i] - lane.start[i] < pixel) {
          end = Math.max(end, lane.end[i]);
          busy += lane.busy[i];
          count += lane.count === null ? 1 : lane.count[i];
          i += 1;
        }
      }
      this.merged += count - 1;
      const full = Math.min(busy / Math.max(end - lane.start[first], 1), 1);
      this.drawBar(kind, lane.start[first], end, y, height, count > 1 ? 0.3 + 0.7 * full : 1);
      if (i === first + 1 && height > 10) this.drawName(kind, lane, first, y + height / 2);
    }
  }

  drawBar(kind, start, end, y, height, alpha) {
    const c = this.context;
    const x = Math.max(this.x(start), this.left - 2);
    const width = Math.max(Math.min(this.x(end), this.width + 2) - x, 1);
    c.globalAlpha = alpha;
    c.fillStyle = this.lookOf(kind).colour;
    c.fillRect(x, y, width, height);
    const pattern = width >= 4 ? this.pattern(this.lookOf(kind).hatch) : null;
    if (pattern !== null) {
      c.fillStyle = pattern;
      c.fillRect(x, y, width, height);
    }
    c.globalAlpha = 1;
    if (width >= 4) {
      c.fillStyle = this.paper;
      c.fillRect(x + width - 1, y, 1, height);
    }
  }

  lookOf(kind) {
    return this.about.looks[kind];
  }

  drawName(kind, lane, index, y) {
    const end = Math.min(this.x(lane.end[index]), this.width) - 4;
    const start = Math.max(this.x(lane.start[index]), this.left) + 4;
    if (end - start < 24) return;
    const from = this.besideLabels(start, end);
    const room = Math.min(end, ...this.taken.map(([at]) => (at > from ? at - 4 : end))) - from;
    if (room < 24) return;
    const title = this.lookOf(kind).title.replace("idle: ", "");
    const text = kind === "kernels" ? this.name(kind, lane, index) : title;
    const c = this.context;
    c.font = "11px system-ui, sans-serif";
    const fits = Math.floor(room / 6.2);
    if (kind !== "kernels" && text.length > fits) return;
    this.label(text.length <= fits ? text : `${text.slice(0, fits - 1)}…`, from, y, this.lookOf(kind));
  }

  /** Return where a text may begin that must not stand on the labels of collectives. */
  besideLabels(from, end) {
    let free = from;
    for (const [first, last] of this.taken) {
      if (first < end && first - 24 < free && last > free) free = last + 4;
    }
    return free;
  }

  label(text, x, y, look) {
    const c = this.context;
    if (look.hatch) {
      c.lineWidth = 3;
      c.lineJoin = "round";
      c.strokeStyle = look.colour;
      c.strokeText(text, x, y);
    }
    c.fillStyle = look.ink;
    c.fillText(text, x, y);
  }

  name(kind, lane, index) {
    const place = lane.name[index];
    if (place >= 0) return this.about.names[place];
    return this.lookOf(kind).title;
  }

  /** Return the labels of a row's collectives that there is room for, and where they stand. */
  labelsOf(row) {
    const c = this.context;
    c.font = "600 11px system-ui, sans-serif";
    const labels = [];
    let free = -Infinity;
    for (const one of row.collectives) {
      if (one.end <= this.from || one.start >= this.to) continue;
      const start = this.x(one.start);
      const end = this.x(one.end);
      if (end - start < 6) continue;
      const from = Math.max(start, this.left) + 4;
      const wide = c.measureText(one.label).width;
      if (wide > Math.min(end, this.width) - from - 2 || from < free) continue;
      free = from + wide;
      labels.push({ text: one.label, from, to: free });
    }
    return labels;
  }

  /** Draw the outline of each collective, and the labels that there is room for. */
  drawCollectives(row, labels, y, height) {
    const c = this.context;
    for (const one of row.collectives) {
      if (one.end <= this.from || one.start >= this.to) continue;
      const from = this.x(one.start);
      const width = this.x(one.end) - from;
      if (width < 6) continue;
      c.strokeStyle = this.quiet;
      c.lineWidth = 1;
      c.strokeRect(from + 0.5, y + 1.5, width - 1, height - 3);
    }
    c.font = "600 11px system-ui, sans-serif";
    c.lineJoin = "round";
    for (const { text, from } of labels) {
      c.lineWidth = 3;
      c.strokeStyle = "rgba(255,255,255,.85)";
      c.strokeText(text, from, y + height / 2);
      c.fillStyle = "#000";
      c.fillText(text, from, y + height / 2);
    }
  }

  /** Draw where the step begins and ends on a rank, and its tail. */
  drawWindow(row, top, bottom) {
    const c = this.context;
    c.strokeStyle = this.quiet;
    c.lineWidth = 1;
    for (const moment of row.window) {
      if (moment < this.from || moment > this.to) continue;
      const x = Math.round(this.x(moment)) + 0.5;
      c.beginPath();
      c.moveTo(x, top);
      c.lineTo(x, bottom);
      c.stroke();
    }
    if (row.tail === null) return;
    const from = Math.max(this.x(row.tail[0]), this.left);
    const to = Math.min(this.x(row.tail[1]), this.width);
    if (to - from < 2) return;
    const y = top + this.lanes[0].height;
    const height = this.lanes.find((lane) => lane.name === "communication")?.height ?? 0;
    c.strokeStyle = this.mark;
    c.lineWidth = 2;
    c.setLineDash([6, 3]);
    c.strokeRect(from, y, to - from, height);
    c.setLineDash([]);
    const text = `tail ${ms(row.tail[1] - row.tail[0])} ms`;
    c.font = "600 11px system-ui, sans-serif";
    const wide = c.measureText(text).width;
    if (to - from > wide + 4) {
      c.fillStyle = this.mark;
      c.fillText(text, from + 2, y - this.lanes[0].height / 2);
    }
  }

  drawCursor(row, top) {
    if (this.rows[this.cursor.row] !== row) return;
    const c = this.context;
    let y = top;
    for (const lane of this.lanes.slice(0, this.cursor.lane)) y += lane.height;
    const height = this.lanes[this.cursor.lane].height;
    if (document.activeElement === this.canvas) {
      c.fillStyle = this.mark;
      c.fillRect(this.left - 4, y + 1, 3, height - 2);
    }
    const times = this.selected();
    if (times === null) return;
    const from = Math.max(this.x(times[0]), this.left);
    const to = Math.min(this.x(times[1]), this.width);
    c.strokeStyle = this.ink;
    c.lineWidth = 2;
    c.strokeRect(from, y, Math.max(to - from, 2), height);
  }

  drawSelection() {
    const c = this.context;
    const [a, b] = [this.drag.x, this.drag.now].sort((p, q) => p - q);
    c.fillStyle = this.mark;
    c.globalAlpha = 0.2;
    c.fillRect(a, AXIS, b - a, this.height - 2 * AXIS);
    c.globalAlpha = 1;
  }

  pattern(hatch) {
    if (!hatch) return null;
    if (!this.patterns.has(hatch)) {
      const tile = document.createElement("canvas");
      tile.width = 8;
      tile.height = 8;
      const c = tile.getContext("2d");
      c.strokeStyle = "rgba(0,0,0,.32)";
      c.fillStyle = "rgba(0,0,0,.42)";
      c.lineWidth = 1.4;
      const line = (a, b, x, y) => {
        c.beginPath();
        c.moveTo(a, b);
        c.lineTo(x, y);
        c.stroke();
      };
      if ("/x".includes(hatch)) [-8, 0, 8].forEach((at) => line(at - 1, 9, at + 9, -1));
      if ("\\x".includes(hatch)) [-8, 0, 8].forEach((at) => line(at - 1, -1, at + 9, 9));
      if (hatch === "-") line(0, 4, 8, 4);
      if (hatch === "|") line(4, 0, 4, 8);
      if (hatch === ".") {
        for (const [x, y] of [[2, 2], [6, 6]]) {
          c.beginPath();
          c.arc(x, y, 1.3, 0, 7);
          c.fill();
        }
      }
      this.patterns.set(hatch, this.context.createPattern(tile, "repeat"));
    }
    return this.patterns.get(hatch);
  }

  /** Say below the picture how much is drawn, and what is merged. */
  tell() {
    const said = [
      `Shown: ${span(Math.round(this.to - this.from))} from ${ms(this.from, 3)} ms on.`,
      this.merged
        ? `${counted(Math.round(this.merged), "interval")} narrower than a pixel are merged into their neighbours; zoom in to see them.`
        : "Every interval is drawn on its own.",
      this.note,
    ];
    if (this.more > 0) said.push(`${counted(this.more, "more rank")} chosen; ${MOST_ROWS} are drawn at once.`);
    this.parts.note.textContent = said.filter(Boolean).join(" ");
  }
}
