// Beginning and end of a session: what is sent at start-up, what happens at the end of stdin,
// when stdout breaks, and on a signal.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { startServer } from "../fixtures/server.mjs";
import { StdioClient } from "./client.mjs";
import { scenario } from "./scenario.mjs";
import { documented } from "./shells.mjs";

const initialize = (id) => ({
  id,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "pipe", version: "1" } },
});

/** Everything at once into the pipe, then end of file: the shape of `printf … | mcp-proxy URL`. */
async function pipe(client) {
  client.send(initialize(1));
  client.notify("notifications/initialized");
  client.send({ id: 2, method: "tools/list" });
  client.send({ id: 3, method: "tools/call", params: { name: "echo", arguments: { delay: 400 } } });
  await client.finish();
}

scenario("a piped session with a slow call gets all three answers and exit 0", {}, async ({ connect, server }) => {
  const client = connect();
  await pipe(client);
  assert.deepEqual(client.messages.map(({ id }) => id).sort(), [1, 2, 3]);
  assert.equal(server.requests("DELETE").length, 1);
});

test("the documented command runs the component on stock wasmtime", { timeout: 90_000 }, async (t) => {
  const server = await startServer();
  t.after(() => server.close());
  const client = new StdioClient(documented, server.url);
  t.after(() => client.kill());
  await pipe(client);
  assert.equal(client.lines.length, 3);
});

scenario(
  "start-up sends one initialize and nothing that the client did not ask for",
  {},
  async ({ connect, server }) => {
    const client = connect();
    await client.handshake();
    await server.listening();
    await client.request("tools/list");
    await client.finish();
    assert.deepEqual(server.labels(), [
      "POST initialize",
      "POST notifications/initialized",
      "GET",
      "POST tools/list",
      "DELETE",
    ]);
  },
);

scenario("nothing is sent before the client speaks", {}, async ({ connect, server }) => {
  await connect().finish();
  assert.deepEqual(server.labels(), []);
});

scenario(
  "session and version headers appear only after negotiation, with the negotiated version",
  { server: { protocolVersion: "2025-03-26" } },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    await client.request("tools/list");
    await client.finish();
    const [first, ...later] = server.log;
    assert.equal(first.headers["mcp-session-id"], undefined);
    assert.equal(first.headers["mcp-protocol-version"], undefined);
    const session = later[0].headers["mcp-session-id"];
    assert.ok(session);
    for (const entry of later) {
      assert.equal(entry.headers["mcp-session-id"], session, entry.label);
      assert.equal(entry.headers["mcp-protocol-version"], "2025-03-26", entry.label);
    }
  },
);

scenario("every POST accepts both answer forms and the GET accepts a stream", {}, async ({ open, server }) => {
  const client = await open();
  await server.listening();
  await client.finish();
  for (const { method, headers, label } of server.log) {
    if (method === "POST") assert.match(headers["content-type"], /^application\/json/, label);
    if (method === "POST") assert.match(headers.accept, /application\/json/, label);
    if (method !== "DELETE") assert.match(headers.accept, /text\/event-stream/, label);
  }
});

scenario(
  "a server without sessions gets no session header and no DELETE",
  { server: { sessions: false } },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    await client.request("tools/list");
    await client.finish();
    for (const { headers, label } of server.log) assert.equal(headers["mcp-session-id"], undefined, label);
    assert.equal(server.requests("DELETE").length, 0);
  },
);

scenario("a refused DELETE is no reason to fail", {}, async ({ open, server }) => {
  server.always("DELETE", (exchange) => exchange.reply(405));
  const client = await open();
  await client.finish();
  assert.equal(server.requests("DELETE").length, 1);
});

scenario("the last line of stdin counts without its newline", {}, async ({ open }) => {
  const client = await open();
  client.owe("77");
  client.bytes('{"jsonrpc":"2.0","id":77,"method":"tools/list"}');
  await client.finish();
});

scenario(
  "a call that outlives the drain time is answered with an error, then exit 0",
  { options: ["--drain-timeout", "300ms"] },
  async ({ open, server }) => {
    const client = await open();
    const answer = client.call("never", {}, "stuck");
    await server.seen("POST tools/call");
    client.eof();
    const { error } = await answer;
    assert.equal(error.code, -32000);
    assert.deepEqual([error.data.delivered, error.data.attempt], ["maybe", 1]);
    await client.finish();
    assert.equal(server.requests("DELETE").length, 1);
  },
);

scenario(
  "waiting takes no processor time, before the end of stdin and after it",
  { skip: process.platform !== "linux" && "needs /proc" },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    const call = client.call("hold", { gate: "end" });
    await server.seen("POST tools/call");
    const ticks = async () => {
      const before = processorTicks(client.child.pid);
      await delay(1000);
      return processorTicks(client.child.pid) - before;
    };
    const waiting = await ticks();
    client.eof();
    const draining = await ticks();
    assert.ok(waiting < 10 && draining < 10, `${waiting} and ${draining} hundredths of a second in one second`);
    server.gate("end").open();
    assert.ok((await call).result);
    await client.finish();
  },
);

scenario("a broken stdout ends the process quietly", {}, async ({ open }) => {
  const client = await open();
  client.child.stdout.destroy();
  client.send({ id: 50, method: "tools/list" });
  const { signal } = await client.exit();
  assert.equal(signal, null);
  assert.doesNotMatch(client.stderr, /panic|backtrace|trap/i);
});

scenario(
  "SIGTERM drains what is in flight, ends the session and exits 0",
  { on: ["native"], skip: process.platform === "win32" && "no signals" },
  async ({ open, server }) => {
    const client = await open();
    client.send({ id: 60, method: "tools/call", params: { name: "holdHead", arguments: { gate: "term" } } });
    await server.seen("POST tools/call");
    client.child.kill("SIGTERM");
    server.gate("term").open();
    assert.deepEqual(await client.exit(), { code: 0, signal: null });
    client.verify();
    assert.equal(server.requests("DELETE").length, 1);
  },
);

/** The processor time that a process has used, in hundredths of a second. */
function processorTicks(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}
