// The Worker lives: it says so, and says so again after its process was killed.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { startWorker } from "./workerd.mjs";

const variables = { UPSTREAM_URL: "http://127.0.0.1:9/sse", ALLOW_HTTP: "1", PUBLIC: "1" };
const manifest = readFileSync(new URL("../../../Cargo.toml", import.meta.url), "utf8");
const [, version] = /^\[workspace\.package\]$[^[]*?^version = "(.+)"$/m.exec(manifest);
const ok = { status: "ok", version };

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
