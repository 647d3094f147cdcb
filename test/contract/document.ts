import { createApp } from "../../shared/http/app.ts";
import { openApiDocument } from "../../shared/http/openapi-document.ts";
import type { Product } from "../../shared/product.ts";

/** The document of the app as it is in the source. Nothing is called, so the app needs no product. */
export function documentOfSource(): string {
  return openApiDocument(createApp({} as Product, { streamLifeMs: null }));
}
