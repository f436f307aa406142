// The client of the official SDK's second generation, as it is installed, through the Worker to the
// reference server "everything". It may look for a server of the modern era first: then the Worker says
// which versions there are, and the client goes on as one of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startEverything } from "../processes.mjs";
import { textOf } from "../sdk.mjs";
import { HUNG_MS, front, watchedFetch } from "./peers.mjs";
import { LATEST } from "./wire.mjs";

const everything = front(() => startEverything("sse"));

/** What the client is told about eras, and what it says first, with the status that it gets. */
const modes = [
  ["by default", {}, [["initialize", 200]]],
  [
    "in search of its era",
    { versionNegotiation: { mode: "auto" } },
    [
      ["server/discover", 400],
      ["initialize", 200],
    ],
  ],
];

for (const [how, options, beginning] of modes) {
  test(`a session of the second generation's client ${how}`, { timeout: HUNG_MS }, async (t) => {
    const { worker } = await everything();
    const { fetch, exchanges } = watchedFetch();
    const transport = new StreamableHTTPClientTransport(new URL(`${worker.url}/mcp`), { fetch });
    const client = new Client({ name: "e2e", version: "2" }, options);
    t.after(() => client.close());
    await client.connect(transport);
    assert.deepEqual([client.getProtocolEra(), client.getNegotiatedProtocolVersion()], ["legacy", LATEST]);
    assert.deepEqual(
      exchanges.slice(0, beginning.length).map(({ message, status }) => [message.method, status]),
      beginning,
    );
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === "echo"));
    assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
    await transport.terminateSession();
    await client.close();
    assert.equal(exchanges.find(({ method }) => method === "DELETE").status, 204);
  });
}
