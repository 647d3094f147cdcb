import { beforeEach, describe, expect, test } from "vitest";
import { RateLimited } from "../contract/errors.ts";
import type { StreamCaps, StreamPlaces } from "./stream-places.ts";

const CAPS: StreamCaps = { perKey: 3, perSession: 2 };

/** What every keeper of places does, wherever it counts. */
export function streamPlacesContract(name: string, open: (caps: StreamCaps) => Promise<StreamPlaces>): void {
  describe(`${name}, as places of streams`, () => {
    let places: StreamPlaces;
    beforeEach(async () => {
      places = await open(CAPS);
    });
    const take = (keyId: string, sessionId: string) => places.take({ keyId, sessionId });

    test("lets a key have so many streams and no more, whatever others have", async () => {
      for (const session of ["sesn_1", "sesn_2", "sesn_3"]) await take("key_1", session);

      const refused = await take("key_1", "sesn_4").catch((error: unknown) => error);

      expect(refused).toBeInstanceOf(RateLimited);
      expect(refused).toMatchObject({
        message: "3 streams are open with this key; close one, or try again later.",
        retryAfter: 5,
      });
      await take("key_2", "sesn_4");
    });

    test("lets a session have so many streams and no more, whoever opens them", async () => {
      await take("key_1", "sesn_1");
      await take("key_2", "sesn_1");

      await expect(take("key_3", "sesn_1")).rejects.toThrow(
        "2 streams are open of this session; close one, or try again later.",
      );
      await take("key_3", "sesn_2");
    });

    test("a refused stream takes no place, neither of its key nor of its session", async () => {
      await take("key_1", "sesn_1");
      const release = await take("key_2", "sesn_1");
      for (let tries = 0; tries < 3; tries += 1) await take("key_3", "sesn_1").catch(() => {});
      await release();

      await take("key_3", "sesn_1");
      await take("key_3", "sesn_2");
      await take("key_3", "sesn_3");
    });

    test("a place that was given back is free, and only one, however often it is given back", async () => {
      const release = await take("key_1", "sesn_1");
      await take("key_1", "sesn_2");
      await take("key_1", "sesn_3");
      await release();
      await release();

      await take("key_1", "sesn_4");

      await expect(take("key_1", "sesn_5")).rejects.toThrow("3 streams are open with this key");
    });
  });
}
