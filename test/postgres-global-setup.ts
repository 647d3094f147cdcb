import { chmod, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { startPostgres } from "../local/postgres/postgres.ts";
import { migrate } from "../shared/db/migrate.ts";
import { removeFolder } from "./remove-folder.ts";

/** Where the tests find their PostgreSQL: a database to administer from, and the one to clone. */
export type TestServer = Readonly<{ connectionString: string; template: string }>;

declare module "vitest" {
  interface ProvidedContext {
    testServer: TestServer;
  }
}

const template = "mango_template";

/** One PostgreSQL for the whole run, whose data may go with it: nothing here is flushed to disk. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "mango-test-"));
  // As root the server runs as another user, who must be able to enter.
  await chmod(dataDir, 0o711);
  const settings = { fsync: "off", synchronous_commit: "off", full_page_writes: "off", max_connections: "200" };
  const server = await startPostgres({ dataDir, settings });
  const teardown = async () => {
    await server.stop();
    await removeFolder(dataDir);
  };
  try {
    await createTemplate(server.connectionString);
  } catch (error) {
    await teardown();
    throw error;
  }
  project.provide("testServer", { connectionString: server.connectionString, template });
  return teardown;
}

async function createTemplate(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    await client.query(`create database ${template}`);
  } finally {
    await client.end();
  }
  const address = new URL(connectionString);
  address.pathname = template;
  await migrate({ connectionString: address.href });
}
