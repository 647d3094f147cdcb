import { noTools, type ToolExecutor } from "../shared/turns/tool-executor.ts";
import { managedWebFetch } from "../shared/web-fetch/managed-web-fetch.ts";
import { PageCallerEnvironment, readEnvironment, ToolEnvironment } from "./environment.ts";
import { pageCaller } from "./page-caller.ts";

/** The server's own tools in this deployment, for the function that may run them. */
export function configuredTools(environment: Readonly<Record<string, string | undefined>> = process.env): ToolExecutor {
  if (readEnvironment(ToolEnvironment, environment).MANGO_WEB_FETCH === "native") {
    return noTools;
  }
  const caller = readEnvironment(PageCallerEnvironment, environment);
  return managedWebFetch({
    fetchPage: pageCaller(caller.MANGO_WEB_FETCH_FUNCTION),
    domains: {
      allowed: caller.MANGO_WEB_FETCH_ALLOWED_DOMAINS ?? null,
      blocked: caller.MANGO_WEB_FETCH_BLOCKED_DOMAINS ?? null,
    },
  });
}
