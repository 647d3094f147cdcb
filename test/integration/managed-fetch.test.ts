import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { fetchPage } from "../../shared/web-fetch/fetch-page.ts";
import { managedWebFetch } from "../../shared/web-fetch/managed-web-fetch.ts";
import { networkOf, type PageServer, startPageServer } from "../../shared/web-fetch/testing/page-server.ts";
import {
  calls,
  resultsOf,
  resultText,
  type ScriptedServer,
  says,
  startScriptedServer,
  toolUse,
} from "../e2e/scripted-model.ts";
import {
  ask,
  confirmation,
  isTurnEnd,
  isType,
  message,
  SessionDriver,
  textOf,
  toolset,
} from "../e2e/session-driver.ts";
import type { FakeReply } from "../fake-model/replies.ts";

// A web server that records whatever reaches it, and a name server on whose word it is public.
let pages: PageServer;
let scripted: ScriptedServer;
let session: SessionDriver;
let url: string;
beforeAll(async () => {
  pages = await startPageServer((request, response) => {
    if (request.url?.startsWith("/away")) {
      response.writeHead(302, { location: "http://169.254.169.254/latest/meta-data/" }).end();
    } else {
      response.writeHead(200, { "content-type": "text/html" }).end("<h1>Ferries</h1><p>Every hour.</p>");
    }
  });
  const network = networkOf([pages], { "a.example": ["127.0.0.1"], "blocked.example": ["127.0.0.1"] });
  scripted = await startScriptedServer({
    tools: managedWebFetch({
      domains: { allowed: null, blocked: ["blocked.example"] },
      fetchPage: (request, signal) => fetchPage(request, { network, signal }),
    }),
  });
});
let count = 0;
beforeEach(() => {
  count += 1;
  url = `http://a.example:${pages.port}/ferries?${count}`;
});
afterEach(() => session.close());
afterAll(async () => {
  await scripted.close();
  await pages.close();
});

const fetched = () => pages.seen.filter((request) => request.url === new URL(url).pathname + new URL(url).search);
const only = (config: object) => [{ ...toolset({ enabled: true, ...config }), default_config: { enabled: false } }];

/** A session whose user names the URL, and whose model fetches what `input` says. */
async function ferry(config: object, input: object = { url }, ...more: readonly FakeReply[]) {
  const provider = await scripted.script(
    calls(toolUse("toolu_1", "web_fetch", input)),
    ...more,
    says("Every hour, they say."),
  );
  session = await SessionDriver.open(scripted.server, { tools: only({ name: "web_fetch", ...config }) });
  await session.send(message(`When do the ferries run? See ${url}.`));
  return provider;
}

async function asked() {
  const [use] = await session.untilAsked();
  if (use === undefined) throw new Error("The idle names no call.");
  return use;
}

describe("web_fetch that the server runs", () => {
  test("is declared as an ordinary tool; under always_allow its page is fetched once and reaches the model", async () => {
    const provider = await ferry({ allowed_domains: ["a.example"] });
    await session.until(isTurnEnd);
    const { tools } = JSON.parse(provider.requests[0]?.body ?? "") as { tools: { name: string; type?: string }[] };
    expect(tools).toEqual([
      {
        name: "web_fetch",
        description: expect.any(String),
        input_schema: expect.objectContaining({ required: ["url"] }),
      },
    ]);
    expect(fetched()).toHaveLength(1);
    expect(resultsOf(provider, 1).map(resultText)).toEqual([`${url} (text/html)\n\n# Ferries\n\nEvery hour.`]);
    const ledger = await session.list();
    const use = ledger.find(isType("agent.tool_use"));
    expect(use).toMatchObject({ evaluated_permission: "allow", evaluation: { type: "always_allow" }, input: { url } });
    expect(ledger.find(isType("agent.tool_result"))).toMatchObject({ tool_use_id: use?.id, is_error: false });
  });

  test("leaves a record of where the page came from, which no client sees", async () => {
    await ferry({});
    await session.until(isTurnEnd);
    const { rows } = await scripted.server.database.pool.query<{ owner: string; state: string; provenance: string }>(
      "select owner, state, provenance from tool_steps where session_id = $1",
      [session.id],
    );
    expect(rows).toMatchObject([{ owner: "platform_managed", state: "completed" }]);
    expect(JSON.parse(rows[0]?.provenance ?? "")).toMatchObject({
      requested_url: url,
      final_url: url,
      redirects: [],
      address: "127.0.0.1",
      status: 200,
      media_type: "text/html",
      bytes: 34,
      // printf '<h1>Ferries</h1><p>Every hour.</p>' | sha256sum
      sha256: "c0b9c50d34f19d75fda6ed5fa05031857cde1148b528df63d2f4808e1e0f34dc",
    });
    expect(JSON.stringify(await session.list())).not.toMatch(/127\.0\.0\.1|sha256/);
  });

  test("under always_ask nothing is fetched before a person allows it, and then once", async () => {
    await ferry(ask("web_fetch"));
    const use = await asked();
    expect(use).toMatchObject({ name: "web_fetch", evaluated_permission: "ask", evaluation: { type: "always_ask" } });
    expect(fetched()).toEqual([]);
    await session.send(confirmation(use, "allow"));
    await session.until(isTurnEnd);
    expect(fetched()).toHaveLength(1);
    expect((await session.list()).findLast(isType("agent.message"))).toSatisfy(
      (said) => textOf(said) === "Every hour, they say.",
    );
  });

  test("that is denied is never fetched", async () => {
    const provider = await ferry(ask("web_fetch"));
    await session.send(confirmation(await asked(), "deny", { deny_message: "Not today." }));
    await session.until(isTurnEnd);
    expect(fetched()).toEqual([]);
    expect(resultsOf(provider, 1).map((block) => [resultText(block), block.is_error])).toEqual([
      ["Permission to use web_fetch has been denied. Not today.", true],
    ]);
  });

  test.each([
    ['{"permission":"allow"}', "allow", 1],
    ['{"permission":"deny","reason_code":"high_risk"}', "deny", 0],
  ])("under auto it is judged first: %s", async (judgment, permission, times) => {
    await ferry({ permission_policy: { type: "auto" } }, { url }, says(judgment));
    await session.until(isTurnEnd);
    expect(fetched()).toHaveLength(times);
    expect((await session.list()).find(isType("agent.tool_use"))).toMatchObject({
      evaluated_permission: permission,
      evaluation: { type: "auto", evaluated_permission: { type: permission } },
    });
  });

  test("of a URL that the model made up is not fetched, nor is one that it only said before", async () => {
    const made = `${url}&secret=1`;
    const again = calls(toolUse("toolu_2", "web_fetch", { url: made }));
    const provider = await ferry({}, { url: made }, again);
    await session.until(isTurnEnd);
    expect(pages.seen.filter((request) => request.url?.includes("secret"))).toEqual([]);
    expect(resultsOf(provider, 2).map((block) => block.is_error)).toEqual([true, true]);
    expect(resultText(resultsOf(provider, 2)[1])).toContain("has not appeared in the conversation");
  });

  test("F33: of a page that redirects to a metadata service is an error, and the turn goes on", async () => {
    url = `http://a.example:${pages.port}/away?${count}`;
    const provider = await ferry({});
    await session.until(isTurnEnd);
    expect(fetched()).toHaveLength(1);
    const [result] = resultsOf(provider, 1);
    expect(result?.is_error).toBe(true);
    expect(resultText(result)).toBe("The URL does not lead to a web server on the public internet.");
  });

  test.each([
    ["the deployment blocks", "blocked.example", {}],
    ["the agent blocks", "a.example", { blocked_domains: ["a.example"] }],
    ["the agent does not allow", "a.example", { allowed_domains: ["b.example"] }],
  ])("of a domain that %s is not fetched", async (_case, host, config) => {
    url = `http://${host}:${pages.port}/ferries?${count}`;
    const provider = await ferry(config);
    await session.until(isTurnEnd);
    expect(fetched()).toEqual([]);
    expect(resultText(resultsOf(provider, 1)[0])).toBe("The URL's domain may not be fetched.");
  });
});
