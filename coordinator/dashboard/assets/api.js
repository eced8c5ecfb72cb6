// Asking the cluster: of the node that served this page as long as it answers, then of the others.
//
// Decides which node is asked, how long an answer is waited for, and what a failure means: a node
// that cannot be reached is left for the next one, a refusal is told. The token lives in this
// module's memory only; a reload forgets it.

const PATIENCE_MS = 6000; // a commit that a leader waits for is given up after five seconds
const LOST_FOR_MS = 10000; // a node that did not answer is tried last for so long

/** What a node said no to. */
export class Refused extends Error {
  constructor(status, problem, retryAfterS) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.reason = problem.reason || "";
    this.retryAfterS = retryAfterS;
  }
}

/** No node answered at all. */
export class Unreachable extends Error {}

export class Api {
  #token = "";
  #urls = [location.origin];
  #lostAt = new Map();
  #waiting = null;

  constructor(askForToken) {
    this.url = location.origin;
    this.askForToken = askForToken;
    this.onSwitch = () => {};
  }

  /** Where else to ask. The own address is kept as the browser knows it. */
  know(urls) {
    const others = urls.filter((url) => url && url !== location.origin);
    this.#urls = [location.origin, ...others];
  }

  get urls() {
    return this.#urls;
  }

  isLost(url) {
    return this.#lostAt.has(url);
  }

  /** Ask for something; gives the body, null where a wait ended with nothing new. */
  async get(path, { waitS = 0, signal = null } = {}) {
    for (const url of this.#inTurn()) {
      try {
        const answer = await this.ask(url, path, { waitS, signal });
        this.#use(url);
        return answer;
      } catch (fault) {
        if (fault instanceof Refused || signal?.aborted) throw fault;
        this.#lostAt.set(url, Date.now());
      }
    }
    throw new Unreachable("no node of the cluster answers");
  }

  /** Ask one node. */
  async ask(url, path, { waitS = 0, signal = null } = {}) {
    const deadline = AbortSignal.timeout(PATIENCE_MS + waitS * 1000);
    const response = await fetch(url + path, {
      signal: signal ? AbortSignal.any([signal, deadline]) : deadline,
      headers: this.#token ? { Authorization: `Bearer ${this.#token}` } : {},
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
    this.#lostAt.delete(url);
    if (response.status === 304) return { body: null };
    if (response.status === 401) {
      await this.#login();
      return this.ask(url, path, { waitS, signal });
    }
    if (!response.ok) {
      const problem = await response.json().catch(() => ({}));
      throw new Refused(response.status, problem, Number(response.headers.get("Retry-After")) || 0);
    }
    return { body: await response.json() };
  }

  /** Go on with another node, although this one answers: it knows less than that. */
  prefer(url) {
    this.#use(url);
  }

  #inTurn() {
    const now = Date.now();
    const isLost = (url) => now - (this.#lostAt.get(url) ?? -LOST_FOR_MS) < LOST_FOR_MS;
    const others = this.#urls.filter((url) => url !== this.url);
    const order = [this.url, ...others];
    return [...order.filter((url) => !isLost(url)), ...order.filter(isLost)];
  }

  #use(url) {
    if (url === this.url) return;
    this.url = url;
    this.onSwitch(url);
  }

  // One question, however many requests wait for its answer.
  #login() {
    this.#waiting ??= this.askForToken(this.#token !== "").then((token) => {
      this.#token = token;
      this.#waiting = null;
    });
    return this.#waiting;
  }
}
