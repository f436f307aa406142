// A component that traps, on command of the server or of the client: the runner answers what was open,
// starts a fresh component, and the client goes on in the same process.

import assert from "node:assert/strict";
import { join } from "node:path";
import { scenario } from "./scenario.mjs";
import { dist } from "./shells.mjs";

const CRASH = "mcp-proxy/crash";
const OPTIONS = ["--component", join(dist, "mcp-proxy-crash.wasm")];
const native = (name, body) => scenario(name, { on: ["native"], options: OPTIONS }, body);

const count = (server, label) => server.log.filter((entry) => entry.label === label).length;

/** A call whose answer, once the gate is open, the component does not survive. */
function trap(client, server, gate = Promise.resolve()) {
  server.once("POST tools/call", async (call) => {
    await gate;
    call.reply(200, { "content-type": "application/json" }, `"${CRASH}"`);
  });
  return client.call("echo");
}

function assertBroken({ error }) {
  assert.match(error.message, /the proxy broke/);
  assert.deepEqual([error.data.delivered, error.data.retrySafe, error.data.phase], ["maybe", false, "proxy"]);
}

native("a trap answers every open request, and the client goes on", async ({ open, server }) => {
  const client = await open();
  const held = [1, 2, 3].map((n) => client.call("hold", { gate: `held ${n}` }, `held ${n}`));
  await server.seen("POST tools/call", 3);
  assertBroken(await trap(client, server));
  for (const answer of await Promise.all(held)) assertBroken(answer);
  assert.deepEqual((await client.call("echo", { text: "after" })).result.structuredContent, { text: "after" });
  assert.equal(count(server, "POST initialize"), 2, "the session was opened again, once");
  assert.equal(client.stderr.match(/the component broke/g).length, 1, client.stderr);
  await client.finish();
});

native("an answer that was written is not written again, and a reused id is a new request", async ({ open, server }) => {
  const client = await open();
  assert.ok((await client.call("echo", {}, 7)).result);
  const again = client.call("hold", { gate: "again" }, 8);
  await server.seen("POST tools/call", 2);
  assertBroken(await trap(client, server));
  assertBroken(await again);
  client.verify({ complete: false });
  assert.ok((await client.call("echo", {}, "new")).result);
  await client.finish();
});

native("a client that waits hears the server again after a trap", async ({ open, server }) => {
  const client = await open();
  const listened = count(server, "GET");
  await trap(client, server);
  await server.seen("GET", listened + 1);
  await client.finish();
});

native("a line that is read in part when a component traps is not lost", async ({ open, server }) => {
  const client = await open();
  const line = JSON.stringify({ jsonrpc: "2.0", id: "cut", method: "tools/call", params: { name: "echo" } });
  const trapped = trap(client, server, server.gate("go").opened);
  await server.seen("POST tools/call");
  client.owe('"cut"');
  await client.bytes(line.slice(0, 30));
  server.gate("go").open();
  assertBroken(await trapped);
  await client.bytes(`${line.slice(30)}\n`);
  assert.ok((await client.answer("cut")).result);
  await client.finish();
});

native("a component that traps at once again is the end, with a clear word", async ({ open }) => {
  const client = await open();
  await client.bytes(`${JSON.stringify({ jsonrpc: "2.0", method: CRASH })}\n`);
  const { code } = await client.exit();
  assert.equal(code, 70);
  assert.match(client.stderr, /the component broke: .*\n.*the component broke/s);
});
