import { connect, createServer } from "node:net";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { type Network, publicNetwork } from "./dial.ts";
import { fetchPage, PAGE_LIMITS, type PageLimits, PageRequest } from "./fetch-page.ts";
import { PINNED_EXAMPLE } from "./testing/certificate.ts";
import { html, networkOf, type PageServer, type Serve, startPageServer } from "./testing/page-server.ts";

const servers: PageServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

async function start(serve: Serve, certificate?: typeof PINNED_EXAMPLE): Promise<PageServer> {
  const server = await startPageServer(serve, certificate);
  servers.push(server);
  return server;
}

const LOOPBACK = ["127.0.0.1"];
const fetchUrl = (
  url: string,
  network: Network,
  more: {
    readonly request?: Partial<PageRequest>;
    readonly limits?: Partial<PageLimits>;
    readonly signal?: AbortSignal;
  } = {},
) =>
  fetchPage(
    { url, domains: [], max_characters: 1000, ...more.request },
    { network, limits: { ...PAGE_LIMITS, ...more.limits }, ...(more.signal && { signal: more.signal }) },
  );

/** Fetches from a server of its own, under the name a.example. */
async function serve(handler: Serve, more: Parameters<typeof fetchUrl>[2] = {}) {
  const server = await start(handler);
  return fetchUrl(`http://a.example:${server.port}/`, networkOf([server], { "a.example": LOOPBACK }), more);
}

const codeOf = (outcome: Awaited<ReturnType<typeof fetchPage>>) => (outcome.kind === "error" ? outcome.code : "page");

describe("a page", () => {
  test("is fetched, and the record says from where and what it was", async () => {
    const server = await start(html("<p>Hello</p>"));
    const outcome = await fetchUrl(
      `http://a.example:${server.port}/x?y=1#z`,
      networkOf([server], { "a.example": LOOPBACK }),
    );
    expect(outcome).toEqual({
      kind: "page",
      text: "Hello",
      cut: false,
      provenance: {
        requested_url: `http://a.example:${server.port}/x?y=1#z`,
        final_url: `http://a.example:${server.port}/x?y=1`,
        redirects: [],
        address: "127.0.0.1",
        status: 200,
        media_type: "text/html",
        bytes: 12,
        // printf '<p>Hello</p>' | sha256sum
        sha256: "d0a26d23e9d8e0538fd47e7bc502d26cf6c320e8daaec7c8521d4769530f5900",
        started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
        duration_ms: expect.any(Number),
      },
    });
    expect(server.seen).toEqual([
      {
        method: "GET",
        url: "/x?y=1",
        headers: {
          host: `a.example:${server.port}`,
          "user-agent": "Mango-WebFetch/1.0",
          accept: expect.any(String),
          "accept-encoding": "gzip, br",
          connection: "close",
        },
      },
    ]);
  });

  test("is asked for and answered in JSON, so that another process can fetch it", async () => {
    const server = await start(html("Hello"));
    const network = networkOf([server], { "a.example": LOOPBACK });
    const request = {
      url: `http://a.example:${server.port}/`,
      domains: [{ allowed: null, blocked: [] }],
      max_characters: 9,
    };
    const outcome = await fetchPage(PageRequest.parse(JSON.parse(JSON.stringify(request))), { network });
    expect(JSON.parse(JSON.stringify(outcome))).toEqual(outcome);
    expect(() => PageRequest.parse({ ...request, network: {} })).toThrow();
  });

  test("over https: the checked address is dialled, and the certificate must be the name's", async () => {
    const server = await start(html("Secure"), PINNED_EXAMPLE);
    const names = { "pinned.example": LOOPBACK, "other.example": LOOPBACK };
    const network = (ca?: string) => networkOf([server], names, ca === undefined ? {} : { ca });
    const trusted = network(PINNED_EXAMPLE.cert);
    expect(await fetchUrl(`https://pinned.example:${server.port}/`, trusted)).toMatchObject({
      text: "Secure",
      provenance: { address: "127.0.0.1" },
    });
    expect(codeOf(await fetchUrl(`https://other.example:${server.port}/`, trusted))).toBe("unreachable");
    expect(codeOf(await fetchUrl(`https://127.0.0.1:${server.port}/`, trusted))).toBe("unreachable");
    expect(codeOf(await fetchUrl(`https://pinned.example:${server.port}/`, network()))).toBe("unreachable");
    expect(server.seen).toHaveLength(1);
  });

  test("is cut, never through a character, and says so", async () => {
    const page: Serve = (_request, response) =>
      response.writeHead(200, { "content-type": "text/plain" }).end("abc😀def");
    expect(await serve(page, { request: { max_characters: 4 } })).toMatchObject({ text: "abc", cut: true });
    expect(await serve(page, { request: { max_characters: 5 } })).toMatchObject({ text: "abc😀", cut: true });
    expect(await serve(page, { request: { max_characters: 8 } })).toMatchObject({ text: "abc😀def", cut: false });
  });

  test.each([404, 500, 204, 304])("that answers with status %d is an error", async (status) => {
    const outcome = await serve((_request, response) => response.writeHead(status).end());
    expect(outcome).toMatchObject({
      kind: "error",
      code: "http_error",
      message: `The server answered with status ${status}.`,
      provenance: { status, address: "127.0.0.1" },
    });
  });

  test("that is no text is not read", async () => {
    const outcome = await serve((_request, response) =>
      response.writeHead(200, { "content-type": "image/png" }).end("x"),
    );
    expect(outcome).toMatchObject({ code: "unsupported_media_type", provenance: { bytes: null } });
  });
});

describe("F33: where a fetch may lead", () => {
  test.each([
    ["169.254.169.254"],
    ["10.0.0.8"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["fd00:ec2::254"],
    ["64:ff9b::a00:8"],
    ["2002:a00:8::"],
    ["127.0.0.1"],
    ["0.0.0.0"],
    ["100.64.0.1"],
  ])("a name that resolves to %s is refused before anything is dialled", async (address) => {
    const server = await start(html("secret"));
    const { mayDial } = publicNetwork({ proxy: null });
    const network = networkOf([], { "inside.example": [address] }, { mayDial });
    // On a port that the policy allows: the address alone decides.
    const outcome = await fetchUrl("http://inside.example:8080/", network);
    expect(codeOf(outcome)).toBe("address_not_allowed");
    expect(outcome.provenance.address).toBeNull();
    expect(outcome.kind === "error" && outcome.message).not.toContain(address);
    expect(server.seen).toEqual([]);
  });

  test.each([
    "http://127.0.0.1/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://[::1]/",
    "http://[::ffff:7f00:1]/",
    "http://169.254.169.254/latest/meta-data/",
    "http://[fd00:ec2::254]/",
    "http://localhost/",
    "http://127.0.0.1:8080/",
  ])("production refuses %s", async (url) => {
    expect(
      codeOf(await fetchPage({ url, domains: [], max_characters: 10 }, { network: publicNetwork({ proxy: null }) })),
    ).toBe("address_not_allowed");
  });

  test.each([22, 25, 3306, 6379, 9200])("production dials no port %d", (port) => {
    expect(publicNetwork({ proxy: null }).mayDial("93.184.215.14", port)).toBe(false);
    expect(publicNetwork({ proxy: null }).mayDial("93.184.215.14", 443)).toBe(true);
  });

  test("one bad address among good ones spoils the name", async () => {
    const server = await start(html("x"));
    const network = networkOf([server], { "mixed.example": ["127.0.0.1", "10.0.0.8"] });
    expect(codeOf(await fetchUrl(`http://mixed.example:${server.port}/`, network))).toBe("address_not_allowed");
    expect(server.seen).toEqual([]);
  });

  test("the name is asked for once, and the checked address is dialled: a later answer changes nothing", async () => {
    const server = await start(html("Pinned"));
    const answers = [["127.0.0.1"], ["10.0.0.8"]];
    let asked = 0;
    const network = networkOf([server], {}, { resolve: async () => answers[asked++] ?? [] });
    expect(await fetchUrl(`http://rebind.invalid:${server.port}/`, network)).toMatchObject({ text: "Pinned" });
    expect(asked).toBe(1);
  });

  test("each redirect is resolved and checked anew", async () => {
    const server = await start((request, response) => {
      const location = decodeURIComponent(request.url?.slice(1) ?? "");
      response.writeHead(302, { location }).end();
    });
    const network = networkOf([server], { "a.example": LOOPBACK, "inside.example": ["10.0.0.8"] });
    const to = async (location: string) =>
      codeOf(await fetchUrl(`http://a.example:${server.port}/${encodeURIComponent(location)}`, network));
    const metadata = "http://169.254.169.254/latest/meta-data/";
    const first = `http://a.example:${server.port}/${encodeURIComponent(metadata)}`;
    expect(await fetchUrl(first, network)).toMatchObject({
      code: "address_not_allowed",
      provenance: { requested_url: first, redirects: [first], final_url: metadata, address: null, status: null },
    });
    expect(await to("http://inside.example/")).toBe("address_not_allowed");
    expect(await to("http://[::ffff:169.254.169.254]/")).toBe("address_not_allowed");
    expect(await to("file:///etc/passwd")).toBe("invalid_url");
    expect(await to("http://user:secret@a.example/")).toBe("invalid_url");
    expect(network.asked.filter((host) => host === "inside.example")).toHaveLength(1);
    expect(server.seen).toHaveLength(5);
  });

  test("a redirect carries nothing to another host: no cookie, no credential, no referrer", async () => {
    const second = await start(html("There"));
    const first = await start((_request, response) => {
      const location = `http://b.example:${second.port}/there`;
      response.writeHead(307, { location, "set-cookie": "session=1", "www-authenticate": "Basic" }).end();
    });
    const network = networkOf([first, second], { "a.example": LOOPBACK, "b.example": LOOPBACK });
    const outcome = await fetchUrl(`http://a.example:${first.port}/here`, network);
    expect(outcome).toMatchObject({
      text: "There",
      provenance: {
        redirects: [`http://a.example:${first.port}/here`],
        final_url: `http://b.example:${second.port}/there`,
      },
    });
    expect(Object.keys(second.seen[0]?.headers ?? {}).sort()).toEqual([
      "accept",
      "accept-encoding",
      "connection",
      "host",
      "user-agent",
    ]);
  });

  test("redirects are followed five times", async () => {
    const server = await start((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) html("Arrived")(request, response);
      else response.writeHead(302, { location: `/${left - 1}` }).end();
    });
    const network = networkOf([server], { "a.example": LOOPBACK });
    expect(await fetchUrl(`http://a.example:${server.port}/5`, network)).toMatchObject({ text: "Arrived" });
    const lost = await fetchUrl(`http://a.example:${server.port}/6`, network);
    expect(codeOf(lost)).toBe("too_many_redirects");
    expect(lost.provenance.redirects).toHaveLength(6);
  });

  test("domain rules hold on every hop, all of them", async () => {
    const server = await start((request, response) => {
      if (request.url === "/away") {
        response.writeHead(302, { location: `http://b.example:${server.port}/` }).end();
      } else {
        html("In")(request, response);
      }
    });
    const network = networkOf([server], { "a.example": LOOPBACK, "b.example": LOOPBACK });
    const domains = [
      { allowed: ["a.example", "b.example"], blocked: null },
      { allowed: null, blocked: ["b.example"] },
    ];
    const under = (path: string) =>
      fetchUrl(`http://a.example:${server.port}${path}`, network, { request: { domains } });
    expect(await under("/")).toMatchObject({ text: "In" });
    expect(codeOf(await under("/away"))).toBe("url_not_allowed");
    expect(network.asked).not.toContain("b.example");
    expect(server.seen.map(({ url }) => url)).toEqual(["/", "/away"]);
  });
});

describe("bounds", () => {
  const compressed =
    (encoding: string, bytes: Buffer): Serve =>
    (_request, response) =>
      response.writeHead(200, { "content-type": "text/plain", "content-encoding": encoding }).end(bytes);

  test("compressed bodies are read", async () => {
    expect(await serve(compressed("gzip", gzipSync("zipped")))).toMatchObject({ text: "zipped" });
    expect(await serve(compressed("br", brotliCompressSync("brotli")))).toMatchObject({ text: "brotli" });
  });

  test.each([
    ["gzip", gzipSync(Buffer.alloc(64 * 1024 * 1024))],
    ["br", brotliCompressSync(Buffer.alloc(64 * 1024 * 1024), { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
  ])("a %s bomb is read as far as the limit after inflating", async (encoding, bomb) => {
    expect(bomb.length).toBeLessThan(100_000);
    const outcome = await serve(compressed(encoding, bomb), { limits: { bodyBytes: 100_000 } });
    expect(outcome).toMatchObject({ kind: "page", cut: true, provenance: { bytes: 100_000 } });
  });

  test.each(["gzip, gzip", "deflate", "zstd"])("the encoding %s is not read", async (encoding) => {
    expect(codeOf(await serve(compressed(encoding, Buffer.from("x"))))).toBe("unreadable");
  });

  test("a body that does not decode is an error", async () => {
    expect(codeOf(await serve(compressed("gzip", Buffer.from("no gzip"))))).toBe("unreadable");
    expect(codeOf(await serve(compressed("gzip", gzipSync("cut off").subarray(0, 15))))).toBe("unreadable");
  });

  test("a body without end is read as far as the limit, and the connection is closed", async () => {
    const closed = Promise.withResolvers<void>();
    const outcome = await serve(
      (_request, response) => {
        response.writeHead(200, { "content-type": "text/plain" });
        const write = () => {
          while (!response.destroyed && response.write("x".repeat(10_000))) {}
        };
        response.on("drain", write).once("close", closed.resolve);
        write();
      },
      { limits: { bodyBytes: 50_000 } },
    );
    expect(outcome).toMatchObject({ kind: "page", cut: true, provenance: { bytes: 50_000 } });
    await closed.promise;
  });

  test("a server that says nothing is left", async () => {
    expect(codeOf(await serve(() => {}, { limits: { idleMs: 50 } }))).toBe("timeout");
    const silent: Serve = (_request, response) => response.writeHead(200, { "content-type": "text/plain" }).write("x");
    expect(codeOf(await serve(silent, { limits: { idleMs: 50 } }))).toBe("timeout");
  });

  test("a server that says one byte now and then is left when the time for the whole is over", async () => {
    const dripping: Serve = (_request, response) => {
      response.writeHead(200, { "content-type": "text/plain" });
      const drip = setInterval(() => response.write("x"), 20);
      response.once("close", () => clearInterval(drip));
    };
    expect(codeOf(await serve(dripping, { limits: { idleMs: 5_000, totalMs: 200 } }))).toBe("timeout");
  });

  test("a name server that does not answer is left too", async () => {
    const network = networkOf([], {}, { resolve: () => new Promise(() => {}) });
    expect(codeOf(await fetchUrl("http://a.example/", network, { limits: { totalMs: 50 } }))).toBe("timeout");
  });

  test("a head without end is refused", async () => {
    const outcome = await serve((_request, response) => {
      response.writeHead(200, { "content-type": "text/plain", "x-long": "x".repeat(20_000) }).end("x");
    });
    expect(codeOf(outcome)).toBe("unreadable");
  });

  test("the caller may give up", async () => {
    const gone = new AbortController();
    const outcome = serve(() => gone.abort(), { signal: gone.signal });
    expect(codeOf(await outcome)).toBe("timeout");
  });

  test("what cannot be reached is an error", async () => {
    const network = networkOf([{ port: 1 }], { "a.example": LOOPBACK, "none.example": [] });
    expect(codeOf(await fetchUrl("http://a.example:1/", network))).toBe("unreachable");
    expect(codeOf(await fetchUrl("http://none.example/", network))).toBe("unreachable");
  });
});

describe("through a proxy", () => {
  /** A proxy that tunnels to loopback and records whereto it was asked and with which credentials. */
  async function startProxy(answer = "HTTP/1.1 200 OK\r\n\r\n") {
    const asked: string[] = [];
    const server = createServer((client) => {
      client.on("error", () => {});
      client.once("data", (head) => {
        asked.push(head.toString());
        const port = Number(/^CONNECT \S+:(\d+) /.exec(head.toString())?.[1]);
        client.write(answer);
        if (!answer.includes(" 200 ")) {
          client.end();
          return;
        }
        const upstream = connect(port, "127.0.0.1", () => client.pipe(upstream).pipe(client));
        upstream.on("error", () => client.destroy());
      });
    });
    await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
    const { port } = server.address() as { port: number };
    return { asked, url: new URL(`http://me:p%40ss@127.0.0.1:${port}`), close: () => server.close() };
  }

  test("the proxy is told the checked address, never the name, and alone gets its credentials", async () => {
    const proxy = await startProxy();
    const plain = await start(html("Plain"));
    const secure = await start(html("Secure"), PINNED_EXAMPLE);
    const names = { "a.example": LOOPBACK, "pinned.example": LOOPBACK };
    const network = networkOf([plain, secure], names, { proxy: proxy.url, ca: PINNED_EXAMPLE.cert });
    expect(await fetchUrl(`http://a.example:${plain.port}/`, network)).toMatchObject({ text: "Plain" });
    expect(await fetchUrl(`https://pinned.example:${secure.port}/`, network)).toMatchObject({
      text: "Secure",
      provenance: { address: "127.0.0.1" },
    });
    expect(proxy.asked.map((head) => head.split("\r\n")[0])).toEqual([
      `CONNECT 127.0.0.1:${plain.port} HTTP/1.1`,
      `CONNECT 127.0.0.1:${secure.port} HTTP/1.1`,
    ]);
    // base64 of me:p@ss
    expect(proxy.asked[0]).toContain("proxy-authorization: Basic bWU6cEBzcw==");
    expect([...plain.seen, ...secure.seen].filter(({ headers }) => "proxy-authorization" in headers)).toEqual([]);
    proxy.close();
  });

  test("of several checked addresses the proxy is told one of IPv4", async () => {
    const proxy = await startProxy();
    const server = await start(html("Four"));
    const network = networkOf([server], { "a.example": ["2606:4700::1", "127.0.0.1"] }, { proxy: proxy.url });
    const { mayDial } = network;
    const both = {
      ...network,
      mayDial: (address: string, port: number) => address.includes(":") || mayDial(address, port),
    };
    expect(await fetchUrl(`http://a.example:${server.port}/`, both)).toMatchObject({ text: "Four" });
    expect(proxy.asked[0]).toContain(`CONNECT 127.0.0.1:${server.port} `);
    proxy.close();
  });

  test("an address that may not be dialled is not asked of the proxy either", async () => {
    const proxy = await startProxy();
    const network = networkOf([], { "inside.example": ["10.0.0.8"] }, { proxy: proxy.url });
    expect(codeOf(await fetchUrl("http://inside.example/", network))).toBe("address_not_allowed");
    expect(proxy.asked).toEqual([]);
    proxy.close();
  });

  test("a proxy that refuses is an error", async () => {
    const proxy = await startProxy("HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n");
    const network = networkOf([{ port: 80 }], { "a.example": LOOPBACK }, { proxy: proxy.url });
    expect(codeOf(await fetchUrl("http://a.example/", network))).toBe("unreachable");
    proxy.close();
  });
});
