// Python peers through the Worker: clients of the SDK's second generation and of FastMCP 4 over
// Streamable HTTP, and their servers behind the TypeScript SDK's clients.

import { test } from "node:test";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { startModernConformanceServer } from "../../fixtures/conformance-modern.mjs";
import { startConformanceServer } from "../../fixtures/conformance-server.mjs";
import { startPython2, withoutPython2 } from "../processes.mjs";
import { KINDS, MODES, assertSeen, converse, play } from "../python.mjs";
import { inLegacyWords } from "../modern-clients.mjs";
import { HUNG_MS, alone, connect, front } from "./peers.mjs";

const options = { timeout: HUNG_MS, skip: withoutPython2 };

const SERVERS = {
  "HTTP+SSE": front(() => startConformanceServer({ transport: "sse" })),
  modern: front(startModernConformanceServer),
};

for (const [kind, who] of Object.entries(KINDS))
  for (const [mode, version] of Object.entries(MODES))
    for (const [where, ready] of Object.entries(SERVERS))
      test(`${who} client, ${mode}, before a server: ${where}`, options, async (t) => {
        const { worker } = await ready();
        const seen = await play(t, kind, mode, [`${worker.url}/mcp`]);
        const refused = mode === "legacy" && where !== "modern" ? -32002 : -32602;
        assertSeen(seen, { version, refused });
      });

for (const [kind, who] of Object.entries(KINDS))
  for (const transport of ["streamableHttp", "sse"]) {
    const where = `${who} server over ${transport}`;

    test(`${where}, behind a v1 client`, options, async (t) => {
      const { worker } = await alone(t, () => startPython2(kind, transport));
      const { client } = await connect(t, worker.url);
      await converse(client);
    });

    test(`${where}, behind a modern v2 client`, options, async (t) => {
      const { worker } = await alone(t, () => startPython2(kind, transport));
      const capabilities = { elicitation: {} };
      const versionNegotiation = { mode: { pin: "2026-07-28" } };
      const client = new Client({ name: "e2e", version: "2" }, { capabilities, versionNegotiation });
      client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { name: "Ada" } }));
      t.after(() => client.close());
      await client.connect(new StreamableHTTPClientTransport(new URL(`${worker.url}/mcp`)));
      await converse(inLegacyWords(client));
    });
  }
