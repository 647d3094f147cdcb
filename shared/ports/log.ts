/** Fields of a log line. Never conversation text, never a secret: ids, counts, durations and error names. */
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>;

/** Where the product writes what an operator may need. Adapters: Powertools on AWS, the terminal in the embedded edition. */
export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
}
