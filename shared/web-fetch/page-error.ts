import { z } from "zod";

/** Why a page was not fetched. The code is for programs, the message for the model: neither holds an address. */
export const PageErrorCode = z.enum([
  "invalid_url",
  "url_not_allowed",
  "address_not_allowed",
  "unreachable",
  "timeout",
  "too_many_redirects",
  "http_error",
  "unsupported_media_type",
  "unreadable",
]);
export type PageErrorCode = z.infer<typeof PageErrorCode>;

export class PageError extends Error {
  override readonly name = "PageError";
  readonly code: PageErrorCode;

  constructor(code: PageErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
