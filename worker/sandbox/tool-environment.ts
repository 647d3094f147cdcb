/** All that a tool's program gets from the worker's environment, plus what the operator names with `--allow-env`. */
const ALLOWED = ["PATH", "HOME", "LANG", "TERM", "TZ", "TMPDIR", "USER"];

/** An allow-list rather than a block-list: a credential that we have never heard of stays out too. */
export function toolEnvironment(
  source: Readonly<Record<string, string | undefined>>,
  alsoAllowed: readonly string[] = [],
): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of [...ALLOWED, ...alsoAllowed]) {
    const value = source[name];
    if (value !== undefined) environment[name] = value;
  }
  return environment;
}
