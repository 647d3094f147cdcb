import { createHash, randomBytes } from "node:crypto";

/** What an id names; the prefix is part of the wire contract. */
export type IdPrefix =
  | "agent"
  | "apikey"
  | "audit"
  | "ekey"
  | "env"
  | "hchk"
  | "pcall"
  | "peval"
  | "sesn"
  | "sevt"
  | "sthr"
  | "step"
  | "tent"
  | "turn"
  | "outb"
  | "work"
  | "wrkspc"
  | "req";

/** Crockford's base 32 in lower case: no look-alikes, sorts as the bytes do. */
const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz";
const LENGTH = 26;

/** 130 bits of `bytes` (17 bytes) as 26 characters. */
function base32(bytes: Uint8Array): string {
  let text = "";
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = (buffer << 8) | byte;
    bits += 8;
    while (bits >= 5 && text.length < LENGTH) {
      bits -= 5;
      text += ALPHABET[(buffer >> bits) & 31];
    }
    buffer &= (1 << bits) - 1;
  }
  return text;
}

/** A new id: 48 bits of time, then 82 random bits, so that ids made later sort later and indexes stay compact. */
export function newId(prefix: IdPrefix): string {
  const bytes = randomBytes(17);
  bytes.writeUIntBE(Date.now(), 0, 6);
  return `${prefix}_${base32(bytes)}`;
}

/** An id derived from what it names: the same parts give the same id, so that a repeat cannot add a second. */
export function derivedId(prefix: IdPrefix, ...parts: readonly (string | number)[]): string {
  const digest = createHash("sha256").update(JSON.stringify(parts)).digest();
  return `${prefix}_${base32(digest.subarray(0, 17))}`;
}

/** A secret of 256 random bits with a recognisable prefix (secret scanners look for it). */
export function newSecret(prefix: "sk-mango-api" | "sk-mango-env" | "sk-mango-ses"): string {
  return `${prefix}-${randomBytes(32).toString("base64url")}`;
}

/** What is stored of a key or token. Secrets have 256 random bits, so a plain digest needs no salt. */
export function secretDigest(secret: string): Buffer {
  return createHash("sha256").update(secret).digest();
}
