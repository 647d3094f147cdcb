import { cp, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { type BuildOptions, build, type Plugin } from "esbuild";

/**
 * Everything that ships, built into `dist/`: a folder a function, and the worker's command. CDK takes the folders as
 * they are, so that a deployment is what `npm run build` has built and the tests have loaded.
 */

const project = path.resolve(import.meta.dirname, "..");

/** The Lambda functions by the name of their file in `functions/`. */
export const FUNCTIONS = [
  "api",
  "await-actions",
  "backoff",
  "call-model",
  "complete-turn",
  "fail-turn",
  "fetch-page",
  "gate-tools",
  "hand-over",
  "hibernate",
  "migrate",
  "operator",
  "relay",
  "run-tool",
  "stream",
] as const;

export type FunctionName = (typeof FUNCTIONS)[number];

export interface Bundle {
  /** The folder in `dist/`. */
  readonly name: string;
  readonly bytes: number;
}

/** Builds all of it into `directory`, which is emptied before, and tells how large each program is. */
export async function buildBundles(directory = path.join(project, "dist")): Promise<Bundle[]> {
  await rm(directory, { recursive: true, force: true });
  await Promise.all([
    build({
      ...common,
      entryPoints: Object.fromEntries(FUNCTIONS.map((name) => [`${name}/index`, `functions/${name}.lambda.ts`])),
      outdir: directory,
      // Loads in two thirds of the time that modules take, and pg is CommonJS anyway.
      format: "cjs",
      define: { "import.meta.url": "importMetaUrl" },
      banner: { js: 'const importMetaUrl = require("node:url").pathToFileURL(__filename).href;' },
    }),
    build({
      ...common,
      entryPoints: {
        "worker/index": "worker/main.ts",
        "worker/grep-walk": "worker/tools/grep-walk.ts",
        "worker/file-tools": "worker/tools/file-tools-main.ts",
      },
      outdir: directory,
      // It awaits at the top, which only a module may.
      format: "esm",
      keepNames: true,
      banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
    }),
  ]);
  await cp(path.join(project, "worker/sandbox/etc"), path.join(directory, "worker/etc"), { recursive: true });
  await cp(path.join(project, "shared/db/migrations"), path.join(directory, "migrate/migrations"), { recursive: true });
  return Promise.all(
    [...FUNCTIONS, "worker"].map(async (name) => {
      // The project's own package.json says that a .js file is a module.
      const type = name === "worker" ? "module" : "commonjs";
      await writeFile(path.join(directory, name, "package.json"), `{ "type": "${type}" }\n`);
      return { name, bytes: (await stat(path.join(directory, name, "index.js"))).size };
    }),
  );
}

/** Parts of packages that no program of ours reaches, and that a bundler cannot know to be out of reach. */
const UNREACHED: readonly { readonly file: RegExp; readonly contents: string | ((source: string) => string) }[] = [
  // zod's messages in fifty languages; English is loaded by itself. 230 KB.
  { file: /\/zod\/v4\/locales\/index\.js$/, contents: "export {};" },
  // For migrations in TypeScript; ours are SQL. 180 KB.
  {
    file: /\/jiti\/lib\/jiti\.mjs$/,
    contents: 'export const createJiti = () => ({ import: () => Promise.reject(new Error("Only .sql is bundled.")) });',
  },
  // Where credentials come from on other machines: files, single sign-on, containers. Lambda has them in variables. 100 KB.
  {
    file: /\/(@aws-sdk\/(credential-provider-(sso|ini|process|web-identity|login|http)|nested-clients|token-providers)|@smithy\/credential-provider-imds)\/.*\.js$/,
    contents: "module.exports = {};",
  },
];

const without: Plugin = {
  name: "without",
  setup({ onLoad }) {
    for (const { file, contents } of UNREACHED) {
      onLoad({ filter: file }, async ({ path: found }) => ({
        contents: typeof contents === "string" ? contents : contents(await readFile(found, "utf8")),
        resolveDir: path.dirname(found),
      }));
    }
  },
};

/** A thread is started by the name of its file, which has another ending here. */
const threads: Plugin = {
  name: "threads",
  setup({ onLoad }) {
    onLoad({ filter: /\/worker\/.*-thread\.ts$/ }, async ({ path: found }) => ({
      contents: (await readFile(found, "utf8")).replace(/new URL\("(\.\/[\w-]+)\.ts"/, 'new URL("$1.js"'),
      loader: "ts",
    }));
  },
};

const common: BuildOptions = {
  absWorkingDir: project,
  bundle: true,
  platform: "node",
  target: "node24",
  // jsonc-parser's `main` is UMD, which esbuild cannot follow.
  mainFields: ["module", "main"],
  minify: true,
  sourcemap: true,
  sourcesContent: false,
  legalComments: "none",
  logLevel: "warning",
  plugins: [without, threads],
};
