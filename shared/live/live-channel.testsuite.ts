import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { eventually } from "../../test/eventually.ts";
import type { LiveChannel, LiveMessage, LiveSubscription, Preview } from "./live-channel.ts";

const WAKE: LiveMessage = { type: "wake" };

function piece(number: number): Preview {
  return {
    type: "preview",
    threadId: "sthr_1",
    afterSeq: 7,
    piece: number,
    event: {
      type: "event_delta",
      event_id: "sevt_1",
      delta: { type: "content_delta", index: 0, content: { type: "text", text: `“${number}”\n` } },
    },
  };
}

/** What every live channel does, whatever carries it. */
export function liveChannelContract(name: string, open: () => Promise<LiveChannel>): void {
  describe(`${name}, as a live channel`, () => {
    let channel: LiveChannel;
    const subscriptions: LiveSubscription[] = [];

    beforeEach(async () => {
      channel = await open();
    });
    afterEach(() => {
      for (const subscription of subscriptions.splice(0)) {
        subscription.close();
      }
    });

    function follow(topic: string): LiveMessage[] {
      const heard: LiveMessage[] = [];
      const subscription = channel.subscribe(topic, (message) => heard.push(message));
      subscription.pollEvery(10);
      subscriptions.push(subscription);
      return heard;
    }

    test("gives every subscriber every message, unchanged and in order", async () => {
      const [one, two] = [follow("sesn_1"), follow("sesn_1")];
      const messages = [WAKE, ...Array.from({ length: 20 }, (_, index) => piece(index)), WAKE];

      // Not awaited one by one: the writers of previews do not wait either.
      await Promise.all(messages.map((message) => channel.publish("sesn_1", message)));

      await eventually(() => expect([one.length, two.length]).toEqual([22, 22]));
      expect(one).toEqual(messages);
      expect(two).toEqual(messages);
    });

    test("gives a message once, however long it is followed", async () => {
      const heard = follow("sesn_1");

      await channel.publish("sesn_1", piece(0));
      await eventually(() => expect(heard).toHaveLength(1));
      await channel.publish("sesn_1", piece(1));
      await eventually(() => expect(heard).toHaveLength(2));
      await new Promise((resolve) => setTimeout(resolve, 100));

      expect(heard).toEqual([piece(0), piece(1)]);
    });

    test("keeps topics apart", async () => {
      const [mine, other] = [follow("sesn_1"), follow("sesn_2")];

      await channel.publish("sesn_2", piece(0));
      await channel.publish("sesn_1", piece(1));

      await eventually(() => expect([mine, other]).toEqual([[piece(1)], [piece(0)]]));
    });

    test("gives nothing that was published before the subscription", async () => {
      await channel.publish("sesn_1", piece(0));
      // Another millisecond: a message of the same one may count as later.
      await new Promise((resolve) => setTimeout(resolve, 5));

      const heard = follow("sesn_1");
      await channel.publish("sesn_1", piece(1));

      await eventually(() => expect(heard).not.toEqual([]));
      expect(heard).toEqual([piece(1)]);
    });

    test("gives nothing after the subscription was closed", async () => {
      const closed = follow("sesn_1");
      subscriptions[0]?.close();
      const open = follow("sesn_1");

      await channel.publish("sesn_1", WAKE);

      await eventually(() => expect(open).toEqual([WAKE]));
      expect(closed).toEqual([]);
    });
  });
}
