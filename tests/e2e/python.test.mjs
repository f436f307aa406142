// Python peers through the stdio proxy, in all pairs of eras: clients of the SDK's second generation and
// of FastMCP 4 before servers with the suite's contents, and their servers behind the TypeScript SDK's
// clients of both generations.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startModernConformanceServer } from "../fixtures/conformance-modern.mjs";
import { startConformanceServer } from "../fixtures/conformance-server.mjs";
import { connect, kinds } from "./modern-clients.mjs";
import { assertEra } from "./modern-steps.mjs";
import { startPython2, withoutPython2 } from "./processes.mjs";
import { KINDS, MODES, assertSeen, converse, play } from "./python.mjs";
import { progressOf } from "./sdk.mjs";
import { shells } from "./shells.mjs";

const HUNG_MS = 60_000;
const options = { timeout: HUNG_MS, skip: withoutPython2 };

const SERVERS = {
  "HTTP+SSE": () => startConformanceServer({ transport: "sse" }),
  "legacy Streamable HTTP": () => startConformanceServer({ transport: "streamableHttp" }),
  modern: startModernConformanceServer,
};

for (const [kind, who] of Object.entries(KINDS))
  for (const [mode, version] of Object.entries(MODES))
    for (const [where, start] of Object.entries(SERVERS))
      for (const shell of shells)
        test(`${who} client, ${mode}, before a server: ${where} [${shell.name}]`, options, async (t) => {
          const server = await start();
          t.after(() => server.close());
          const seen = await play(t, kind, mode, [shell.command, ...shell.args(server.url)]);
          // 2025-11-25 has a code of its own for this, which means something else since.
          const refused = mode === "legacy" && where !== "modern" ? -32002 : -32602;
          assertSeen(seen, { version, refused });
        });

/** How the proxy meets a server: by itself it chooses the newer era that these servers speak. */
const MEETINGS = [
  { where: "modern, as detected", transport: "streamableHttp", words: [] },
  { where: "legacy Streamable HTTP", transport: "streamableHttp", words: ["--era", "legacy"] },
  { where: "HTTP+SSE", transport: "sse", words: [] },
];

for (const [kind, who] of Object.entries(KINDS))
  for (const { where, transport, words } of MEETINGS)
    for (const client of kinds)
      for (const shell of shells)
        test(`${who} server, ${where}, behind a ${client.name} [${shell.name}]`, options, async (t) => {
          const server = await startPython2(kind, transport);
          t.after(() => server.close());
          const wordy = { ...shell, args: (url) => shell.args(url, words) };
          const connected = await connect(client, wordy, server.url);
          t.after(() => connected.close());
          await converse(connected.client);
          assert.deepEqual(progressOf(connected.received), [1, 2, 3]);
          assertEra(connected);
        });
