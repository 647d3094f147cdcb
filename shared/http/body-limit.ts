import type { MiddlewareHandler } from "hono";
import { RequestTooLarge } from "../contract/errors.ts";
import type { Env } from "./auth.ts";

/** The hosted service's limit for JSON bodies, in megabytes. */
export const MAX_BODY_MB = 32;

/**
 * Refuses bodies over the limit: at once where the length is announced, else as soon as they have grown over it.
 *
 * hono's own middleware makes a new Request around the counted stream, which the Node server's light request object does
 * not take; a body that comes in pieces is counted here and left where hono looks for a body that was read already.
 */
export const bodyLimit =
  (megabytes: number): MiddlewareHandler<Env> =>
  async (context, next) => {
    const assertFits = (bytes: number) => {
      if (!(bytes <= megabytes * 1024 * 1024)) {
        throw new RequestTooLarge(`The body is larger than ${megabytes} MB.`);
      }
    };
    const length = context.req.header("content-length");
    if (length !== undefined) {
      assertFits(Number(length));
    } else if (context.req.header("transfer-encoding") !== undefined) {
      const pieces: Uint8Array[] = [];
      let size = 0;
      for await (const piece of context.req.raw.body ?? []) {
        size += (piece as Uint8Array).byteLength;
        assertFits(size);
        pieces.push(piece as Uint8Array);
      }
      context.req.bodyCache.text = Promise.resolve(Buffer.concat(pieces).toString("utf8")) as unknown as string;
    }
    await next();
  };
