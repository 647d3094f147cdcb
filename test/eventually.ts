import { vi } from "vitest";

/**
 * What the check returns once it no longer throws; after 20 s its last error. vi.waitFor by itself gives up after one
 * second, which a busy machine takes for nothing at all.
 */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: 20_000, interval: 20 });
}
