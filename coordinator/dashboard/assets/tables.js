// What is told as text: executors, events, drains, the next pass, capacity, nodes.
//
// Each function takes an answer of the API and brings one table up to date. Lists are bounded: what
// is longer is told page by page.

import { ago, clock, count, figure, percent, span, whole, words } from "./format.js";
import { blankRow, byId, el, patch, say, show, stretch } from "./dom.js";

const PAGE = 25;
const EVENTS_SHOWN = 40;

export class ExecutorsTable {
  #rows = [];
  #page = 0;
  #open;

  constructor(open) {
    this.#open = open;
    byId("executors-filter").addEventListener("input", () => this.#turn(-this.#page));
    byId("executors-before").addEventListener("click", () => this.#turn(-1));
    byId("executors-after").addEventListener("click", () => this.#turn(1));
  }

  show(placement) {
    this.#rows = [...placement.executors].sort((one, other) => other.utilisation - one.utilisation);
    this.hottest = Math.max(1e-9, placement.hottest);
    this.#draw();
  }

  #turn(by) {
    this.#page += by;
    this.#draw();
  }

  #draw() {
    const wanted = byId("executors-filter").value.trim().toLowerCase();
    const found = this.#rows.filter((row) =>
      !wanted || `${row.executor}\n${row.host}\n${row.status}`.toLowerCase().includes(wanted));
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    this.#page = Math.max(0, Math.min(this.#page, pages - 1));
    const shown = found.slice(this.#page * PAGE, (this.#page + 1) * PAGE);
    patch(byId("executors"), shown, () => this.#blank(), (row, one) => this.#fill(row, one));
    show(byId("executors-pages"), found.length > PAGE);
    say(byId("executors-place"),
      `${this.#page * PAGE + 1} to ${this.#page * PAGE + shown.length} of ${whole(found.length)}`);
    byId("executors-before").disabled = this.#page === 0;
    byId("executors-after").disabled = this.#page === pages - 1;
    show(byId("executors-none"), found.length === 0);
    say(byId("executors-none"), this.#rows.length ? "No executor is named so." : "No executor has joined.");
  }

  #blank() {
    const row = blankRow("", "", "", "meter", "number", "number", "number");
    row.cells[0].append(el("button", {
      type: "button", class: "link", onclick: () => this.#open("executor", row.dataset.executor),
    }));
    row.cells[2].append(el("span", { class: "badge" }));
    row.cells[3].append(el("span", { class: "bar", "aria-hidden": "true" }, el("span")), el("span"));
    return row;
  }

  #fill(row, one) {
    row.dataset.executor = one.executor;
    say(row.cells[0].firstChild, one.executor);
    say(row.cells[1], one.host || "–");
    const badge = row.cells[2].firstChild;
    const state = one.silent ? "silent" : one.saturated ? "saturated" : one.status;
    say(badge, state);
    badge.className = `badge ${state}`;
    const [bar, value] = row.cells[3].children;
    stretch(bar.firstChild, one.utilisation / this.hottest);
    say(value, figure(one.utilisation));
    say(row.cells[4], figure(one.load));
    say(row.cells[5], whole(one.shards));
    say(row.cells[6], span(one.heartbeat_age_s));
  }
}

export class EventsTable {
  #open;

  constructor(open) {
    this.#open = open;
    byId("events-kind").addEventListener("change", () => this.show(this.events));
  }

  show(events) {
    this.events = events;
    const wanted = KINDS[byId("events-kind").value];
    const found = events.filter(wanted).slice(-EVENTS_SHOWN).reverse();
    patch(byId("events"), found, () => this.#blank(), (row, event) => this.#fill(row, event));
    show(byId("events-none"), found.length === 0);
  }

  #blank() {
    const row = blankRow("time", "", "", "", "why");
    row.cells[2].append(el("button", {
      type: "button", class: "link", onclick: () => this.#open("shard", row.dataset.shard),
    }));
    return row;
  }

  #fill(row, event) {
    say(row.cells[0], clock(new Date(event.at)));
    say(row.cells[1], words(event.kind));
    row.dataset.shard = event.shard ?? "";
    const link = row.cells[2].firstChild;
    show(link, event.shard !== null);
    say(link, event.shard ?? "");
    show(row.cells[2], true);
    say(row.cells[3], way(event));
    const why = [event.cause && words(event.cause), event.reason, event.detail].filter(Boolean).join(" — ");
    const many = event.count > 1 ? `${count(event.count, "shard")}. ` : "";
    say(row.cells[4], `${many}${why}${event.by ? ` · by ${event.by}` : ""}`);
  }
}

const KINDS = {
  all: () => true,
  moves: (event) => MOVES.has(event.kind),
  orders: (event) => event.by !== "",
  rare: (event) => !MOVES.has(event.kind),
};
const MOVES = new Set(
  ["shards_placed", "handoff_started", "handoff_finished", "handoff_aborted", "handoff_overdue", "move_ordered"]);

function way(event) {
  const from = event.executor ?? event.host ?? "";
  return event.target ? `${from || "nobody"} → ${event.target}` : from;
}

export function showDrains(drains) {
  show(byId("drains-none"), drains.length === 0);
  patch(byId("drains"), drains, () => {
    const bar = el("span", { class: "bar wide", "aria-hidden": "true" }, el("span"));
    return el("li", {}, el("div", { class: "row" }, el("strong"), el("span", { class: "badge" })),
      bar, el("p"), el("p", { class: "quiet" }));
  }, (item, drain) => {
    const [head, bar, progress, why] = item.children;
    say(head.firstChild, drain.target.replace("/", " "));
    say(head.lastChild, drain.state);
    head.lastChild.className = `badge ${drain.state}`;
    const all = drain.shards_moved + drain.shards_left;
    stretch(bar.firstChild, all === 0 ? 1 : drain.shards_moved / all);
    const blocked = drain.blocked.length
      ? ` · held up: ${drain.blocked.slice(0, 5).map((one) => `${one.key} (${words(one.reason)})`).join(", ")}`
      : "";
    say(progress, `${count(drain.shards_left, "shard")} left, ${whole(drain.shards_moved)} moved${blocked}`);
    say(why, `since ${clock(new Date(drain.since))} by ${drain.by || "nobody known"}` +
      `${drain.finished_at ? `, done at ${clock(new Date(drain.finished_at))}` : ""}` +
      `${drain.until ? `, ends by itself at ${clock(new Date(drain.until))}` : ""}` +
      `${drain.reason ? ` — ${drain.reason}` : ""}`);
  });
}

export function showPlan(plan) {
  const effect = plan.moves === 0 ? "" :
    ` The hottest would go from ${figure(plan.before.hottest)} to ${figure(plan.after.hottest)}, ` +
    `the spread from ${percent(plan.before.spread)} to ${percent(plan.after.spread)}.`;
  const held = plan.skipped_why ? `None is made now: ${plan.skipped_why}. Else: ` : "";
  say(byId("plan-text"),
    `${held}${plan.moves === 0 ? "no move" : count(plan.moves, "move")} — ${plan.stopped_why}.${effect}` +
    `${plan.blocked_why ? ` ${plan.blocked_why}.` : ""}`);
  patch(byId("plan"), plan.moved.slice(0, 10), () => blankRow("", "", "number", "why"), (row, move) => {
    say(row.cells[0], move.key);
    say(row.cells[1], `${move.source} → ${move.target}`);
    say(row.cells[2], figure(move.load));
    say(row.cells[3], move.why);
  });
  show(byId("plan-table"), plan.moved.length > 0);
}

export function showCapacity(told) {
  const mark = told.high_mark === null
    ? "No high mark is set, so nothing says how hot is too hot."
    : told.needed === null
      ? `No number of executors keeps all under the high mark ${figure(told.high_mark)}: the heaviest shard alone is above it.`
      : `${told.needed_planned ?? told.needed} of ${told.executors} executors keep all under the high mark ${figure(told.high_mark)}.`;
  const more = told.lower_bound ? ` A lower bound: ${told.saturated.join(", ")} would do more than measured.` : "";
  say(byId("capacity-text"), `Demand ${figure(told.demand)} on a capacity of ${figure(told.capacity)}. ${mark}${more}`);
  patch(byId("capacity"), told.table, () => blankRow("number", "number", "number", "number", "number", "number"),
    (row, line) => {
      row.className = line.executors === told.executors ? "here" : "";
      const cells = [whole(line.executors), figure(line.mean), figure(line.best_possible),
        figure(line.planned), figure(line.static_hash), whole(line.moves)];
      cells.forEach((text, at) => say(row.cells[at], text));
    });
}

export function showNodes(cluster, api) {
  show(byId("nodes-limited"), Boolean(cluster.isLimited));
  patch(byId("nodes"), cluster.nodes, () => {
    const row = blankRow("", "", "number", "");
    row.cells[1].append(el("span", { class: "badge" }));
    row.cells[3].append(el("a", { rel: "noreferrer" }));
    return row;
  }, (row, node) => {
    const isAsked = node.node === cluster.node;
    const isLost = !node.is_reachable || (node.api !== null && api.isLost(node.api) && !isAsked);
    row.dataset.node = node.node;
    say(row.cells[0], node.node + (isAsked ? " (asked)" : ""));
    const badge = row.cells[1].firstChild;
    say(badge, isLost ? "lost" : node.role);
    badge.className = `badge ${isLost ? "lost" : node.role}`;
    say(row.cells[2], isAsked ? "–" : node.last_heard_age_s === null ? "never" : ago(node.last_heard_age_s));
    const link = row.cells[3].firstChild;
    say(link, node.api ?? "unknown");
    if (node.api && /^https?:\/\//.test(node.api)) link.setAttribute("href", `${node.api}/${location.hash}`);
    else link.removeAttribute("href");
  });
}
