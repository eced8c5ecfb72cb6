// The placement: a column for each executor, hottest first, a cell for each shard, area as load.
//
// Drawn on a canvas, so that a thousand executors are no thousand elements. What a pointer or the
// arrow keys are at is told in words beside it; Enter or a click opens it. The table of executors
// says the same as text.

import { count, figure, percent, words } from "./format.js";
import { byId, say } from "./dom.js";

const HEIGHT = 240;
const LINE_PX = 1;
const APART_PX = 3; // lower cells cannot be told apart, nor be pointed at

export class PlacementMap {
  #canvas = byId("map");
  #readout = byId("map-readout");
  #columns = [];
  #figures = null;
  #cells = [];
  #chosen = null;
  #open;

  constructor(open) {
    this.#open = open;
    this.#canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.#canvas.addEventListener("pointerleave", () => this.#choose(null));
    this.#canvas.addEventListener("click", () => this.#enter());
    this.#canvas.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(this.#canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(placement) {
    this.#figures = placement;
    this.#columns = [...placement.executors].sort(
      (one, other) => other.utilisation - one.utilisation || (one.executor < other.executor ? -1 : 1));
    const about = placement.executors.length === 0
      ? "No executor has joined."
      : `${count(placement.executors.length, "executor")}, hottest first: ` +
        `${placement.hottest_executor} at ${figure(placement.hottest)}, ` +
        `${placement.coldest_executor} at ${figure(placement.coldest)}. Arrow keys go from executor ` +
        "to executor and from shard to shard, Enter opens one. The table of executors has the figures.";
    this.#canvas.setAttribute("aria-label", `Placement map. ${about}`);
    if (this.#readout.textContent === "") this.#choose(null);
    this.draw();
  }

  draw() {
    if (!this.#figures) return;
    const width = this.#canvas.parentElement.clientWidth;
    const scale = Math.min(2, devicePixelRatio || 1);
    const wide = Math.round(width * scale);
    if (this.#canvas.width !== wide) {
      this.#canvas.width = wide;
      this.#canvas.height = HEIGHT * scale;
      this.#canvas.style.height = `${HEIGHT}px`;
    }
    const pen = this.#canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, HEIGHT);
    const inks = colours();
    const upper = Math.max(1e-9, this.#figures.hottest * 1.06);
    this.#cells = [];
    const step = width / Math.max(1, this.#columns.length);
    const gap = step > 24 ? 4 : step > 6 ? 1 : 0;
    const column = Math.min(step - gap, 128);
    this.#columns.forEach((one, at) => {
      const left = at * step + (step - gap - column) / 2;
      this.#column(pen, inks, one, at, left, column, upper);
    });
    const level = (value, ink, dash) => {
      const y = Math.round(HEIGHT - (value / upper) * HEIGHT) + 0.5;
      pen.strokeStyle = ink;
      pen.setLineDash(dash);
      pen.beginPath();
      pen.moveTo(0, y);
      pen.lineTo(width, y);
      pen.stroke();
      pen.setLineDash([]);
    };
    if (this.#columns.length === 0) {
      pen.fillStyle = inks.quiet;
      pen.font = "14px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.fillText("No executor has joined.", width / 2, HEIGHT / 2);
    } else {
      level(this.#figures.mean, inks.mean, []);
      level(this.#figures.best_possible_hottest, inks.best, [5, 4]);
    }
    this.#outline(pen, inks);
  }

  #column(pen, inks, one, at, left, width, upper) {
    const tall = (load) => (load / one.capacity / upper) * HEIGHT;
    const isAway = !one.may_receive;
    let bottom = HEIGHT;
    const put = (key, load, mark, shards) => {
      const height = tall(load);
      const cell = { at, key, load, mark, shards, left, width, top: bottom - height, height };
      this.#cells.push(cell);
      pen.fillStyle = isAway ? inks.away : this.#tint(inks, one, key === null ? 0 : shards);
      pen.globalAlpha = key === null ? 0.45 : 1; // many lighter ones, not told apart
      const line = height > APART_PX && width > APART_PX ? LINE_PX : 0;
      pen.fillRect(left, cell.top, width, Math.max(0, height - line));
      pen.globalAlpha = 1;
      if (height > APART_PX && width > APART_PX) dressed(pen, inks, mark, cell);
      bottom -= height;
    };
    one.cells.forEach(([key, load, mark], number) => put(key, load, mark, number));
    if (one.rest > 0) put(null, one.rest_load, "", one.rest);
    if (isAway && width > APART_PX) hatch(pen, inks.paper, left, bottom, width, HEIGHT - bottom);
  }

  // Warm is hotter than it would have to be, cool is colder than the mean; neighbours differ a
  // little, to be told apart.
  #tint(inks, one, number) {
    const { mean, best_possible_hottest: best } = this.#figures;
    const isHot = one.utilisation > 1.1 * best;
    const isCold = one.utilisation < 0.9 * mean;
    return (isHot ? inks.warm : isCold ? inks.cool : inks.even)[number % 2];
  }

  #outline(pen, inks) {
    const cell = this.#cells[this.#chosen ?? -1];
    if (!cell) return;
    pen.strokeStyle = inks.ink;
    pen.lineWidth = 2;
    pen.strokeRect(cell.left - 1, cell.top - 1, cell.width + 2, Math.max(3, cell.height) + 1);
    pen.lineWidth = 1;
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const step = box.width / Math.max(1, this.#columns.length);
    const column = Math.floor(x / step);
    const within = this.#cells.findIndex(
      (cell) => cell.at === column && y >= cell.top && y < cell.top + cell.height);
    this.#choose(within >= 0 ? within : this.#cells.findIndex((cell) => cell.at === column));
  }

  #key(event) {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#enter();
      return;
    }
    const [across, up] = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
    }[event.key] ?? [0, 0];
    if (!across && !up) return;
    event.preventDefault();
    const now = this.#cells[this.#chosen ?? -1];
    if (!now) return this.#choose(0);
    const column = Math.max(0, Math.min(this.#columns.length - 1, now.at + across));
    const next = across ? this.#cells.findIndex((cell) => cell.at === column) : this.#chosen + up;
    if (this.#cells[next]?.at === column) this.#choose(next);
  }

  #choose(number) {
    this.#chosen = number === null || number < 0 ? null : number;
    this.draw();
    const cell = this.#cells[this.#chosen ?? -1];
    if (!cell) {
      say(this.#readout, "Point at a cell, or use the arrow keys in the map, to read it.");
      return;
    }
    const one = this.#columns[cell.at];
    const where = `${one.executor} — ${figure(one.utilisation)} of its capacity, ` +
      `${count(one.shards, "shard")}${one.status === "active" ? "" : `, ${one.status}`}`;
    const part = one.load > 0 ? ` (${percent(cell.load / one.load)} of it)` : "";
    const what = cell.key === null
      ? `${count(cell.shards, "lighter shard")}, ${figure(cell.load)}`
      : `${cell.key}, load ${figure(cell.load)}${part}${cell.mark ? `, ${words(cell.mark)}` : ""}`;
    say(this.#readout, `${where} · ${what}`);
  }

  #enter() {
    const cell = this.#cells[this.#chosen ?? -1];
    if (!cell) return;
    if (cell.key === null) this.#open("executor", this.#columns[cell.at].executor);
    else this.#open("shard", cell.key);
  }
}

// A ring rests, hatching is bound to its place, a bright bar is on its way.
function dressed(pen, inks, mark, { left, top, width, height }) {
  if (mark === "cooldown") {
    pen.strokeStyle = inks.ring;
    pen.lineWidth = 1.5;
    pen.strokeRect(left + 1.5, top + 1.5, Math.max(0, width - 3), Math.max(0, height - 4));
    pen.lineWidth = 1;
  } else if (mark === "pinned") {
    hatch(pen, inks.paper, left, top, width, height);
  } else if (mark === "in_flight") {
    pen.fillStyle = inks.moving;
    pen.fillRect(left, top, Math.min(width, 5), height - LINE_PX);
  }
}

function hatch(pen, ink, left, top, width, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, top, width, height);
  pen.clip();
  pen.strokeStyle = ink;
  pen.globalAlpha = 0.55;
  pen.beginPath();
  for (let at = -height; at < width; at += 6) {
    pen.moveTo(left + at, top + height);
    pen.lineTo(left + at + height, top);
  }
  pen.stroke();
  pen.restore();
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    warm: [of("warm"), of("warm-2")],
    even: [of("even"), of("even-2")],
    cool: [of("cool"), of("cool-2")],
    away: of("away"),
    ring: of("paper"),
    moving: of("best"),
    mean: of("mean"),
    best: of("best"),
    ink: of("ink"),
    quiet: of("quiet"),
    paper: of("paper"),
  };
}
