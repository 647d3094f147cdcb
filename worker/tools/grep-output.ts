export const OUTPUT_LIMIT = 102_400;
export const TIME_LIMIT_MS = 60_000;

/** Collects what a search finds, up to the limit. */
export class GrepOutput {
  #text = "";
  #full = false;

  /** False once the output is full. */
  add(text: string): boolean {
    if (this.#full) return false;
    this.#text += text;
    if (this.#text.length > OUTPUT_LIMIT) {
      this.#text = this.#text.slice(0, OUTPUT_LIMIT);
      this.#full = true;
    }
    return !this.#full;
  }

  get empty(): boolean {
    return this.#text === "";
  }

  get full(): boolean {
    return this.#full;
  }

  toString(): string {
    if (this.#full) return `${this.#text}\n[output truncated at ${OUTPUT_LIMIT} bytes]`;
    return this.#text === "" ? "no matches" : this.#text.replace(/\n$/, "");
  }

  /** What was found before the time was up. */
  cutShort(): string {
    return `${this.#text}[the search was cut short after ${TIME_LIMIT_MS} ms]`;
  }
}
