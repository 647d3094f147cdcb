/** Settings of a PostgreSQL server by their PostgreSQL names. */
export type ServerSettings = Readonly<Record<string, string>>;

/**
 * How the embedded server runs: one small machine, one client program, short indexed queries, every commit durable
 * (`fsync` and `synchronous_commit` keep PostgreSQL's own defaults). Passed as flags at each start rather than written
 * to postgresql.conf, so that a new release of Mango reaches clusters that an older one made.
 */
const settings: ServerSettings = {
  // TCP on the loopback only: a socket's path is limited to 107 bytes, and data folders can be deeper than that.
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  // The pools of server and tests; each idle connection costs a few MB only once used.
  max_connections: "100",
  // The working set is the tail of the ledger. The rest is the page cache's job, and the machine is shared.
  shared_buffers: "64MB",
  // Nobody replicates from here. Without replicas the WAL is smaller and an idle server writes nothing at all.
  wal_level: "minimal",
  max_wal_senders: "0",
  max_logical_replication_workers: "0",
  // Bounds the disk used and, with it, the replay after a crash to a few seconds.
  max_wal_size: "512MB",
  // Every query is short: planning a parallel or compiled one costs more than it returns on two cores.
  max_parallel_workers_per_gather: "0",
  jit: "off",
  // The same answers on every machine, whatever its own zone and language.
  timezone: "UTC",
  log_timezone: "UTC",
  lc_messages: "C",
  // Statements, errors and their details quote rows, which have no place in a log; the client gets them anyway.
  log_min_messages: "log",
  log_min_error_statement: "panic",
  // Our own log stamps the lines.
  log_line_prefix: "",
  cluster_name: "mango",
  // On macOS an ordinary fsync leaves the data in the drive's cache.
  ...(process.platform === "darwin" ? { wal_sync_method: "fsync_writethrough" } : {}),
};

/** The flags for `postgres`, with a caller's own settings over ours. */
export function serverFlags(overrides: ServerSettings = {}): string[] {
  return Object.entries({ ...settings, ...overrides }).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}
