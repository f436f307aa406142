// A server that is killed in the middle of a hundred calls and is back two seconds later on the
// same port: each call is answered once, and the next one works as if nothing had been.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { StdioClient } from "./client.mjs";
import { startEverything, startFixture, startPython, withoutPython } from "./processes.mjs";
import { shells } from "./shells.mjs";

const HUNG_MS = 90_000;
const CALLS = 100;
const DOWN_MS = 2_000;

const servers = [
  {
    name: "a Streamable HTTP server",
    start: (port) => startFixture("streamableHttp", port),
    quick: ["echo", {}],
    endless: ["never", {}],
  },
  {
    name: "an HTTP+SSE server",
    start: (port) => startFixture("sse", port),
    quick: ["echo", {}],
    endless: ["never", {}],
  },
  {
    name: "everything over sse",
    start: (port) => startEverything("sse", port),
    quick: ["echo", { message: "hi" }],
    endless: ["trigger-long-running-operation", { duration: 3600, steps: 2 }],
  },
  {
    name: "everything over streamableHttp",
    // It answers 400 to a session that it does not know, where the specification wants 404.
    start: (port) => startEverything("streamableHttp", port),
    quick: ["echo", { message: "hi" }],
    endless: ["trigger-long-running-operation", { duration: 3600, steps: 2 }],
  },
  {
    name: "the Python SDK over sse",
    skip: withoutPython,
    start: (port) => startPython(port),
    quick: ["echo", { text: "hi" }],
    endless: ["slow", { seconds: 3600, steps: 2 }],
  },
];

for (const { name, skip, start, quick, endless } of servers) {
  for (const shell of shells) {
    test(`${CALLS} calls survive a restart of ${name} [${shell.name}]`, { timeout: HUNG_MS, skip }, async (t) => {
      const server = await start();
      t.after(() => server.close());
      const client = new StdioClient(shell, server.url);
      t.after(() => client.kill());
      await client.handshake();

      const answers = Array.from({ length: CALLS }, (_, n) => client.call(...(n % 2 === 0 ? quick : endless)));
      await Promise.race(answers);
      await server.close();
      await delay(DOWN_MS);
      const restarted = await start(server.port);
      t.after(() => restarted.close());

      const settled = await Promise.all(answers);
      assert.ok(settled.some(({ result }) => result));
      for (const [n, { error }] of settled.entries()) {
        if (n % 2 === 1) assert.match(error.data.delivered, /^(no|maybe)$/);
      }
      assert.ok((await client.call(...quick)).result);
      await client.finish();
      // Beside those: the answers to `initialize` and to the call afterwards.
      assert.equal(client.messages.filter(({ method }) => method === undefined).length, CALLS + 2);
    });
  }
}
