// One shard or one executor, opened from anywhere on the page: where it is, why, and the commands
// that do something about it. The page itself changes nothing.

import { clock, count, figure, quoted, span, words } from "./format.js";
import { byId, el, say } from "./dom.js";
import { paths } from "./paths.js";

export class Detail {
  #dialog = byId("detail");
  #api;
  #namespace;

  constructor(api, namespace) {
    this.#api = api;
    this.#namespace = namespace;
    byId("detail-close").addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close();
    });
  }

  /** Open one; `kind` is `shard` or `executor`. */
  async open(kind, name) {
    if (!name) return;
    const namespace = this.#namespace();
    say(byId("detail-title"), `${kind === "shard" ? "Shard" : "Executor"} ${name}`);
    byId("detail-body").replaceChildren(el("p", { class: "quiet" }, "Asking …"));
    if (!this.#dialog.open) this.#dialog.showModal();
    try {
      const { body } = await this.#api.get(paths[kind](namespace, name));
      const parts = kind === "shard" ? shard(body) : executor(body);
      byId("detail-body").replaceChildren(...parts, ...commands(kind, namespace, name));
    } catch (fault) {
      byId("detail-body").replaceChildren(el("p", { role: "alert" }, fault.message));
    }
  }
}

function facts(pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" },
    ...told.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, String(value))]));
}

function shard(one) {
  return [
    one.why_here ? el("p", {}, `Here because ${one.why_here}.`) : null,
    one.why_no_move ? el("p", {}, `Now: ${one.why_no_move}.`) : null,
    facts([
      ["Owner", one.executor ?? "nobody"],
      ["Host", one.host],
      ["State", words(one.state)],
      ["Next", one.next],
      ["Load", one.load === null ? "not measured" : figure(one.load)],
      ["Epoch", one.epoch],
      ["Pinned to", one.pinned],
      ["Parked", one.parked],
      ["Rests for", one.cooldown_left_s ? span(one.cooldown_left_s) : null],
      ["Since", one.since && clock(new Date(one.since))],
      ["Before", one.previous],
    ]),
    one.why_not_there?.length
      ? section("Why not elsewhere", one.why_not_there.map((other) => `${other.executor}: ${other.why}`))
      : null,
    one.history?.length
      ? section("What happened to it", one.history.map((event) =>
        `${clock(new Date(event.at))} ${words(event.kind)}` +
        `${event.target ? ` → ${event.target}` : ""}${event.detail ? ` — ${event.detail}` : ""}`))
      : null,
  ].filter(Boolean);
}

function executor(one) {
  const process = one.process ?? {};
  return [
    facts([
      ["Status", one.status + (one.leaving ? ", leaving" : "") + (one.evicted ? ", evicted" : "")],
      ["Host", one.host],
      ["Zone", one.zone],
      ["Address", one.address],
      ["Version", one.version],
      ["Utilisation", figure(one.utilisation)],
      ["Load", one.load === null ? "not known here" : `${figure(one.load)} of ${figure(one.capacity)}`],
      ["Shards", count(one.shards, "shard") + (one.releasing ? `, ${one.releasing} being released` : "")],
      ["Heartbeat", one.heartbeat_age_s === null ? null : `${span(one.heartbeat_age_s)} ago`],
      ["CPU cores", process.cpu_cores === undefined ? null : figure(process.cpu_cores)],
      ["Event loop late by", process.event_loop_lag_s == null ? null : span(process.event_loop_lag_s)],
      ["Backlog", process.backlog === undefined ? null : figure(process.backlog)],
      ["Joined", clock(new Date(one.joined_at))],
      ["Drain", one.drain],
    ]),
  ];
}

function section(title, lines) {
  return el("section", {}, el("h3", {}, title), el("ul", {}, ...lines.map((line) => el("li", {}, line))));
}

function commands(kind, namespace, name) {
  const lead = `shardctl -n ${quoted(namespace)} ${kind}`;
  const lines = kind === "shard"
    ? [`${lead} inspect ${quoted(name)}`, `${lead} drain ${quoted(name)} --reason WHY`]
    : [`${lead} show ${quoted(name)}`, `${lead} drain ${quoted(name)} --reason WHY --wait`];
  return [el("section", {}, el("h3", {}, "Commands"), ...lines.map(command))];
}

function command(line) {
  const button = el("button", { type: "button", "aria-label": `Copy: ${line}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line);
      say(button, "Copied");
    } catch {
      say(button, "Select it"); // a page over plain HTTP from elsewhere gets no clipboard
    }
    setTimeout(() => say(button, "Copy"), 2000);
  });
  return el("div", { class: "command" }, el("code", {}, line), button);
}
