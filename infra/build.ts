/** `npm run build`: everything that ships, and how large it is. */
import { buildBundles } from "./bundles.ts";

const bundles = await buildBundles();
for (const { name, bytes } of bundles) {
  console.log(`dist/${name.padEnd(16)}${String(Math.ceil(bytes / 1024)).padStart(6)} KB`);
}
