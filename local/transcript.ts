import type { WriteStream } from "node:tty";

/** A session as a terminal transcript: who said what, which tools ran, text as it arrives. */
export class Transcript {
  readonly #out: WriteStream | NodeJS.WriteStream;
  readonly #started = performance.now();
  /** Characters of the current message that the previews have shown already. */
  #streamed = 0;

  constructor(out: WriteStream | NodeJS.WriteStream) {
    this.#out = out;
  }

  #paint(code: number, text: string): string {
    return this.#out.isTTY ? `\u001b[${code}m${text}\u001b[0m` : text;
  }

  #line(text = ""): void {
    this.#out.write(`${text}\n`);
  }

  opening(facts: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(facts)) {
      this.#line(this.#paint(2, `${name.padEnd(10)} ${value}`));
    }
  }

  user(text: string): void {
    this.#line(`\n${this.#paint(1, "you")}    ${text}`);
  }

  show(event: { readonly type: string }): void {
    const fields = event as Readonly<Record<string, unknown>>;
    switch (event.type) {
      case "event_start":
        this.#streamed = 0;
        this.#out.write(`\n${this.#paint(1, "agent")}  `);
        return;
      case "event_delta": {
        const text = (fields["delta"] as { content?: { text?: string } } | undefined)?.content?.text ?? "";
        this.#streamed += text.length;
        this.#out.write(text);
        return;
      }
      case "agent.message": {
        const text = textOf(fields["content"]);
        this.#line(this.#streamed > 0 ? text.slice(this.#streamed) : `\n${this.#paint(1, "agent")}  ${text}`);
        this.#streamed = 0;
        return;
      }
      case "agent.tool_use": {
        const asks = fields["evaluated_permission"] === "ask" ? this.#paint(33, "  waits for approval") : "";
        this.#line(this.#paint(36, `  → ${String(fields["name"])} ${JSON.stringify(fields["input"])}`) + asks);
        return;
      }
      case "user.tool_result":
      case "agent.tool_result": {
        const lines = textOf(fields["content"]).split("\n");
        const more = lines.length > 3 ? this.#paint(2, `\n    … ${lines.length - 3} more lines`) : "";
        this.#line(
          this.#paint(
            fields["is_error"] === true ? 31 : 2,
            lines
              .slice(0, 3)
              .map((line) => `    ${line}`)
              .join("\n"),
          ) + more,
        );
        return;
      }
      case "session.error":
        this.#line(this.#paint(31, `  ${(fields["error"] as { message?: string } | undefined)?.message ?? "error"}`));
    }
  }

  approval(allowed: boolean, automatic: boolean): void {
    this.#line(this.#paint(allowed ? 32 : 31, `  ${allowed ? "approved" : "denied"}${automatic ? " (--yes)" : ""}`));
  }

  closing(reason: string): void {
    this.#line(this.#paint(2, `\nidle: ${reason}, ${((performance.now() - this.#started) / 1000).toFixed(1)} s`));
  }
}

function textOf(content: unknown): string {
  return Array.isArray(content) ? content.map((block: { text?: string }) => block.text ?? "").join("") : "";
}
