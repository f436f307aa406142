// The Worker lives: it says so, and says so again after its process was killed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { startModernFixture } from "../../fixtures/modern-fixture.mjs";
import { startServer } from "../../fixtures/server.mjs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { alone } from "./peers.mjs";
import { WireClient } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

const variables = { UPSTREAM_URL: "http://127.0.0.1:9/sse", ALLOW_HTTP: "1", PUBLIC: "1" };
const manifest = readFileSync(new URL("../../../Cargo.toml", import.meta.url), "utf8");
const [, version] = /^\[workspace\.package\]$[^[]*?^version = "(.+)"$/m.exec(manifest);
const unknown = { era: "not known yet", transport: "not known yet" };
const ok = { status: "ok", version, servers: [{ name: "", path: "/mcp", ...unknown }] };

test("the Worker says that it is well, before and after a restart", async (t) => {
  const worker = await startWorker(variables);
  t.after(() => worker.stop());
  const health = async () => {
    const response = await fetch(`${worker.url}/health`);
    return { status: response.status, body: await response.json() };
  };
  assert.deepEqual(await health(), { status: 200, body: ok });
  await worker.restart();
  assert.deepEqual(await health(), { status: 200, body: ok });
  await worker.kill();
  await assert.rejects(health);
});

for (const [start, era, transport] of [
  [startServer, "legacy", "streamable-http"],
  [startSseServer, "legacy", "http+sse"],
  [startModernFixture, "modern", "streamable-http"],
])
  test(`the Worker says that its server is ${era} on ${transport}, once it knows`, async (t) => {
    const { worker } = await alone(t, start);
    const servers = async () => (await (await fetch(`${worker.url}/health`)).json()).servers;
    assert.deepEqual(await servers(), ok.servers);
    const client = new WireClient(worker);
    await client.open();
    assert.deepEqual(await servers(), [{ name: "", path: "/mcp", era, transport }]);
    const page = await (await fetch(worker.url)).text();
    assert.ok(page.includes(`"era":"${era}"`) && page.includes(`"transport":"${transport}"`), page);
    await client.leave();
  });
