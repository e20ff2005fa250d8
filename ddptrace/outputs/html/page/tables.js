// Tables that can be sorted by each of their columns, and those that follow the step to show.
"use strict";

/** Return a cell: what is read, and what it is sorted by. */
const cell = (text, value, attributes = {}) => {
  const inner = typeof value === "number" ? make("data", { value }, text) : text;
  return make("td", { "data-sort": value ?? "", ...attributes }, inner);
};

const fillTable = (id, rows) => {
  const table = $(id);
  table.tBodies[0].replaceChildren(...rows);
  const sorted = table.querySelector("th[aria-sort]");
  if (sorted !== null) sortBy(table, sorted, sorted.getAttribute("aria-sort"));
};

/** Sort a table's rows by a column; what is not known comes last. */
const sortBy = (table, head, direction) => {
  const column = head.cellIndex;
  const sign = direction === "ascending" ? 1 : -1;
  const value = (row) => row.cells[column].dataset.sort;
  const rows = [...table.tBodies[0].rows];
  const numeric = rows.every((row) => value(row) === "" || !Number.isNaN(Number(value(row))));
  rows.sort((a, b) => {
    const [p, q] = [value(a), value(b)];
    if (p === "" || q === "") return (p === "") - (q === "");
    return sign * (numeric ? Number(p) - Number(q) : p.localeCompare(q, "en"));
  });
  table.tBodies[0].append(...rows);
};

const makeSortable = (table) => {
  for (const head of table.tHead.rows[0].cells) {
    const button = head.querySelector("button");
    if (button === null) continue;
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      const direction = now === "descending" ? "ascending" : "descending";
      head.setAttribute("aria-sort", direction);
      sortBy(table, head, direction);
    });
  }
};

const RANK_COLUMNS = ["step_ns", "compute_ns", "hidden_comm_ns", "exposed_comm_ns", "exposed_wait_ns", "exposed_transfer_ns", "exposed_mem_ns", "idle_ns", "tail_ns"];

/** Return the rows of the table of ranks. */
const rankRows = (rows, title) => rows.map((row) => make("tr", {},
  make("th", { scope: "row", "data-sort": row.rank }, title(row.rank), ...(row.partial ? [" ", make("strong", { class: "partial" }, "PARTIAL")] : [])),
  ...RANK_COLUMNS.map((name) => cell(row[name] === null ? UNKNOWN : `${row.partial ? ">=" : ""}${ms(row[name])}`, row[name])),
  cell(percent(row.overlap_ratio), row.overlap_ratio)));

/** Return the largest of some times with its rank; null where none is known. */
const worst = (parts, of) => {
  const known = parts.filter((part) => of(part) !== null && of(part) !== undefined);
  if (!known.length) return null;
  return known.reduce((best, part) => (of(part) > of(best) ? part : best));
};

const ofRank = (parts, of) => {
  const found = worst(parts, of);
  if (found === null) return cell(UNKNOWN, null);
  return cell(`${ms(of(found), 3)} (${found.rank})`, of(found));
};

const heldUp = (one) => {
  const parts = one.ranks.map((each) => each.bucket).filter((bucket) => bucket !== null);
  const words = [["blocked", "blocked"], ["backlog", "backlog"]]
    .filter(([flag]) => parts.some((bucket) => bucket[flag]))
    .map(([, word]) => word);
  if (parts.length && parts.every((bucket) => bucket.blocked === null && bucket.backlog === null)) return UNKNOWN;
  return words.join(" and ") || (parts.length ? "no" : UNKNOWN);
};

/** Return the rows of the table of collectives; each leads to its place in the timeline. */
const collectiveRows = (collectives, recorded, goto) => collectives.map((one) => {
  const exposed = worst(one.ranks, (each) => each.exposed_ns);
  const whole = exposed === null ? 0 : exposed.hidden_ns + exposed.exposed_ns;
  const hidden = whole ? exposed.hidden_ns / whole : null;
  const button = make("button", { type: "button", class: "plain-button" }, collectiveName(one));
  button.addEventListener("click", () => goto({ rank: exposed.rank, start_ns: exposed.start_ns, end_ns: exposed.end_ns }));
  const here = recorded(one);
  const ranks = one.group_size === null || one.group_size === here ? `${here}` : `${here} of ${one.group_size}`;
  return make("tr", {},
    make("th", { scope: "row", class: "word", "data-sort": one.bucket ?? one.order }, button),
    cell(one.op ?? UNKNOWN, one.op, { class: "word" }),
    cell(one.group ?? UNKNOWN, one.group, { class: "word" }),
    cell(one.size_bytes === null ? UNKNOWN : (one.size_bytes / 1e6).toFixed(2), one.size_bytes),
    cell(ranks, here),
    cell(ms(one.transfer_ns, 3), one.transfer_ns),
    ofRank(one.ranks, (each) => each.wait_ns),
    ofRank(one.ranks, (each) => each.exposed_ns),
    cell(percent(hidden), hidden),
    cell(one.busbw_gb_s === null ? UNKNOWN : one.busbw_gb_s.toFixed(2), one.busbw_gb_s),
    ofRank(one.ranks, (each) => each.bucket?.queue_ns),
    cell(heldUp(one), heldUp(one), { class: "word" }));
});
