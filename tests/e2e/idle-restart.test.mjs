// Servers that restart while their client is idle. The client sends nothing, and yet hears what the server says
// next: the proxy finds that the session is lost when it listens again, and opens a new one by itself.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { StdioClient } from "./client.mjs";
import { startEverything, startSdk, startStreamablePython, withoutPython } from "./processes.mjs";
import { scenario } from "./scenario.mjs";
import { shells } from "./shells.mjs";

const HUNG_MS = 90_000;
const CHANGED = "notifications/tools/list_changed";

/** A server that says to whoever listens that its tools have changed. */
const changing = { speaks: ({ method }) => method === CHANGED, opens: "session ", call: ["echo", { text: "hi" }] };

/** What each says by itself after a session was opened, and what it prints when it opens one. */
const servers = [
  {
    name: "everything",
    start: (port) => startEverything("streamableHttp", port),
    // It asks for the roots of every session, and says how many it got.
    speaks: ({ method, params }) => method === "notifications/message" && params.data.startsWith("Roots updated"),
    opens: "Session initialized with ID",
    call: ["echo", { message: "hi" }],
  },
  { ...changing, name: "the TypeScript SDK v1", start: (port) => startSdk("express", port) },
  { ...changing, name: "the TypeScript SDK v2", start: (port) => startSdk("web", port) },
  {
    ...changing,
    name: "the Python SDK",
    skip: withoutPython,
    start: (port) => startStreamablePython(port),
    opens: "Created new transport",
  },
];

for (const { name, skip, start, speaks, opens, call } of servers) {
  for (const shell of shells) {
    const title = `an idle client hears a server after its restart: ${name} [${shell.name}]`;
    test(title, { timeout: HUNG_MS, skip }, async (t) => {
      const server = await start();
      t.after(() => server.close());
      const client = new StdioClient(shell, server.url);
      t.after(() => client.kill());
      client.onMessage = (message) => giveRoots(client, message);
      await client.handshake({ capabilities: { roots: {} } });
      await heard(client, speaks, 1);

      await server.close();
      const restarted = await start(server.port);
      t.after(() => restarted.close());
      await heard(client, speaks, 2);

      assert.ok((await client.call(...call)).result);
      await client.finish();
      assert.equal(restarted.count(opens), 1, restarted.printed());
    });
  }
}

function giveRoots(client, { id, method }) {
  if (method === "roots/list") client.send({ id, result: { roots: [{ uri: "file:///home/ada", name: "home" }] } });
}

/** Resolves when the client has heard so many messages of this kind. */
const heard = (client, fits, times) =>
  client.until(`what the server says unasked, ${times} times`, () => client.messages.filter(fits).length >= times);

const json = { "content-type": "application/json" };
const missing = [
  ["of Express", { "content-type": "text/html" }, "<pre>Cannot GET /mcp</pre>"],
  ["of Starlette", json, '{"detail":"Not Found"}'],
  ["without a body", {}, ""],
];

for (const [what, headers, body] of missing) {
  scenario(`a 404 ${what} to the first GET is no lost session`, {}, async ({ open, server }) => {
    server.always("GET", (exchange) => exchange.reply(404, headers, body));
    const client = await open();
    await server.seen("GET");
    for (let n = 0; n < 5; n += 1) assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST initialize").length, 1);
    assert.equal(server.requests("POST tools/call").length, 5);
  });
}

scenario(
  "a server that forgets every session that listens is left alone until the next request",
  {},
  async ({ open, server }) => {
    const opened = () => server.requests("POST initialize").length;
    const relent = server.always("GET", (exchange) => {
      server.dispatch(exchange);
      server.forgetSessions();
    });
    const client = await open();
    // A new session is opened, although nobody asked for it.
    await server.seen("POST initialize", 2);
    await leftAlone(server);
    const brief = opened();
    assert.ok(brief <= 8, `${brief} sessions`);

    relent();
    assert.ok((await client.call("echo")).result);
    assert.equal(opened(), brief + 1);
    await server.listening();
    server.push({ jsonrpc: "2.0", method: CHANGED });
    await heard(client, changing.speaks, 1);
    await client.finish();
  },
);

/** A proxy that gives up, or whose waits grow, leaves the server alone for at least this long. */
const REST_MS = 3_000;

/** Resolves when nothing has reached the server for a while. There is no event to wait for: that is the point. */
async function leftAlone(server) {
  for (let before; before !== server.log.length;) {
    before = server.log.length;
    await delay(REST_MS);
  }
}
