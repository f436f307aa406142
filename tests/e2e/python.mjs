// Python peers of both eras: the SDK's second generation (mcp 2) and FastMCP 4, as clients and as
// servers, each a process of its own. Both speak 2025-11-25 and 2026-07-28.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { python2 } from "./processes.mjs";
import { textOf } from "./sdk.mjs";

export const KINDS = { sdk: "Python SDK 2", fastmcp: "FastMCP 4" };

/** The modes of a client, with the version that it ends up with behind the proxy. */
export const MODES = { auto: "2026-07-28", legacy: "2025-11-25" };

const script = fileURLToPath(new URL("../fixtures/python2/client.py", import.meta.url));

/** A client of this kind converses with what is there: a URL, or the command of a stdio server. */
export async function play(t, kind, mode, target) {
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const { stdout } = await promisify(execFile)(python2, [script, kind, mode, ...target], { signal: t.signal, env });
  return JSON.parse(stdout);
}

/** What the client has to have seen of a server with the suite's contents; `refused` is the code for no resource. */
export function assertSeen({ tools, sampled, ...seen }, { version, refused }) {
  assert.ok(tools.includes("test_simple_text"), tools.join());
  assert.equal(JSON.parse(sampled)[0].content.text, "Paris");
  const text = "This is a simple text response for testing.";
  assert.deepEqual(seen, {
    version,
    text,
    progress: [0, 50, 100],
    slow: "Came to its end",
    elicited: "Hello, Ada!",
    rounds: "Ada likes blue",
    asked: [
      "What is your name?",
      "What is the capital of France?",
      "Step 1: What is your name?",
      "Step 2: What is your favorite color?",
    ],
    resource: "This is the content of the static text resource.",
    prompt: "Prompt with arguments: arg1='one', arg2='two'",
    failed: true,
    refused,
    many: Array.from({ length: 20 }, () => text),
  });
}

/** A TypeScript client, in the words of the first generation, converses with a server of `server.py`. */
export async function converse(client) {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name).sort(), ["ask", "echo", "fail", "slow"]);
  const call = (name, args = {}, options = undefined) => client.callTool({ name, arguments: args }, undefined, options);
  const echoed = await call("echo", { text: "größer 👋" });
  assert.deepEqual([textOf(echoed), echoed.structuredContent], ["größer 👋", { result: "größer 👋" }]);
  assert.equal(textOf(await call("slow", { steps: 3 }, { onprogress: () => {} })), "3 steps");
  assert.equal(textOf(await call("ask")), "accept Ada");
  assert.equal((await call("fail")).isError, true);
  assert.equal((await client.readResource({ uri: "test://motto" })).contents[0].text, "as above, so below");
  const { messages } = await client.getPrompt({ name: "visit", arguments: { city: "Rome" } });
  assert.equal(messages[0].content.text, "Visit Rome");
  const texts = Array.from({ length: 20 }, (_, n) => `m${n}`);
  const results = await Promise.all(texts.map((text) => call("echo", { text })));
  assert.deepEqual(results.map(textOf), texts);
}
