import { createApp } from "../shared/http/app.ts";
import { ApiEnvironment, readEnvironment } from "./environment.ts";
import { product } from "./product.ts";

let made: ReturnType<typeof createApp> | undefined;

/** The API of this environment, made by its first request. */
export function app(): ReturnType<typeof createApp> {
  if (made === undefined) {
    const { MANGO_STREAM_LIFE_SECONDS } = readEnvironment(ApiEnvironment);
    made = createApp(product(), { streamLifeMs: MANGO_STREAM_LIFE_SECONDS * 1000 });
  }
  return made;
}
