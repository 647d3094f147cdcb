/** What one session's programs may take of the machine. Sizes are bytes. */
export interface Limits {
  /** Of one program, in seconds of processor time. */
  readonly cpuSeconds: number;
  /** Private memory of one program; the sum is bounded by `processes` only, or by the host (see docs/worker.md). */
  readonly memoryBytes: number;
  /** Processes and threads at once. */
  readonly processes: number;
  /** One file. */
  readonly fileBytes: number;
  /** /tmp, which is memory and empty at every start. */
  readonly tmpBytes: number;
  /** The session's folder, looked at while its programs run: see `DiskGuard`. */
  readonly diskBytes: number;
}

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

export const DEFAULT_LIMITS: Limits = {
  cpuSeconds: 3600,
  memoryBytes: 4 * GIB,
  processes: 512,
  fileBytes: 2 * GIB,
  tmpBytes: 256 * MIB,
  diskBytes: 10 * GIB,
};

/**
 * What memory shared between programs is bounded by. Far above any use of it, since reservations count: one WebAssembly
 * memory of a JavaScript engine takes 10 GiB of addresses and hardly any memory.
 */
const ADDRESS_SPACE_BYTES = 64 * GIB;
const OPEN_FILES = 4096;
/** How far the programs stand back behind the worker, its heartbeats and whatever else runs on the host. */
const NICENESS = 15;

/**
 * A program and arguments that lower the limits of the process and then become what follows. A limit that cannot be
 * set is one that the host has set lower already. When memory runs out, the kernel shall end these programs first.
 */
export function limitedProgram(limits: Limits): readonly string[] {
  const kib = (bytes: number) => Math.max(1, Math.floor(bytes / 1024));
  const script = [
    "echo 1000 >/proc/self/oom_score_adj",
    "ulimit -c 0",
    `ulimit -n ${OPEN_FILES}`,
    `ulimit -t ${limits.cpuSeconds}`,
    `ulimit -d ${kib(limits.memoryBytes)}`,
    `ulimit -v ${kib(Math.max(ADDRESS_SPACE_BYTES, limits.memoryBytes))}`,
    `ulimit -f ${kib(limits.fileBytes)}`,
    `ulimit -u ${limits.processes}`,
  ].join("; ");
  const become = `{ ${script}; } 2>/dev/null; exec nice -n ${NICENESS} "$@"`;
  return ["/bin/bash", "--noprofile", "--norc", "-c", become, "limited"];
}
