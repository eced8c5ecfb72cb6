// Keeping the page up to date: one long poll for what happens, and a look at the rest after it.
//
// Decides how often what is asked for: at once after an event, each two seconds else, and the more
// seldom the longer an answer takes or the larger the fleet is. Nothing is asked for while the page
// is hidden. Browsers open six connections to a node, for all its pages together, so a page holds
// one.

import { Refused } from "./api.js";
import { paths } from "./paths.js";

const TICK_MS = 2000;
const AFTER_EVENT_MS = 120; // a handful of events of one commit are one look
const SERIES_MS = 5000;
const NAMESPACES_MS = 10000;
const WAIT_S = 25;
const EVENTS_KEPT = 1000; // a page at most, half a megabyte, once
const CALCULATED_MS = 20000; // plans and capacities cost a thread of the leader's node
const LARGE = 20000; // shards; of more, they are calculated when somebody asks for them
const CUT_OFF_S = 3; // two elections; a node that heard no leader for so long may know less

export class Feed {
  #api;
  #tell;
  #namespace = "";
  #life = new AbortController();
  #timer = 0;
  #isLooking = false;
  #isDue = false;
  #calculatedAt = 0;
  #seriesAt = 0;
  #namespacesAt = 0;
  #since = "";

  /** `tell` is called with `(what, value)`. */
  constructor(api, tell) {
    this.#api = api;
    this.#tell = tell;
    document.addEventListener("visibilitychange", () => this.#begin());
  }

  follow(namespace) {
    this.#namespace = namespace;
    this.#begin();
  }

  /** Look again soon. */
  soon(ms = AFTER_EVENT_MS) {
    clearTimeout(this.#timer);
    if (document.hidden) return;
    this.#timer = setTimeout(() => this.#look(), ms);
  }

  calculate() {
    this.#calculatedAt = 0;
    return this.#calculate(true);
  }

  #begin() {
    this.#life.abort();
    this.#life = new AbortController();
    [this.#calculatedAt, this.#seriesAt, this.#since] = [0, 0, ""];
    if (document.hidden) {
      clearTimeout(this.#timer);
      return;
    }
    this.soon(0);
    if (this.#namespace) this.#listen(this.#life.signal);
  }

  async #listen(signal) {
    let events = [];
    let cursor = "";
    while (!signal.aborted) {
      try {
        const path = cursor
          ? paths.newEvents(this.#namespace, cursor, WAIT_S)
          : paths.events(this.#namespace, EVENTS_KEPT);
        const { body } = await this.#api.get(path, { waitS: cursor ? WAIT_S : 0, signal });
        if (signal.aborted) return;
        if (body === null) continue;
        cursor = body.cursor;
        events = body.missed ? body.events : [...events, ...body.events].slice(-EVENTS_KEPT);
        this.#tell("events", events);
        if (body.events.length > 0) this.soon();
      } catch (fault) {
        if (signal.aborted) return;
        if (fault instanceof Refused && fault.status === 422) cursor = "";
        await pause(1000 * Math.max(1, fault.retryAfterS ?? 1), signal);
      }
    }
  }

  async #look() {
    if (this.#isLooking) {
      this.#isDue = true;
      return;
    }
    this.#isLooking = true;
    const began = performance.now();
    const signal = this.#life.signal;
    try {
      await this.#cluster(signal);
      await this.#namespaces(signal);
      if (this.#namespace) await this.#picture(signal);
    } catch (fault) {
      if (!signal.aborted) this.#tell("fault", fault);
    }
    this.#isLooking = false;
    const tookMs = performance.now() - began;
    const isDue = this.#isDue;
    this.#isDue = false;
    this.soon(isDue ? AFTER_EVENT_MS : Math.max(TICK_MS, 5 * tookMs));
  }

  async #cluster(signal) {
    let body;
    try {
      ({ body } = await this.#api.get(paths.cluster(), { signal }));
    } catch (fault) {
      if (fault.status !== 403) throw fault;
      this.#tell("cluster", LIMITED);
      return;
    }
    if (isCutOff(body)) body = await this.#elsewhere(body);
    this.#api.know(body.nodes.map((node) => node.api));
    this.#tell("cluster", body);
  }

  async #namespaces(signal) {
    const isKnown = this.#namespacesAt && performance.now() - this.#namespacesAt < NAMESPACES_MS;
    if (isKnown && this.#namespace) return;
    const { body } = await this.#api.get(paths.namespaces(), { signal });
    this.#namespacesAt = performance.now();
    if (!signal.aborted) this.#tell("namespaces", body.namespaces);
  }

  // This node answers and hears no leader: another one may.
  async #elsewhere(cluster) {
    for (const node of cluster.nodes) {
      if (!node.api || node.node === cluster.node) continue;
      try {
        const { body } = await this.#api.ask(node.api, paths.cluster());
        if (isCutOff(body)) continue;
        this.#api.prefer(node.api);
        return body;
      } catch {
        // Not this one either.
      }
    }
    return cluster;
  }

  async #picture(signal) {
    const namespace = this.#namespace;
    const [drains, placement] = await Promise.all([
      this.#api.get(paths.drains(namespace), { signal }),
      this.#api.get(paths.placement(namespace), { signal }),
    ]);
    if (signal.aborted) return;
    this.#tell("drains", drains.body.drains);
    this.#tell("placement", placement.body);
    this.shards = placement.body.shards;
    if (performance.now() - this.#seriesAt >= SERIES_MS || !this.#since) await this.#series(signal);
    this.#calculate(false);
  }

  async #series(signal) {
    const { body } = await this.#api.get(paths.series(this.#namespace, this.#since), { signal });
    if (signal.aborted) return;
    this.#seriesAt = performance.now();
    this.#since = body.points.at(-1)?.at ?? this.#since;
    this.#tell("series", body.points);
  }

  async #calculate(isAskedFor) {
    if (!isAskedFor && this.shards > LARGE) {
      this.#tell("large", this.shards);
      return;
    }
    if (performance.now() - this.#calculatedAt < CALCULATED_MS && this.#calculatedAt) return;
    this.#calculatedAt = performance.now();
    const signal = this.#life.signal;
    for (const what of ["plan", "capacity"]) {
      try {
        const { body } = await this.#api.get(paths[what](this.#namespace), { waitS: 50, signal });
        if (!signal.aborted) this.#tell(what, body);
      } catch (fault) {
        if (!signal.aborted) this.#tell(`${what}-fault`, fault);
      }
    }
  }
}

// What a token that is limited to namespaces is told of nodes: nothing.
const LIMITED = { isLimited: true, node: "a node", leader: "", leader_contact_age_s: 0, nodes: [], alarms: [] };

export function isCutOff(cluster) {
  return cluster.leader === null || (cluster.leader_contact_age_s ?? Infinity) > CUT_OFF_S;
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
