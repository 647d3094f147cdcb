import pg from "pg";

/**
 * Makes the role that the functions connect as, and lets it use what the migrations have made: rows, never tables. Runs
 * after every migration, so that new tables are reachable before the code that reads them is deployed.
 *
 * On Aurora the role has no password: `rds_iam` lets it in with a signed token only.
 */
export async function grantApplicationRole(options: {
  readonly connectionString: string;
  readonly role: string;
}): Promise<void> {
  const client = new pg.Client({ connectionString: options.connectionString });
  await client.connect();
  try {
    const role = pg.escapeIdentifier(options.role);
    await client.query("begin");
    if (!(await roleExists(client, options.role))) {
      await client.query(`create role ${role} login`);
    }
    if (await roleExists(client, "rds_iam")) {
      await client.query(`grant rds_iam to ${role}`);
    }
    await client.query(`grant usage on schema public to ${role}`);
    await client.query(`grant select, insert, update, delete on all tables in schema public to ${role}`);
    await client.query(`revoke all on schema_migrations from ${role}`);
    await client.query("commit");
  } finally {
    await client.end();
  }
}

async function roleExists(client: pg.Client, name: string): Promise<boolean> {
  const { rowCount } = await client.query("select from pg_roles where rolname = $1", [name]);
  return rowCount === 1;
}
