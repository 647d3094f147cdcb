import { describe, expect, test } from "vitest";
import { decodeText, readMediaType } from "./media-type.ts";
import { PageError } from "./page-error.ts";

describe("media types", () => {
  test.each([
    ["text/html; charset=UTF-8", { essence: "text/html", isHtml: true, charset: "UTF-8" }],
    ["Text/Plain", { essence: "text/plain", isHtml: false, charset: null }],
    ["application/xhtml+xml", { essence: "application/xhtml+xml", isHtml: true, charset: null }],
    ["application/vnd.api+json", { essence: "application/vnd.api+json", isHtml: false, charset: null }],
  ])("%s is read", (header, expected) => {
    expect(readMediaType(header)).toEqual(expected);
  });

  test.each([undefined, "", "nonsense", "image/png", "application/pdf", "application/octet-stream", "video/mp4"])(
    "%s is not",
    (header) => {
      expect(() => readMediaType(header)).toThrow(PageError);
    },
  );
});

describe("character sets", () => {
  const bytes = (...values: number[]) => Buffer.from(values);
  const html = (charset: string | null = null) => ({ essence: "text/html", isHtml: true, charset });
  const plain = (charset: string | null = null) => ({ essence: "text/plain", isHtml: false, charset });

  test("are UTF-8 when nobody says anything", () => {
    expect(decodeText(Buffer.from("é☕"), plain())).toBe("é☕");
  });
  test("are the header's", () => {
    expect(decodeText(bytes(0xe9, 0x80), plain("windows-1252"))).toBe("é€");
    expect(decodeText(bytes(0x93, 0xfa), plain("shift_jis"))).toBe("日");
  });
  test("are the page's own when the header is silent", () => {
    const page = (head: string) => Buffer.concat([Buffer.from(head), bytes(0xe9)]);
    expect(decodeText(page('<meta charset="iso-8859-1">'), html())).toBe('<meta charset="iso-8859-1">é');
    expect(decodeText(page("<meta http-equiv=x content='text/html; charset=latin1'>"), html())).toContain("é");
    expect(decodeText(page('<?xml version="1.0" encoding="iso-8859-1"?>'), plain())).toContain("é");
    expect(decodeText(page("<meta charset=latin1>"), plain())).toContain("\ufffd");
  });
  test("are the byte order mark's before all else", () => {
    expect(decodeText(bytes(0xff, 0xfe, 0x41, 0x00), plain("latin1"))).toBe("A");
    expect(decodeText(bytes(0xef, 0xbb, 0xbf, 0x41), plain("utf-16le"))).toBe("A");
  });
  test("that nobody knows are read as UTF-8, and a NUL is none", () => {
    expect(decodeText(Buffer.from("é\u0000"), plain("klingon"))).toBe("é\ufffd");
  });
});
