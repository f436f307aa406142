// The client of the official SDK's second generation, as it is installed, through the Worker to the
// reference server "everything", which has sessions. The client needs none if it looks for its own era.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startEverything } from "../processes.mjs";
import { textOf } from "../sdk.mjs";
import { HUNG_MS, front, watchedFetch } from "./peers.mjs";
import { LATEST } from "./wire.mjs";

const everything = front(() => startEverything("sse"));

/** What the client is told about eras, what it ends up with, and what it says first. */
const modes = [
  ["by default", {}, ["legacy", LATEST], "initialize"],
  ["in search of its era", { versionNegotiation: { mode: "auto" } }, ["modern", "2026-07-28"], "server/discover"],
];

for (const [how, options, [era, version], first] of modes) {
  test(`the second generation's client ${how}`, { timeout: HUNG_MS }, async (t) => {
    const { worker } = await everything();
    const { fetch, exchanges } = watchedFetch();
    const transport = new StreamableHTTPClientTransport(new URL(`${worker.url}/mcp`), { fetch });
    const client = new Client({ name: "e2e", version: "2" }, options);
    t.after(() => client.close());
    await client.connect(transport);
    assert.deepEqual([client.getProtocolEra(), client.getNegotiatedProtocolVersion()], [era, version]);
    assert.deepEqual([exchanges[0].message.method, exchanges[0].status], [first, 200]);
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === "echo"));
    assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
    if (era === "modern") return;
    await transport.terminateSession();
    await client.close();
    assert.equal(exchanges.find(({ method }) => method === "DELETE").status, 204);
  });
}
