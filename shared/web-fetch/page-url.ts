import { PageError } from "./page-error.ts";

const MAX_URL_CHARS = 2048;

/**
 * Reads a URL that is to be fetched, as browsers do: the host in its one spelling (`0x7f.1` is 127.0.0.1), without its
 * fragment and without a dot at the host's end.
 *
 * @throws PageError
 */
export function parsePageUrl(text: string, base?: string): URL {
  // Browsers drop line breaks and tabs inside a URL: it would be another than the one that was read.
  if (text.length > MAX_URL_CHARS || /[\s\p{Cc}]/u.test(text) || !URL.canParse(text, base)) {
    throw new PageError("invalid_url", "The URL is malformed, or longer than 2,048 characters.");
  }
  const url = new URL(text, base);
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    throw new PageError("invalid_url", "Only http and https URLs can be fetched.");
  }
  if (url.username !== "" || url.password !== "") {
    throw new PageError("invalid_url", "A URL with a user name or a password is not fetched.");
  }
  url.hash = "";
  url.hostname = url.hostname.replace(/\.+$/, "");
  return url;
}

/** Where a URL leads: the host as it is dialled and named in a certificate, and the port. */
export function destinationOf(url: URL): { readonly host: string; readonly port: number } {
  const port = url.port === "" ? (url.protocol === "https:" ? 443 : 80) : Number(url.port);
  return { host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port };
}
