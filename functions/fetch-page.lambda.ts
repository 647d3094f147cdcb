import middy from "@middy/core";
import { type Network, publicNetwork } from "../shared/web-fetch/dial.ts";
import { fetchPage, type PageOutcome, PageRequest } from "../shared/web-fetch/fetch-page.ts";
import { codedErrors } from "./coded-errors.ts";
import { FetchPageEnvironment, readEnvironment } from "./environment.ts";
import { observed } from "./observation.ts";

/**
 * Speaks to addresses that a tenant chose, so it stands outside: in no VPC, with no database, secret or key, and with no
 * right but to write its log and trace. It composes no product. Only `run-tool` may invoke it; see `page-caller.ts`.
 */
export const handler = middy<unknown, PageOutcome>({ timeoutEarlyInMillis: 0 })
  .use(observed())
  .use(codedErrors())
  .handler((event: unknown) => fetchPage(PageRequest.parse(event), { network: network() }));

let made: Network | undefined;

function network(): Network {
  if (made === undefined) {
    const { MANGO_WEB_FETCH_PROXY: proxy } = readEnvironment(FetchPageEnvironment);
    made = publicNetwork({ proxy: proxy === undefined ? null : new URL(proxy) });
  }
  return made;
}
