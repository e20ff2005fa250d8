// What the lanes of a rank are, and their packed columns: what is at a moment is found in these.
"use strict";

const COMM = ["hidden", "transfer", "wait", "unclear"];
const IDLE = ["idle_input", "idle_sync", "idle_launch", "idle_unknown"];
const PHASES = ["data_loader", "forward", "backward", "optimizer"];
// From top to bottom: the name, a short one for narrow screens, the height, and what is drawn in it.
const LANES = [
  { name: "compute", short: "comp", height: 18, kinds: ["kernels"] },
  { name: "communication", short: "comm", height: 24, kinds: COMM },
  { name: "copies", short: "copy", height: 13, kinds: ["copies"] },
  { name: "idle", short: "idle", height: 14, kinds: IDLE },
  { name: "host", short: "host", height: 16, kinds: PHASES },
  { name: "host waits", short: "sync", height: 12, kinds: ["sync_calls"] },
];
const AXIS = 26;
const HEAD = 20;
const BETWEEN = 12;
const MOST_ROWS = 32;
const NARROW = 560;

/** Return the header and the columns of a packed step. */
const decode = (buffer) => {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const numbers = new Int32Array(buffer, 4 + length);
  let at = 0;
  const column = (count) => {
    at += count;
    return numbers.subarray(at - count, at);
  };
  for (const row of header.rows) {
    for (const [kind, [count, several]] of Object.entries(row.lanes)) {
      row.lanes[kind] = new Lane(header.tick_ns, several, count, column);
    }
  }
  return header;
};

/** Rows of one kind on one rank: starts and ends in ns from the row's origin, names, counts. */
class Lane {
  constructor(tick, several, count, column) {
    const gaps = column(count);
    const lengths = column(count);
    this.length = count;
    this.name = column(count);
    this.count = several ? column(count) : null;
    const busy = several ? column(count) : lengths;
    this.start = new Float64Array(count);
    this.end = new Float64Array(count);
    this.busy = new Float64Array(count);
    this.reach = new Float64Array(count); // the latest end so far: what overlaps is found by it
    let start = 0;
    let reach = 0;
    for (let i = 0; i < count; i += 1) {
      start += gaps[i];
      this.start[i] = start * tick;
      this.end[i] = (start + lengths[i]) * tick;
      this.busy[i] = busy[i] * tick;
      reach = Math.max(reach, this.end[i]);
      this.reach[i] = reach;
    }
  }

  /** Return the first row that may reach beyond a moment. */
  firstAfter(moment) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.reach[middle] <= moment) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Return the row at a moment, or the nearest within some ns; -1 for none. */
  at(moment, within) {
    let best = -1;
    let nearest = within;
    for (let i = this.firstAfter(moment - within); i < this.length; i += 1) {
      if (this.start[i] > moment + within) break;
      const away = Math.max(this.start[i] - moment, moment - this.end[i], 0);
      if (this.end[i] >= moment - within && (best < 0 || away < nearest)) {
        best = i;
        nearest = away;
      }
    }
    return best;
  }
}
