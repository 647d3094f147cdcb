import { afterAll, beforeAll, describe, expect } from "vitest";
import { calls, type ScriptedServer, says, startScriptedServer, toolUse } from "../e2e/scripted-model.ts";
import { type Api, apiOf, type Body, expectRefused } from "./api.ts";
import { customTool, isIdle, list, message, newSession, ofType, post, send, text, until } from "./driver.ts";
import { verifies } from "./verifies.ts";

let scripted: ScriptedServer;
let api: Api;
let session: Body;
beforeAll(async () => {
  scripted = await startScriptedServer();
  await scripted.script();
  api = apiOf(scripted.server);
  session = await newSession(api, scripted.server.environmentId);
});
afterAll(() => scripted.close());

const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const image = (source: object, more: object = {}) => ({ type: "image", source, ...more });
const document = (source: object, more: object = {}) => ({ type: "document", source, ...more });
const base64Image = { type: "base64", media_type: "image/png", data: PIXEL };
const plain = { type: "text", media_type: "text/plain", data: "The text." };
const url = { type: "url", url: "https://a.example/x" };
const search = (more: object = {}) => ({
  type: "search_result",
  source: "https://a.example/x",
  title: "A result",
  content: [text("It says so.")],
  citations: { enabled: true },
  ...more,
});

const refused = (content: unknown, status = 400, names: string | RegExp = "content") =>
  expectRefused(scripted.server, () => post(api, session, { type: "user.message", content }), status, names);

describe("user.message", () => {
  const accepted = [
    [text("plain")],
    [text("two"), text("texts")],
    [image(base64Image), text("look")],
    [image(url)],
    [document(plain)],
    [document(plain, { title: "T", context: "C" }), text("read")],
    [document(plain, { title: null, context: null })],
    [document({ type: "base64", media_type: "application/pdf", data: "JVBERi0xLjQK" })],
    [document(url)],
  ];
  for (const content of accepted) {
    verifies("events:content:user-message", JSON.stringify(content).slice(0, 70), async () => {
      const own = await newSession(api, scripted.server.environmentId);
      const [stored] = await send(api, own, { type: "user.message", content });
      expect(stored?.["content"]).toEqual(content);
      expect(ofType(await list(api, own), "user.message")[0]?.["content"]).toEqual(content);
      await until(api, own, isIdle());
    });
  }

  for (const block of [
    { type: "redacted" },
    { type: "redacted", data: "x" },
    search(),
    { type: "tool_use", id: "x", name: "bash", input: {} },
    { type: "tool_result", tool_use_id: "x", content: [] },
    { type: "thinking", thinking: "x", signature: "y" },
    { type: "video", source: url },
    { text: "no type" },
    "a string",
    null,
    [],
  ]) {
    verifies("events:content:user-message-closed", JSON.stringify(block).slice(0, 50), async () => {
      await refused([text("fine"), block]);
    });
  }

  for (const content of [
    [],
    undefined,
    null,
    "a string",
    {},
    [text("")],
    [text("fine"), text("")],
    [{ type: "text" }],
    [text(null as never)],
    [text(7 as never)],
  ]) {
    verifies("events:content:empty", JSON.stringify(content) ?? "no content", async () => {
      await refused(content);
    });
  }

  for (const [title, block] of [
    ["image: no source", { type: "image" }],
    ["image: another source", image({ type: "path", path: "/x" })],
    ["image: base64 without data", image({ type: "base64", media_type: "image/png" })],
    ["image: base64 without a media type", image({ type: "base64", data: PIXEL })],
    ["image: a media type that is no image", image({ ...base64Image, media_type: "text/html" })],
    ["image: url without url", image({ type: "url" })],
    ["image: a url that is none", image({ type: "url", url: "not a url" })],
    ["image: the text source of documents", image(plain)],
    ["document: no source", { type: "document" }],
    ["document: another source", document({ type: "content", content: [] })],
    ["document: text of another media type", document({ ...plain, media_type: "text/html" })],
    ["document: text without data", document({ type: "text", media_type: "text/plain" })],
    ["document: a title that is no text", document(plain, { title: 7 })],
  ] as const) {
    verifies("events:content:sources", title, async () => {
      await refused([block]);
    });
  }

  for (const [field, block] of [
    ["cache_control", { ...text("x"), cache_control: { type: "ephemeral" } }],
    ["citations", { ...text("x"), citations: [] }],
    ["alt", image(base64Image, { alt: "x" })],
    ["detail", image({ ...base64Image, detail: "high" })],
    ["headers", image({ ...url, headers: {} })],
    ["citations", document(plain, { citations: { enabled: true } })],
    ["encoding", document({ ...plain, encoding: "utf-8" })],
  ] as const) {
    verifies("events:content:unknown-fields", `${block.type}: ${field}`, async () => {
      await refused([block], 400, field);
    });
  }

  for (const block of [image({ type: "file", file_id: "file_1" }), document({ type: "file", file_id: "file_1" })]) {
    verifies("events:content:file", block.type, async () => {
      await refused([block], 422, /file/i);
    });
  }
});

describe("results", () => {
  /** A session that waits for its application's lookup. */
  const waiting = async () => {
    await scripted.script(calls(toolUse("toolu_1", "lookup", {})), says("Done."));
    const own = await newSession(api, scripted.server.environmentId, { agent: { tools: [customTool("lookup")] } });
    await send(api, own, message("look"));
    const events = await until(api, own, isIdle("requires_action"));
    const use = ofType(events, "agent.custom_tool_use")[0]?.id;
    const result = (more: object) => ({ type: "user.custom_tool_result", custom_tool_use_id: use, ...more });
    return { own, result };
  };

  for (const content of [
    [text("found")],
    [search(), text("and")],
    [search({ citations: { enabled: false } })],
    [image(base64Image), document(plain, { title: "T" })],
    [],
  ]) {
    verifies("events:content:result", JSON.stringify(content).slice(0, 60), async () => {
      const { own, result } = await waiting();
      const [stored] = await send(api, own, result({ content }));
      expect(stored?.["content"]).toEqual(content);
      await until(api, own, isIdle("end_turn"));
    });
  }
  for (const more of [{}, { is_error: null }, { is_error: true }, { content: null }]) {
    verifies("events:content:result", `none: ${JSON.stringify(more)}`, async () => {
      const { own, result } = await waiting();
      const [stored] = await send(api, own, result(more));
      expect(stored).toMatchObject({ type: "user.custom_tool_result" });
      await until(api, own, isIdle("end_turn"));
    });
  }

  verifies("events:content:result", "refused", async () => {
    const { own, result } = await waiting();
    const nested = { ...search(), content: [image(base64Image)] };
    for (const [title, more] of [
      ["a string", { content: "x" }],
      ["an empty text", { content: [text("")] }],
      ["a tool block", { content: [{ type: "tool_use", id: "x", name: "y", input: {} }] }],
      ["no source", { content: [search({ source: undefined })] }],
      ["no title", { content: [search({ title: undefined })] }],
      ["no content", { content: [search({ content: undefined })] }],
      ["an empty text in it", { content: [search({ content: [text("")] })] }],
      ["an image in it", { content: [nested] }],
      ["an unknown field in it", { content: [search({ url: "x" })] }],
      ["an unknown field in its text", { content: [search({ content: [{ ...text("x"), id: 1 }] })] }],
      ["an unknown field in its citations", { content: [search({ citations: { enabled: true, x: 1 } })] }],
      ["is_error that is no boolean", { is_error: "yes" }],
      ["an unknown field", { name: "lookup" }],
    ] as const) {
      const answer = await expectRefused(scripted.server, () => post(api, own, result(more)), 400);
      expect([title, answer.body.error.message]).toEqual([
        title,
        expect.stringMatching(/events\[0\]|content|is_error|name/),
      ]);
    }
    await send(api, own, result({ content: [text("found")] }));
    await until(api, own, isIdle("end_turn"));
  });
});
