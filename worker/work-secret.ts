import { z } from "zod";

const Payload = z.object({ sessions_token: z.string().min(1) });

/**
 * The token inside a work item's `secret`: URL-safe base64 (padding optional) of JSON. Null when there is none or it
 * cannot be read; the item's calls then ride on the environment key.
 */
export function sessionsToken(secret: string | null | undefined): string | null {
  if (!secret) return null;
  try {
    return Payload.parse(JSON.parse(Buffer.from(secret, "base64url").toString("utf8"))).sessions_token;
  } catch {
    return null;
  }
}
