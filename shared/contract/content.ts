import { z } from "@hono/zod-openapi";

/** Content blocks of messages and tool results, in the Messages wire format. Closed unions at every level. */

/** Text of at least one character: an empty text block is refused by providers and would strand the session later. */
export const TextBlock = z.strictObject({ type: z.literal("text"), text: z.string().min(1) }).openapi("TextBlock");

const Base64Source = z.strictObject({
  type: z.literal("base64"),
  media_type: z.string().min(1),
  data: z.base64(),
});
const UrlSource = z.strictObject({ type: z.literal("url"), url: z.url({ protocol: /^https?$/ }).max(2048) });
const TextSource = z.strictObject({ type: z.literal("text"), media_type: z.literal("text/plain"), data: z.string() });
const FileSource = z.strictObject({ type: z.literal("file"), file_id: z.string() }).refine(() => false, {
  message: "file sources are not supported by this server yet",
  params: { unsupported: "file sources" },
});

export const ImageBlock = z
  .strictObject({
    type: z.literal("image"),
    source: z.discriminatedUnion("type", [
      Base64Source.extend({ media_type: z.enum(["image/jpeg", "image/png", "image/gif", "image/webp"]) }),
      UrlSource,
      FileSource,
    ]),
  })
  .openapi("ImageBlock");

export const DocumentBlock = z
  .strictObject({
    type: z.literal("document"),
    source: z.discriminatedUnion("type", [Base64Source, TextSource, UrlSource, FileSource]),
    title: z.string().nullish(),
    context: z.string().nullish(),
  })
  .openapi("DocumentBlock");

export const SearchResultBlock = z
  .strictObject({
    type: z.literal("search_result"),
    source: z.string().min(1),
    title: z.string().min(1),
    content: z.array(TextBlock).min(1),
    citations: z.strictObject({ enabled: z.boolean() }).optional(),
  })
  .openapi("SearchResultBlock");

/** What a person may send. */
export const MessageContent = z
  .array(z.discriminatedUnion("type", [TextBlock, ImageBlock, DocumentBlock]))
  .min(1)
  .max(1000);

/** What a tool may answer. */
export const ResultContent = z
  .array(z.discriminatedUnion("type", [TextBlock, ImageBlock, DocumentBlock, SearchResultBlock]))
  .max(1000);

export type TextBlock = z.infer<typeof TextBlock>;
export type ResultContent = z.infer<typeof ResultContent>;
