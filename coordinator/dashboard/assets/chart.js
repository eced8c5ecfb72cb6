// Load over time: the hottest executor, the mean and the coldest, with what they are held against.
//
// Draws lines, a band and the moves beneath them, and tells in words what a pointer or the arrow
// keys are at. Knows nothing of where figures come from.

import { brief, clock, count, figure, minute } from "./format.js";
import { byId, el, patch, say, svg } from "./dom.js";

const WIDTH_MIN = 320;
const HEIGHT = 260;
const LEFT = 52;
const RIGHT = 14;
const TOP = 12;
const BOTTOM = 24;
const STRIP = 38; // the moves, under the lines
const BAR = 6; // of so many pixels is a bar of moves

let width = 1000; // as wide as it is shown, so that letters keep their size
const SPAN_MIN_MS = 120000; // a cluster that has just begun fills the picture as well
const SPARSE_MS = 150000; // a wider gap than two and a half minutes is one in which nobody looked

const LINES = [
  ["static_hash", "Static hash", "what the hottest executor would have if keys were hashed"],
  ["best_possible", "Best possible", "the hottest executor under the best of all placements"],
  ["coldest", "Coldest", "utilisation of the coldest executor"],
  ["mean", "Mean", "load by capacity of the whole fleet"],
  ["hottest", "Hottest", "utilisation of the hottest executor"],
];

export class Chart {
  #picture = byId("chart");
  #readout = byId("chart-readout");
  #points = [];
  #moves = [];
  #marks = {};
  #spanMs = 15 * 60000;
  #nowMs = Date.now();
  #cursor = null;

  constructor() {
    this.#picture.addEventListener("pointermove", (event) => this.#point(event));
    this.#picture.addEventListener("pointerleave", () => this.#at(null));
    this.#picture.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(this.#picture.parentElement);
    const legend = byId("chart-legend");
    for (const [name, title, about] of [...LINES].reverse()) {
      legend.append(
        el("div", { class: "legend", title: about },
          el("span", { class: `swatch ${name}`, "aria-hidden": "true" }),
          el("dt", {}, title),
          el("dd", { id: `now-${name}` }, "–")),
      );
    }
  }

  set spanMs(spanMs) {
    this.#spanMs = spanMs;
    this.#cursor = null;
    this.draw();
  }

  /** Everything anew; points by time, moves as `{ms, count}`. */
  show(points, moves, marks, nowMs) {
    [this.#points, this.#moves, this.#marks, this.#nowMs] = [points, moves, marks, nowMs];
    this.draw();
  }

  // As much of the wanted span as anything is known of.
  get #spanNowMs() {
    const known = this.#nowMs - (this.#points[0]?.ms ?? this.#nowMs);
    return Math.min(this.#spanMs, Math.max(SPAN_MIN_MS, known));
  }

  draw() {
    width = Math.max(WIDTH_MIN, this.#picture.clientWidth);
    this.#picture.setAttribute("viewBox", `0 0 ${width} ${HEIGHT + STRIP + 2}`);
    const spanMs = this.#spanNowMs;
    const fromMs = this.#nowMs - spanMs;
    const seen = this.#points.filter((point) => point.ms >= fromMs);
    const newest = this.#points.at(-1);
    for (const [name] of LINES) say(byId(`now-${name}`), figure(newest?.[name]));
    const upper = highest(seen, this.#marks);
    const x = (ms) => LEFT + ((ms - fromMs) / spanMs) * (width - LEFT - RIGHT);
    const y = (value) => TOP + (1 - value / upper) * (HEIGHT - TOP - BOTTOM);
    this.#picture.replaceChildren(
      svg("title", { id: "chart-title" }, "Load over time"),
      svg("desc", { id: "chart-text" }, described(seen, this.#moves, fromMs)),
      ...grid(upper, fromMs, spanMs, x, y),
      ...marks(this.#marks, newest, x, y, fromMs, this.#nowMs),
      ...LINES.map(([name]) => svg("path", { class: `line ${name}`, d: path(seen, name, x, y, upper) })),
      ...ticks(this.#moves, fromMs, spanMs, x),
      svg("g", { id: "chart-cursor" }),
      ...(newest?.hottest ? [] : [svg("text", { class: "axis", x: width / 2, y: HEIGHT / 2,
        "text-anchor": "middle" }, "Nothing has been measured yet.")]),
    );
    this.#table(seen);
    this.#at(this.#cursor);
    this.x = x;
  }

  // The same in a table, for who would rather read it.
  #table(seen) {
    const body = byId("chart-rows");
    if (!byId("chart-table").open) return;
    const step = Math.max(1, Math.ceil(seen.length / 30));
    const rows = seen.filter((_, at) => (seen.length - 1 - at) % step === 0).reverse();
    const cells = ["hottest", "mean", "coldest", "best_possible"];
    patch(body, rows,
      () => el("tr", {}, el("td"), ...cells.map(() => el("td", { class: "number" }))),
      (row, point) => {
        say(row.cells[0], clock(new Date(point.ms)));
        cells.forEach((name, at) => say(row.cells[at + 1], figure(point[name])));
      });
  }

  #point(event) {
    const box = this.#picture.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const ms = this.#nowMs - this.#spanNowMs * (1 - (at - LEFT) / (width - LEFT - RIGHT));
    this.#at(nearest(this.#points, ms));
  }

  #key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Escape") this.#at(null);
    if (step === undefined || this.#points.length === 0) return;
    event.preventDefault();
    const fromMs = this.#nowMs - this.#spanNowMs;
    const first = this.#points.findIndex((point) => point.ms >= fromMs);
    const at = this.#cursor === null ? this.#points.length - 1 : this.#points.indexOf(this.#cursor);
    const next = Math.max(Math.max(0, first), Math.min(this.#points.length - 1, at + step));
    this.#at(this.#points[next]);
  }

  #at(point) {
    this.#cursor = point ?? null;
    const group = byId("chart-cursor");
    if (!group) return;
    group.replaceChildren();
    if (!point || point.ms < this.#nowMs - this.#spanNowMs) {
      say(this.#readout, "Point at the chart, or use the arrow keys in it, to read a moment.");
      return;
    }
    const at = this.x?.(point.ms) ?? 0;
    group.append(svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM }));
    say(this.#readout, `${clock(new Date(point.ms))} — hottest ${figure(point.hottest)}, ` +
      `mean ${figure(point.mean)}, coldest ${figure(point.coldest)}, ` +
      `best possible ${figure(point.best_possible)}, ${count(point.executors, "executor")}`);
  }
}

// The hashed fleet may be so uneven that the rest would lie flat: it is then told by its figure.
function highest(points, marks) {
  const top = Math.max(0, ...points.map((point) => point.hottest), marks.high ?? 0);
  const hashed = Math.max(0, ...points.map((point) => point.static_hash ?? 0));
  return (hashed <= 1.8 * top ? Math.max(top, hashed) : top) * 1.08 || 1;
}

function path(points, name, x, y, upper) {
  let drawn = "";
  let last = null;
  for (const point of points) {
    const value = point[name];
    if (value === null || value === undefined || value > upper) {
      last = null;
      continue;
    }
    const isNew = last === null || point.ms - last > SPARSE_MS;
    drawn += `${isNew ? "M" : "L"}${x(point.ms).toFixed(1)} ${y(value).toFixed(1)}`;
    last = point.ms;
  }
  return drawn;
}

function grid(upper, fromMs, spanMs, x, y) {
  const step = [1, 2, 2.5, 5, 10].map((one) => one * 10 ** Math.floor(Math.log10(upper / 4)))
    .find((one) => upper / one <= 5);
  const lines = [];
  for (let value = 0; value <= upper; value += step) {
    lines.push(
      svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, brief(value)),
    );
  }
  const every = [1, 2, 5, 10, 15, 30, 60, 120, 240].map((minutes) => minutes * 60000)
    .find((one) => spanMs / one <= Math.max(3, width / 120));
  const zone = new Date(fromMs).getTimezoneOffset() * 60000;
  for (let ms = Math.ceil((fromMs - zone) / every) * every + zone; ms < fromMs + spanMs; ms += every) {
    lines.push(svg("text", { class: "axis", x: x(ms), y: HEIGHT - 6, "text-anchor": "middle" },
      minute(new Date(ms))));
  }
  return lines;
}

function marks({ high, quiet, startGap }, newest, x, y, fromMs, nowMs) {
  const drawn = [];
  const across = { x1: LEFT, x2: width - RIGHT };
  if (newest && startGap) {
    const [top, bottom] = [1 + startGap / 2, 1 - startGap / 2].map((one) => y(newest.mean * one));
    drawn.push(svg("rect", { class: "band", x: x(fromMs), y: top, width: x(nowMs) - x(fromMs),
      height: Math.max(0, bottom - top) }));
  }
  for (const [name, value] of [["high mark", high], ["quiet mark", quiet]]) {
    if (value === null || value === undefined) continue;
    drawn.push(svg("line", { class: "mark", ...across, y1: y(value), y2: y(value) }),
      svg("text", { class: "axis", x: LEFT + 6, y: y(value) - 5 }, name));
  }
  return drawn;
}

function ticks(moves, fromMs, spanMs, x) {
  const places = Math.floor((width - LEFT - RIGHT) / BAR);
  const buckets = new Map();
  for (const move of moves) {
    if (move.ms < fromMs) continue;
    const at = Math.floor(((move.ms - fromMs) / spanMs) * places);
    buckets.set(at, (buckets.get(at) ?? 0) + move.count);
  }
  const most = Math.max(1, ...buckets.values());
  const bars = [...buckets].map(([at, number]) => {
    const height = 3 + (STRIP - 10) * Math.sqrt(number / most);
    return svg("rect", { class: "moves", x: x(fromMs + (at / places) * spanMs), width: BAR - 1,
      y: HEIGHT + STRIP - height, height, rx: 1 });
  });
  return [
    svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: HEIGHT + STRIP, y2: HEIGHT + STRIP }),
    svg("text", { class: "axis", x: LEFT - 8, y: HEIGHT + STRIP, "text-anchor": "end" }, "moves"),
    ...bars,
  ];
}

function nearest(points, ms) {
  let found = null;
  for (const point of points) {
    if (found === null || Math.abs(point.ms - ms) < Math.abs(found.ms - ms)) found = point;
  }
  return found;
}

function described(points, moves, fromMs) {
  const first = points[0];
  const last = points.at(-1);
  if (!last) return "Nothing has been measured yet.";
  const seen = moves.filter((move) => move.ms >= fromMs).reduce((sum, move) => sum + move.count, 0);
  return `From ${clock(new Date(first.ms))} to ${clock(new Date(last.ms))} the hottest executor went ` +
    `from ${figure(first.hottest)} to ${figure(last.hottest)}, the mean from ${figure(first.mean)} to ` +
    `${figure(last.mean)} and the coldest from ${figure(first.coldest)} to ${figure(last.coldest)}, ` +
    `with ${count(seen, "move")}.`;
}
