/** What a model reads of an HTML page. */
import { Parser } from "htmlparser2";

/** Deeper than any page that people read; a parser's work on an unclosed element grows with the depth it stands at. */
const MAX_DEPTH = 512;

/** Elements whose content nobody reads. */
const UNREAD = new Set(["script", "style", "noscript", "template", "svg", "math", "iframe", "object", "head"]);

/** Elements that stand on lines of their own; the number is of line breaks before and after. */
const BLOCKS: Readonly<Record<string, 1 | 2>> = {
  ...lines(1, "br", "li", "tr", "dt", "dd", "div", "option", "header", "footer", "nav", "form", "legend", "caption"),
  ...lines(2, "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "pre", "blockquote", "hr", "section"),
  ...lines(2, "article", "main", "aside", "figure", "details", "fieldset"),
};

function lines<Count extends 1 | 2>(count: Count, ...names: readonly string[]): Record<string, Count> {
  return Object.fromEntries(names.map((name) => [name, count]));
}

/**
 * The text of an HTML document, in one pass and in time linear in its length, whatever the document is. Headings and list
 * items are marked as in Markdown; a link is followed by its absolute address, so that it can be fetched in its turn.
 * `cut`: the elements are nested deeper than any that people read, and the text ends there.
 */
export function htmlText(html: string, baseUrl: string): { readonly text: string; readonly cut: boolean } {
  const page = new PageText(baseUrl);
  const parser = new Parser({
    onopentag: (name, attributes) => {
      page.open(name, attributes);
      if (page.depth > MAX_DEPTH) {
        parser.pause();
      }
    },
    onclosetag: (name) => page.close(name),
    ontext: (text) => page.text(text),
  });
  parser.end(html);
  return { text: page.finish(), cut: page.depth > MAX_DEPTH };
}

class PageText {
  depth = 0;
  readonly #baseUrl: string;
  readonly #pieces: string[] = [];
  /** Line breaks, or else a space, that stand between what was written and what comes. */
  #breaks = 0;
  #space = false;
  /** A mark was written last: what it marks follows at once. */
  #marked = false;
  #unread = 0;
  #preformatted = 0;
  readonly #links: (string | null)[] = [];

  constructor(baseUrl: string) {
    this.#baseUrl = baseUrl;
  }

  open(name: string, attributes: Readonly<Record<string, string>>): void {
    this.depth += 1;
    this.#breaks = Math.max(this.#breaks, BLOCKS[name] ?? 0);
    if (UNREAD.has(name)) {
      this.#unread += 1;
    } else if (name === "pre") {
      this.#preformatted += 1;
    } else if (name === "a") {
      this.#links.push(absolute(attributes["href"], this.#baseUrl));
    } else if (name === "td" || name === "th") {
      this.#write("| ", true);
    } else if (name === "li") {
      this.#write("- ", true);
    } else if (/^h[1-6]$/.test(name)) {
      this.#write(`${"#".repeat(Number(name[1]))} `, true);
    }
  }

  close(name: string): void {
    this.depth -= 1;
    if (UNREAD.has(name)) {
      this.#unread -= 1;
    } else if (name === "pre") {
      this.#preformatted -= 1;
    } else if (name === "a") {
      const address = this.#links.pop() ?? null;
      if (address !== null) {
        this.#space = true;
        this.#write(`(${address})`);
      }
    } else if (name === "td" || name === "th") {
      this.#space = true;
    }
    this.#breaks = Math.max(this.#breaks, BLOCKS[name] ?? 0);
  }

  text(text: string): void {
    if (this.#preformatted > 0) {
      this.#write(text);
      return;
    }
    const words = text.replace(/\s+/g, " ");
    this.#space ||= words.startsWith(" ");
    const trimmed = words.trim();
    if (trimmed !== "") {
      this.#write(trimmed);
      this.#space = words.endsWith(" ");
    }
  }

  finish(): string {
    return this.#pieces.join("");
  }

  #write(text: string, mark = false): void {
    if (this.#unread > 0 || text === "") {
      return;
    }
    if (this.#pieces.length > 0 && !this.#marked) {
      this.#pieces.push(this.#breaks > 0 ? "\n".repeat(this.#breaks) : this.#space ? " " : "");
    }
    this.#breaks = 0;
    this.#space = false;
    this.#marked = mark;
    this.#pieces.push(text);
  }
}

/** Null for an address that cannot be fetched, and for one within the page. */
function absolute(href: string | undefined, baseUrl: string): string | null {
  if (href === undefined || href.startsWith("#") || !URL.canParse(href, baseUrl)) {
    return null;
  }
  const url = new URL(href, baseUrl);
  return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
}
