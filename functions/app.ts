import { createApp } from "../shared/http/app.ts";
import { ApiEnvironment, readEnvironment } from "./environment.ts";
import { product } from "./product.ts";
import { quietFront } from "./quiet-front.ts";

/** Lambda takes and gives 6 MB, the body as a string inside JSON; API Gateway would take 10. */
const MAX_BODY_MB = 4.5;

type Fetch = (request: Request) => Response | Promise<Response>;

let made: { readonly fetch: Fetch } | undefined;

/** The API of this environment, made by its first request. */
export function app(): { readonly fetch: Fetch } {
  if (made === undefined) {
    const streamLifeMs = readEnvironment(ApiEnvironment).MANGO_STREAM_LIFE_SECONDS * 1000;
    const { fetch } = createApp(product(), { streamLifeMs, maxBodyMb: MAX_BODY_MB });
    const { quiet, streamPlaces } = product();
    made = {
      fetch: quiet === null ? (request) => fetch(request) : quietFront(fetch, { quiet, streamPlaces, streamLifeMs }),
    };
  }
  return made;
}
