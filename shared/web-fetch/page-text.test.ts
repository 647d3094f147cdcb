import { describe, expect, test } from "vitest";
import { htmlText } from "./page-text.ts";

const text = (html: string) => htmlText(html, "https://a.example/docs/page").text;

describe("the text of a page", () => {
  test.each([
    ["<p>One\n two</p><p>Three</p>", "One two\n\nThree"],
    ["a<br>b<div>c</div>d", "a\nb\nc\nd"],
    ["<h1>Top</h1>x<h3>Sub</h3>", "# Top\n\nx\n\n### Sub"],
    ["<ul><li>one<li><p>two</p></ul>after", "- one\n- two\n\nafter"],
    ["<table><tr><th>A<th>B<tr><td>1<td>2</table>", "| A | B\n| 1 | 2"],
    ["<pre>  x\n    y</pre>z", "  x\n    y\n\nz"],
    ["<p>R&amp;D &lt;now&gt; caf&eacute;</p>", "R&D <now> café"],
    ["<b>bold</b><i>face</i>, then", "boldface, then"],
    ["<head><title>T</title></head><style>x</style><script>y</script><noscript>n</noscript>z", "z"],
    ["<svg><text>no</text></svg><template><p>no</p></template>yes", "yes"],
    ["no <b>end", "no end"],
    ["", ""],
  ])("%j", (html, expected) => {
    expect(text(html)).toBe(expected);
  });

  test("gives links their absolute addresses, and only those that can be fetched", () => {
    expect(text('<a href="../x?a=1&amp;b=2">up</a>, <a href="//b.example">other</a>')).toBe(
      "up (https://a.example/x?a=1&b=2), other (https://b.example/)",
    );
    expect(
      text('<a href="#top">top</a> <a href="javascript:x()">js</a> <a href="mailto:a@b">mail</a> <a>none</a>'),
    ).toBe("top js mail none");
  });

  test("ends where elements are nested deeper than in any page that people read", () => {
    expect(htmlText(`start${"<i>".repeat(511)}in`, "https://a.example/")).toEqual({ text: "startin", cut: false });
    const deep = htmlText(`start${"<i>".repeat(100_000)}lost`, "https://a.example/");
    expect(deep).toEqual({ text: "start", cut: true });
  });
});
