// How the timeline is used: what is under the pointer or selected, and pointer, wheel and keys.
"use strict";

Object.assign(Timeline.prototype, {
  // --- what is under the pointer, or selected ---

  /** Return the times of what is selected; null for nothing. */
  selected() {
    const { kind, index } = this.cursor;
    if (kind === null || index < 0) return null;
    const row = this.rows[this.cursor.row];
    if (kind === "collective") return [row.collectives[index].start, row.collectives[index].end];
    return [row.lanes[kind].start[index], row.lanes[kind].end[index]];
  },

  /** Return what is at a point: its row, lane, kind and place; null outside of all lanes. */
  hit(x, y) {
    const at = Math.floor((y - AXIS) / this.rowHeight);
    const row = this.rows[at];
    if (!row || row.partial || x < this.left) return null;
    let down = (y - AXIS) - at * this.rowHeight - HEAD;
    for (const [place, lane] of this.lanes.entries()) {
      if (down >= 0 && down < lane.height) return this.found(at, place, this.moment(x));
      down -= lane.height;
    }
    return null;
  },

  found(at, place, moment) {
    const row = this.rows[at];
    const lane = this.lanes[place];
    const within = (2 * (this.to - this.from)) / (this.width - this.left);
    if (lane.name === "communication") {
      const index = this.collectiveAt(row, moment, within);
      if (index >= 0) return { row: at, lane: place, kind: "collective", index, moment };
    }
    for (const kind of lane.kinds) {
      const index = row.lanes[kind] ? row.lanes[kind].at(moment, within) : -1;
      if (index >= 0) return { row: at, lane: place, kind, index, moment };
    }
    return null;
  },

  collectiveAt(row, moment, within) {
    const away = (one) => Math.max(one.start - moment, moment - one.end, 0);
    let best = -1;
    row.collectives.forEach((one, at) => {
      if (away(one) <= within && (best < 0 || away(one) <= away(row.collectives[best]))) best = at;
    });
    return best;
  },

  /** Return lines on what was found. */
  lines({ row: at, kind, index, moment }) {
    const row = this.rows[at];
    if (kind === "collective") {
      const one = row.collectives[index];
      const now = moment === undefined ? null : this.nowIn(row, moment);
      return [...(now ? [`now: ${now}`] : []), ...this.about.collective(one, row)];
    }
    const lane = row.lanes[kind];
    const count = lane.count === null ? 1 : lane.count[index];
    const length = lane.end[index] - lane.start[index];
    const what = this.lookOf(kind).title;
    const name = this.name(kind, lane, index);
    return [
      name === what ? what : `${what}: ${name}`,
      `${span(length)} from ${ms(lane.start[index], 3)} to ${ms(lane.end[index], 3)} ms`,
      ...(count > 1 ? [`stands for ${counted(count, "interval")}, busy ${span(lane.busy[index])}; the longest is named`] : []),
      `${row.run ? `${row.run}, ` : ""}rank ${row.rank}`,
    ];
  },

  nowIn(row, moment) {
    const kind = COMM.find((one) => row.lanes[one] && row.lanes[one].at(moment, 0) >= 0);
    return kind === undefined ? null : this.lookOf(kind).title;
  },

  say() {
    const { kind, index } = this.cursor;
    this.parts.readout.textContent = kind === null || index < 0
      ? ""
      : this.lines(this.cursor).join("; ");
  },

  hover(x, y) {
    const found = this.hit(x, y);
    const tip = this.parts.tip;
    tip.hidden = found === null;
    this.canvas.style.cursor = found === null ? "crosshair" : "pointer";
    if (found === null) return;
    tip.replaceChildren(...this.lines(found).map((line) => make("div", {}, line)));
    const left = Math.min(x + 14, this.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${y + 18}px`;
  },

  // --- keys, pointer, wheel ---

  listen() {
    const canvas = this.canvas;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const [x, y] = at(event);
      const touch = event.pointerType === "touch";
      this.drag = { x, y, now: x, from: this.from, moved: false, zooms: !touch && !event.shiftKey };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event);
      if (this.drag === null) return this.hover(x, y);
      this.drag.now = Math.max(x, this.left);
      this.drag.moved ||= Math.abs(x - this.drag.x) > 4;
      if (!this.drag.moved) return undefined;
      this.parts.tip.hidden = true;
      if (this.drag.zooms) return this.draw();
      const by = ((this.drag.x - x) / (this.width - this.left)) * (this.to - this.from);
      return this.look(this.drag.from + by, this.drag.from + by + this.to - this.from);
    });
    canvas.addEventListener("pointerup", (event) => this.dropped(...at(event)));
    canvas.addEventListener("pointercancel", () => { this.drag = null; });
    canvas.addEventListener("pointerleave", () => { this.parts.tip.hidden = true; });
    canvas.addEventListener("dblclick", () => this.full());
    canvas.addEventListener("wheel", (event) => this.wheel(event, at(event)[0]), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => this.draw());
    new ResizeObserver(() => {
      if (this.rows.length && this.canvas.parentElement.clientWidth !== this.width) this.draw();
    }).observe(canvas.parentElement);
    whenThemeChanges(() => this.draw());
  },

  dropped(x, y) {
    const drag = this.drag;
    this.drag = null;
    if (drag === null) return;
    if (!drag.moved) {
      const found = this.hit(x, y);
      if (found !== null) this.cursor = { ...found };
      this.say();
      this.draw();
    } else if (drag.zooms) {
      const [a, b] = [drag.x, drag.now].sort((p, q) => p - q);
      this.look(this.moment(Math.max(a, this.left)), this.moment(b));
    }
  },

  /** Zoom with Ctrl (as two fingers on a touchpad do), pan sideways; else the page scrolls. */
  wheel(event, x) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.zoom(1.002 ** event.deltaY, this.moment(Math.max(x, this.left)));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      this.pan((event.deltaX || event.deltaY) / (this.width - this.left));
    }
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2),
      ArrowUp: () => this.move(-1),
      ArrowDown: () => this.move(1),
      "+": () => this.zoom(0.5, this.middle()),
      "=": () => this.zoom(0.5, this.middle()),
      "-": () => this.zoom(2, this.middle()),
      0: () => this.full(),
      Home: () => this.full(),
      ",": () => this.next(-1),
      ".": () => this.next(1),
    };
    if (!(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
  },

  middle() {
    const times = this.selected();
    const moment = times === null ? null : (times[0] + times[1]) / 2;
    return moment !== null && moment > this.from && moment < this.to ? moment : (this.from + this.to) / 2;
  },

  /** Move the cursor a lane up or down, over the ranks. */
  move(by) {
    const lanes = this.lanes.length;
    const place = this.cursor.row * lanes + this.cursor.lane + by;
    const kept = Math.min(Math.max(place, 0), this.rows.length * lanes - 1);
    this.cursor = { row: Math.floor(kept / lanes), lane: kept % lanes, kind: null, index: -1 };
    const row = this.rows[this.cursor.row];
    this.parts.readout.textContent = `rank ${row.rank}, ${this.lanes[this.cursor.lane].name}`;
    this.draw();
  },

  /** Select the next row of the lane of the cursor, or the one before. */
  next(by) {
    const row = this.rows[this.cursor.row];
    if (row.partial) return;
    const order = this.inLane(row);
    if (!order.length) return;
    const now = order.findIndex((one) => one.kind === this.cursor.kind && one.index === this.cursor.index);
    const first = order.findIndex((one) => one.end > this.from);
    const at = now < 0 ? Math.max(first, 0) : Math.min(Math.max(now + by, 0), order.length - 1);
    this.cursor = { ...this.cursor, kind: order[at].kind, index: order[at].index };
    const { start, end } = order[at];
    if (end < this.from || start > this.to) {
      const length = Math.max(this.to - this.from, 2 * (end - start));
      this.look((start + end - length) / 2, (start + end + length) / 2);
    }
    this.say();
    this.draw();
  },

  /** Return what is in the lane of the cursor in order of time: collectives where they are known. */
  inLane(row) {
    const lane = this.lanes[this.cursor.lane];
    if (lane.name === "communication" && row.collectives.length) {
      return row.collectives.map((one, index) => ({ kind: "collective", index, start: one.start, end: one.end }));
    }
    row.orders ??= new Map(); // worked out once: there may be 100,000
    if (row.orders.has(lane.name)) return row.orders.get(lane.name);
    const found = [];
    for (const kind of lane.kinds) {
      const times = row.lanes[kind];
      for (let index = 0; times && index < times.length; index += 1) {
        found.push({ kind, index, start: times.start[index], end: times.end[index] });
      }
    }
    row.orders.set(lane.name, found.sort((a, b) => a.start - b.start));
    return found;
  },
});
