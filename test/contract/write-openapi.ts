import { writeFile } from "node:fs/promises";
import { documentOfSource } from "./document.ts";

/** `npm run openapi`: writes docs/openapi.json anew after a change of the contract. */
await writeFile(new URL("../../docs/openapi.json", import.meta.url), documentOfSource());
process.stdout.write("docs/openapi.json is written.\n");
