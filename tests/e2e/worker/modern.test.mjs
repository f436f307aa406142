// The official SDK's clients of both eras, over Streamable HTTP, before the Worker, and behind it a
// server that speaks only 2026-07-28.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamableHTTPClientTransport as ModernHttp } from "@modelcontextprotocol/client";
import { StreamableHTTPClientTransport as LegacyHttp } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { connect, kinds, modernKind } from "../modern-clients.mjs";
import { startModernServer } from "../modern-server.mjs";
import { assertEra, steps } from "../modern-steps.mjs";
import { textOf } from "../sdk.mjs";
import { HUNG_MS, alone } from "./peers.mjs";

const [stdio] = kinds;
const over = (Transport) => (_shell, url) => new Transport(new URL(`${url}/mcp`));
const legacy = { ...stdio, name: "v1 client over HTTP", transport: over(LegacyHttp) };
const modern = { ...modernKind, name: "v2 client over HTTP", transport: over(ModernHttp) };

/** Registers a test with a client, the Worker, and a modern server. */
function peer(kind, name, capabilities, body) {
  test(`${kind.name}: ${name}`, { timeout: HUNG_MS }, async (t) => {
    // The platform notices that a client has left when it writes to it.
    const { server, worker } = await alone(t, startModernServer, { HEARTBEAT_SECONDS: "1" });
    const connected = await connect(kind, undefined, worker.url, capabilities);
    t.after(() => connected.close());
    await body({ ...connected, server, worker });
    assertEra(connected);
  });
}

/** A session outlives the connections of its client, and with it its subscriptions. */
const OTHERS = "the subscriptions end with the client";

for (const kind of [legacy, modern])
  for (const { name, body, on = kind.era, capabilities } of steps)
    if (on === kind.era && (kind === modern || name !== OTHERS)) peer(kind, name, capabilities, body);

peer(legacy, "the subscriptions end with the session", undefined, async ({ transport, server }) => {
  await server.listening();
  await transport.terminateSession();
  await server.until("end of the subscription", () => server.requests("POST subscriptions/listen")[0].ended);
});

peer(legacy, "a session goes on after a restart of the Worker", undefined, async ({ client, errors, server, worker }) => {
  await server.listening();
  await worker.restart();
  errors.splice(0); // its listening stream broke
  assert.equal(textOf(await client.callTool({ name: "two_rounds" })), "Ada from London");
  assert.equal(server.requests("POST server/discover").length, 2);
  assert.equal(server.requests("POST subscriptions/listen").length, 2);
  assert.deepEqual(server.requests("POST initialize"), []);
});
