import { describe, expect, it } from "vitest";
import { sessionsToken } from "./work-secret.ts";

describe("sessionsToken", () => {
  it("reads the token with and without padding", () => {
    // {"sessions_token":"tok?>"}
    expect(sessionsToken("eyJzZXNzaW9uc190b2tlbiI6InRvaz8-In0")).toBe("tok?>");
    expect(sessionsToken("eyJzZXNzaW9uc190b2tlbiI6InRvaz8-In0=")).toBe("tok?>");
  });

  it.each([
    [null],
    [undefined],
    [""],
    ["not base64 of json"],
    [Buffer.from("{}").toString("base64url")],
    [Buffer.from('{"sessions_token":""}').toString("base64url")],
    [Buffer.from('{"sessions_token":5}').toString("base64url")],
    [Buffer.from("null").toString("base64url")],
  ])("finds none in %j", (secret) => {
    expect(sessionsToken(secret)).toBe(null);
  });
});
