import { describe, expect, test } from "vitest";
import { PageError } from "./page-error.ts";
import { destinationOf, parsePageUrl } from "./page-url.ts";

describe("a URL that is to be fetched", () => {
  test.each([
    ["https://a.example", "https://a.example/"],
    ["HTTPS://A.Example:443/x?y#z", "https://a.example/x?y"],
    ["http://a.example:80/./b/../c", "http://a.example/c"],
    ["http://0x7f.1/", "http://127.0.0.1/"],
    ["http://2130706433/", "http://127.0.0.1/"],
    ["http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/"],
    ["http://127。0。0。1/", "http://127.0.0.1/"],
    ["https://a.example./", "https://a.example/"],
    ["https://bücher.example/", "https://xn--bcher-kva.example/"],
    ["https://a.example\\@b.example/", "https://a.example/@b.example/"],
  ])("%s is %s", (text, href) => {
    expect(parsePageUrl(text).href).toBe(href);
  });

  test.each([
    "",
    "a.example",
    "//a.example/",
    "ftp://a.example/",
    "file:///etc/passwd",
    "data:text/html,x",
    "javascript:alert(1)",
    "gopher://a.example/",
    "https://user@a.example/",
    "https://user:secret@a.example/",
    "https://:secret@a.example/",
    "https://a.exa\nmple/",
    "https://a.example/\u0000",
    " https://a.example/",
    "https://",
    `https://a.example/${"x".repeat(2048)}`,
  ])("%j is refused", (text) => {
    expect(() => parsePageUrl(text)).toThrow(PageError);
  });

  test("leads to a host and a port", () => {
    expect(destinationOf(new URL("https://a.example/"))).toEqual({ host: "a.example", port: 443 });
    expect(destinationOf(new URL("http://[::1]:8080/"))).toEqual({ host: "::1", port: 8080 });
    expect(destinationOf(new URL("http://a.example/"))).toEqual({ host: "a.example", port: 80 });
  });
});
