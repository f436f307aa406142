// The servers of the scenario, and for each a phrase book: how a step is said to this server.
// Where a server cannot do a step, a string in its place says why, and the step is skipped with it.

import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import { gunzipSync } from "node:zlib";
import { startHubServer } from "../fixtures/hub-server.mjs";
import { startEverything, startPython, withoutPython } from "./processes.mjs";
import { textOf } from "./sdk.mjs";

const MIB = 1024 * 1024;
const tool = (name, args = {}) => ({ name, arguments: args });
const digest = (text) => createHash("sha256").update(text).digest("hex");

/** The URL of a server that gives these bytes to the first who asks, and ends. */
async function serveOnce(bytes) {
  const host = http.createServer((_req, res) => {
    res.end(bytes);
    host.close();
  });
  host.keepAliveTimeout = 1;
  await new Promise((resolve) => host.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${host.address().port}/`;
}

/** What "everything" says on either transport. */
const everything = {
  tool: "get-sum",
  echo: (text) => [tool("echo", { message: text }), `Echo: ${text}`],
  resource: ["demo://resource/dynamic/text/1", /^Resource 1/],
  prompt: [tool("args-prompt", { city: "Rome" }), /weather in Rome/],
  slow: (seconds, steps) => tool("trigger-long-running-operation", { duration: seconds, steps }),
  log: [tool("toggle-simulated-logging"), /level.message/i],
  sample: [tool("trigger-sampling-request", { prompt: "why?", maxTokens: 5 }), /re: .*why\?/],
  elicit: [tool("trigger-elicitation-request"), /Name: Ada/],
  change: [tool("gzip-file-as-resource", { name: "new.gz", data: "data:text/plain,hi" }), "resources", "new.gz"],
  cancellations: "this server does not tell which calls were cancelled",
  /** The server fetches random bytes from us and returns them zipped, in base64. */
  async bigAnswer(client) {
    const bytes = randomBytes(7 * MIB);
    const data = await serveOnce(bytes);
    const result = await client.callTool(
      tool("gzip-file-as-resource", { name: "big.gz", data, outputType: "resource" }),
    );
    const { blob } = result.content[0].resource;
    assert.ok(gunzipSync(Buffer.from(blob, "base64")).equals(bytes));
    return blob.length;
  },
  answerBytes: 9 * MIB,
  bigRequest: (text) => [tool("echo", { message: text }), `Echo: ${text}`],
  // It refuses a POST of more than 4 MiB.
  requestBytes: 4 * MIB,
};

/** What the servers of our own tools say. */
const ours = {
  tool: "grow",
  prompt: [tool("visit", { city: "Rome" }), /^Visit Rome$/],
  log: [tool("log", { text: "noted" }), /^noted$/],
  sample: [tool("sample", { prompt: "why?" }), /^sampled re: why\?$/],
  elicit: [tool("elicit"), /^accept Ada$/],
  change: [tool("grow", { name: "sprout" }), "tools", "sprout"],
  cancellations: tool("cancellations"),
  answerBytes: 9 * MIB,
  bigRequest: (text) => [tool("digest", { text }), digest(text)],
};

export const books = [
  {
    ...everything,
    server: "everything over streamableHttp",
    start: () => startEverything("streamableHttp"),
    /** Printed when a session opens its GET stream: what the server says before that is lost. */
    listening: "Establishing new SSE stream",
  },
  {
    ...everything,
    server: "everything over sse",
    start: () => startEverything("sse"),
  },
  {
    ...ours,
    server: "the Python SDK over sse",
    skip: withoutPython,
    start: () => startPython(),
    echo: (text) => [tool("echo", { text }), text],
    resource: ["test://motto", /^as above, so below$/],
    slow: (seconds, steps) => tool("slow", { seconds, steps }),
    bigAnswer: async (client) => textOf(await client.callTool(tool("big", { bytes: 9 * MIB }))).length,
    requestBytes: 9 * MIB,
  },
  {
    ...ours,
    server: "a server in the shape of mcp-hub",
    start: () => startHubServer(),
    echo: (text) => [tool("echo", { text }), JSON.stringify({ text })],
    resource: ["hub://motto", /^as above, so below$/],
    slow: (seconds, steps) => tool("progress", { steps, every: (seconds * 1000) / steps }),
    bigAnswer: async (client) => Buffer.byteLength(textOf(await client.callTool(tool("bytes", { bytes: 9 * MIB })))),
    // It refuses a POST of more than 100 kB.
    requestBytes: 100 * 1024,
  },
];
