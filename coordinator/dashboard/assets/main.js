// The page: puts its parts together, keeps what they show, and says how far it can be trusted.

import { Api, Refused, Unreachable } from "./api.js";
import { Chart } from "./chart.js";
import { Detail } from "./detail.js";
import { byId, el, say, show } from "./dom.js";
import { Feed, isCutOff } from "./feed.js";
import { ago, count, figure, percent, span, whole, words } from "./format.js";
import { PlacementMap } from "./map.js";
import { EventsTable, ExecutorsTable, showCapacity, showDrains, showNodes, showPlan } from "./tables.js";

const POINTS_KEPT = 4000; // half a day by the minute, an hour each five seconds, the rest as it is seen
const MOVES = new Set(["handoff_started", "shards_placed"]);
const PAST_MS = 13 * 3600000;

const seen = { points: new Map(), events: [], placement: null, cluster: null, at: 0, heardAt: 0, fault: null };

const api = new Api(login);
const detail = new Detail(api, () => namespace());
const open = (kind, name) => detail.open(kind, name);
const chart = new Chart();
const map = new PlacementMap(open);
const executors = new ExecutorsTable(open);
const events = new EventsTable(open);

const tellers = {
  cluster(cluster) {
    seen.cluster = cluster;
    if (cluster.leader !== null) seen.heardAt = Date.now() - (cluster.leader_contact_age_s ?? 0) * 1000;
    seen.fault = null;
    showNodes(cluster, api);
    standing();
  },
  namespaces: offer,
  placement(placement) {
    seen.placement = placement;
    seen.at = Date.now();
    seen.fault = null;
    remember([{ ...placement, best_possible: placement.best_possible_hottest,
      static_hash: placement.static_hash_hottest, executors: placement.executors.length }]);
    map.show(placement);
    executors.show(placement);
    figures(placement);
    standing();
    draw();
  },
  series(points) {
    remember(points);
    draw();
  },
  events(all) {
    seen.events = all;
    events.show(all);
    lastMove();
    draw();
  },
  drains: showDrains,
  plan: showPlan,
  capacity: showCapacity,
  "plan-fault": (fault) => say(byId("plan-text"), fault.message),
  "capacity-fault": (fault) => say(byId("capacity-text"), fault.message),
  large(shards) {
    const text = `With ${whole(shards)} shards this takes a while: it is worked out when you ask for it.`;
    if (byId("plan").children.length === 0) say(byId("plan-text"), text);
    if (byId("capacity").children.length === 0) say(byId("capacity-text"), text);
  },
  fault(fault) {
    seen.fault = fault;
    standing();
  },
};

const feed = new Feed(api, (what, value) => tellers[what](value));
api.onSwitch = () => feed.soon();

// -- which namespace -----------------------------------------------------------------------------

function namespace() {
  return new URLSearchParams(location.hash.slice(1)).get("ns") ?? "";
}

function offer(namespaces) {
  const names = namespaces.map((one) => one.namespace);
  const choice = byId("namespace");
  if (choice.dataset.names !== names.join("\n")) {
    choice.dataset.names = names.join("\n");
    choice.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
  }
  show(byId("nothing"), names.length === 0);
  show(choice.parentElement, names.length > 0);
  show(byId("fleet"), names.length > 0);
  if (names.length > 0 && !names.includes(namespace())) {
    history.replaceState(null, "", `#ns=${encodeURIComponent(names[0])}`);
    turn();
  }
  choice.value = namespace();
}

function turn() {
  seen.points.clear();
  Object.assign(seen, { events: [], placement: null });
  document.title = namespace() ? `${namespace()} – Shard Coordinator` : "Shard Coordinator";
  feed.follow(namespace());
}

// -- figures -------------------------------------------------------------------------------------

function remember(points) {
  for (const point of points) seen.points.set(Date.parse(point.at), point);
  if (seen.points.size > POINTS_KEPT) {
    for (const ms of [...seen.points.keys()].sort((a, b) => a - b).slice(0, -POINTS_KEPT)) {
      seen.points.delete(ms);
    }
  }
}

function draw() {
  const nowMs = Math.max(Date.parse(seen.placement?.at ?? 0) || 0, ...seen.points.keys());
  const points = [...seen.points].filter(([ms]) => ms > nowMs - PAST_MS).sort(([a], [b]) => a - b)
    .map(([ms, point]) => ({ ...point, ms }));
  const moves = seen.events.filter((event) => MOVES.has(event.kind))
    .map((event) => ({ ms: Date.parse(event.at), count: event.count }));
  const { high_mark: high, quiet_mark: quiet, start_gap: startGap } = seen.placement ?? {};
  chart.show(points, moves, { high, quiet, startGap }, nowMs || Date.now());
}

function figures(placement) {
  const all = placement.executors;
  const standings = new Map();
  for (const one of all) standings.set(one.status, (standings.get(one.status) ?? 0) + 1);
  say(byId("tile-executors"), whole(all.length));
  say(byId("tile-executors-more"), all.length === 0 ? "none has joined"
    : [...standings].map(([name, number]) => `${whole(number)} ${name}`).join(", "));
  say(byId("tile-shards"), whole(placement.shards));
  say(byId("tile-shards-more"), [
    `${whole(placement.vacant)} unassigned`,
    placement.in_flight ? `${whole(placement.in_flight)} moving` : "",
    placement.parked ? `${whole(placement.parked)} parked` : "",
    placement.pinned ? `${whole(placement.pinned)} pinned` : "",
  ].filter(Boolean).join(", "));
  byId("tile-shards-more").classList.toggle("bad", placement.vacant > 0);
  say(byId("tile-spread"), percent(placement.spread));
  say(byId("tile-spread-more"), `best possible ${percent(placement.best_possible)}`);
  const held = placement.skipped ?? placement.blocked;
  const label = placement.mode === "dry_run" ? "dry run" : placement.mode;
  say(byId("tile-balancer"), placement.pause ? "paused" : placement.blocked ? "blocked" : label);
  const why = placement.pause
    ? `by ${placement.pause.by || "nobody known"}${placement.pause.reason ? `: ${placement.pause.reason}` : ""}`
    : placement.skipped_why ?? placement.blocked_why ?? "nothing stands in its way";
  say(byId("tile-balancer-more"), why);
  byId("tile-balancer-more").classList.toggle("bad", Boolean(placement.blocked) && held !== "off");
  const moves = Object.entries(placement.moves).map(([cause, number]) => `${whole(number)} ${words(cause)}`);
  say(byId("map-moves"), moves.length ? `Moves of this leader: ${moves.join(", ")}.` : "");
}

function lastMove() {
  const last = seen.events.findLast((event) => event.kind === "handoff_finished" || event.kind === "handoff_started");
  if (!last) {
    say(byId("tile-move"), "–");
    say(byId("tile-move-more"), "none on record");
    return;
  }
  say(byId("tile-move"), ago(Math.max(0, (Date.now() - Date.parse(last.at)) / 1000)));
  say(byId("tile-move-more"), last.shard
    ? `${last.shard}: ${last.executor ?? "nobody"} → ${last.target ?? "nobody"}`
    : count(last.count, "shard"));
}

// -- how far it can be trusted -------------------------------------------------------------------

function standing() {
  const { cluster, fault } = seen;
  const isAway = fault instanceof Unreachable;
  if (cluster?.isLimited) {
    say(byId("tile-leader"), "–");
    say(byId("tile-leader-more"), "not for this token");
  } else if (cluster) {
    const inTouch = cluster.nodes.filter((node) => node.is_reachable && !api.isLost(node.api)).length;
    say(byId("tile-leader"), isAway ? "unknown" : cluster.leader ?? "no leader");
    say(byId("tile-leader-more"),
      `term ${cluster.term}, ${inTouch} of ${cluster.nodes.length} nodes in touch`);
  }
  const [level, text, more] = judged(cluster, fault);
  const pill = byId("standing");
  pill.className = `pill ${level}`;
  say(pill, text);
  const banner = byId("banner");
  show(banner, Boolean(more));
  banner.className = `banner ${level}`;
  say(banner, more ?? "");
  byId("fleet").classList.toggle("stale", level === "lost");
}

function judged(cluster, fault) {
  const oldS = seen.at ? (Date.now() - seen.at) / 1000 : null;
  const since = oldS === null ? "" : ` What is shown is ${span(oldS)} old.`;
  if (fault instanceof Unreachable) {
    return ["lost", "Cut off", `No node answers this page: ${api.urls.join(", ")}. It goes on trying.${since}`];
  }
  if (!cluster) return ["wait", "Connecting", null];
  const asked = `asking ${cluster.node}`;
  if (isCutOff(cluster)) {
    const heard = seen.heardAt
      ? `last heard a leader ${span((Date.now() - seen.heardAt) / 1000)} ago`
      : "has heard no leader yet";
    return ["lost", "No leader", `Node ${cluster.node} ${heard}, and no other node does better. ` +
      `Owners go on until their leases end.${since}`];
  }
  if (fault) {
    const name = fault instanceof Refused ? words(fault.reason) : "no answer";
    return ["wait", "Waiting", `${name}: ${fault.message}.${since}`];
  }
  const alarm = cluster.alarms.find((one) => one.state === "holding") ?? cluster.alarms[0];
  const text = `Live, ${asked}`;
  if (alarm) {
    return ["bad", text, `${words(alarm.alarm)} in ${alarm.namespace}: so many executors are silent at once ` +
      `that nothing is taken away from them (shardctl mass-failure show -n ${alarm.namespace}).`];
  }
  const lost = cluster.nodes.filter((node) => !node.is_reachable).map((node) => node.node);
  if (lost.length > 0) return ["bad", text, `Lost: ${lost.join(", ")}. The others go on.`];
  const own = cluster.nodes.find((node) => node.node === cluster.node)?.api;
  if (api.url !== location.origin) {
    return ["live", text, `The node that served this page does not answer; going on from ${cluster.node}.`];
  }
  if (own && own !== location.origin && cluster.nodes.length > 1) {
    byId("advice").textContent = `This page came from ${location.origin}. Opened as ${own} it could go on ` +
      "from the other nodes when this one is lost.";
  }
  return ["live", text, null];
}

// -- logging in ----------------------------------------------------------------------------------

function login(wasWrong) {
  const dialog = byId("login");
  const field = byId("token");
  show(byId("login-wrong"), wasWrong);
  field.value = "";
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => {
    byId("login-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const token = field.value.trim();
      field.value = "";
      dialog.close();
      resolve(token);
    }, { once: true });
  });
}

// -- beginning -----------------------------------------------------------------------------------

byId("login").addEventListener("cancel", (event) => event.preventDefault());
byId("namespace").addEventListener("change", (event) => {
  location.hash = `ns=${encodeURIComponent(event.target.value)}`;
});
addEventListener("hashchange", turn);
byId("chart-table").addEventListener("toggle", () => chart.draw());
for (const button of document.querySelectorAll("[data-minutes]")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[data-minutes]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    chart.spanMs = Number(button.dataset.minutes) * 60000;
  });
}
byId("find").addEventListener("submit", (event) => {
  event.preventDefault();
  open("shard", byId("find-key").value);
});
for (const button of document.querySelectorAll("[data-calculate]")) {
  button.addEventListener("click", async () => {
    button.disabled = true;
    await feed.calculate();
    button.disabled = false;
  });
}
setInterval(() => { lastMove(); standing(); }, 1000);
turn();
