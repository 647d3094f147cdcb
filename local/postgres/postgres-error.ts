/** The embedded PostgreSQL cannot be had. The message is one the operator can act on: what is wrong, what to do next. */
export class PostgresError extends Error {
  override readonly name = "PostgresError";
}

/** The way out that always works, for the end of a message. */
export const bringYourOwn = "set MANGO_DATABASE_URL to a PostgreSQL of your own";
