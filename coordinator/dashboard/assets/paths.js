// Every path that the page asks for. A test compares them with the table of routes.

const of = (namespace) => `/v1/namespaces/${encodeURIComponent(namespace)}`;

export const paths = {
  cluster: () => "/v1/cluster",
  namespaces: () => "/v1/namespaces",
  placement: (namespace) => `${of(namespace)}/balance/placement`,
  series: (namespace, since) =>
    `${of(namespace)}/balance/series${since ? `?since=${encodeURIComponent(since)}` : ""}`,
  plan: (namespace) => `${of(namespace)}/balance/plan`,
  capacity: (namespace) => `${of(namespace)}/balance/capacity`,
  drains: (namespace) => `${of(namespace)}/drains`,
  events: (namespace, limit) => `${of(namespace)}/events?limit=${limit}`,
  newEvents: (namespace, cursor, waitS) =>
    `${of(namespace)}/events?limit=500&after=${encodeURIComponent(cursor)}&wait=${waitS}s`,
  executor: (namespace, name) => `${of(namespace)}/executors/${encodeURIComponent(name)}`,
  shard: (namespace, key) => `${of(namespace)}/shards/${encodeURIComponent(key)}`,
};
