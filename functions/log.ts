import { Logger } from "@aws-lambda-powertools/logger";
import type { Log } from "../shared/ports/log.ts";

/** One logger an environment; `invocation.ts` gives it the ids of the invocation that runs. */
export const logger = new Logger();

/** The product's log on AWS: JSON lines for CloudWatch. */
export const log: Log = {
  debug: (message, fields = {}) => logger.debug(message, fields),
  info: (message, fields = {}) => logger.info(message, fields),
  warn: (message, fields = {}) => logger.warn(message, fields),
  error: (message, fields = {}) => logger.error(message, fields),
};
