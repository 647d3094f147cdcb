import type { WorkerTool } from "../contract/tools.ts";

/** Version of the declarations below: pinned with each session, recorded with each transcript entry. */
export const TOOL_VERSION = "agent_toolset_20260401";

/** What the model is told of the six tools that run on the worker. Names and inputs are the wire contract's. */
export const BUILTIN_DECLARATIONS: Readonly<Record<WorkerTool, object>> = {
  bash: {
    name: "bash",
    description:
      "Runs a command in a persistent bash session in the workspace. Output is stdout and stderr together; the last 102,400 characters are kept. Set restart to begin a fresh session.",
    input_schema: {
      type: "object",
      properties: {
        command: { type: "string", description: "The command to run." },
        restart: { type: "boolean", description: "Discards the session and starts a new one." },
        timeout_ms: {
          type: "integer",
          description: "Ends the command after this many milliseconds; 120000 by default.",
        },
      },
    },
  },
  read: {
    name: "read",
    description: "Reads a UTF-8 text file of at most 256 KiB, or a range of its lines.",
    input_schema: {
      type: "object",
      properties: {
        file_path: {
          type: "string",
          description: "Path of the file, relative to the workspace or absolute within it.",
        },
        view_range: {
          type: "array",
          items: { type: "integer" },
          minItems: 2,
          maxItems: 2,
          description: "First and last line, counted from 1, both included; a last line of 0 or less means the end.",
        },
      },
      required: ["file_path"],
    },
  },
  write: {
    name: "write",
    description: "Writes a file, replacing what was there; missing folders are made.",
    input_schema: {
      type: "object",
      properties: {
        file_path: { type: "string", description: "Path of the file." },
        content: { type: "string", description: "The whole content." },
      },
      required: ["file_path", "content"],
    },
  },
  edit: {
    name: "edit",
    description: "Replaces text in a file. old_string must occur exactly once, unless replace_all is set.",
    input_schema: {
      type: "object",
      properties: {
        file_path: { type: "string", description: "Path of the file." },
        old_string: { type: "string", description: "The text to replace." },
        new_string: { type: "string", description: "What to put in its place." },
        replace_all: { type: "boolean", description: "Replaces every occurrence." },
      },
      required: ["file_path", "old_string", "new_string"],
    },
  },
  glob: {
    name: "glob",
    description: "Lists the files that match a pattern such as **/*.ts, newest first, at most 200.",
    input_schema: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "A relative glob pattern." },
        path: { type: "string", description: "The folder to search; the workspace by default." },
      },
      required: ["pattern"],
    },
  },
  grep: {
    name: "grep",
    description: "Searches the contents of files for a regular expression; answers with path, line number and line.",
    input_schema: {
      type: "object",
      properties: {
        pattern: { type: "string", description: "A regular expression." },
        path: { type: "string", description: "The file or folder to search; the workspace by default." },
      },
      required: ["pattern"],
    },
  },
};

/** What the model is told of web_fetch where the server itself runs it. */
export const WEB_FETCH_DECLARATION = {
  name: "web_fetch",
  description:
    "Fetches a page over http or https and answers with its text; links keep their addresses. Only a URL that has appeared in the conversation, in a person's message or in a tool's result, can be fetched: give it exactly as it stands there.",
  input_schema: {
    type: "object",
    properties: { url: { type: "string", description: "The complete URL, with http:// or https://." } },
    required: ["url"],
  },
};
