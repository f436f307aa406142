// What is too big or too slow: it is refused by name, or costs only whoever is to blame.

import assert from "node:assert/strict";
import { bigText } from "../../fixtures/tools.mjs";
import { scene } from "./scene.mjs";

const MIB = 1024 * 1024;
const FLOOD = 256 * MIB;

for (const [how, chunked] of [
  ["that says how long it is", false],
  ["that does not", true],
]) {
  scene(
    `a body over the limit ${how} is refused by name`,
    {
      variables: { MAX_BODY_BYTES: "1000" },
    },
    async ({ server, join, connect }) => {
      const client = await join();
      const params = { name: "digest", arguments: { text: bigText(2 * MIB) } };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/call", params });
      for (const headers of [client.named(), connect().named()]) {
        const response = await client.send("POST", { headers, body, chunked });
        assert.equal(response.status, 413);
        assert.match((await response.json()).error.message, /1000 bytes \(MAX_BODY_BYTES\)/);
      }
      assert.ok((await client.call("echo", { text: "small" })).result);
      assert.equal(server.requests("POST /messages tools/call").length, 1);
    },
  );
}

scene(
  "an event over the limit is an error of its request only",
  {
    variables: { MAX_EVENT_BYTES: "10000" },
  },
  async ({ server, join }) => {
    const client = await join();
    const held = await client.startCall("hold", { gate: "other" }, { id: "other" });
    const { error } = await client.call("bytes", { bytes: 50_000 }, "big");
    assert.match(error.message, /10000 bytes/);
    assert.equal(error.data.delivered, "yes");
    server.gate("other").open();
    assert.ok((await held.answer("other")).result);
    assert.ok((await client.call("echo")).result);
    client.verify();
    assert.equal(server.requests("GET /sse").length, 1);
  },
);

scene(
  "requests over the limit of open ones are refused, and the others go on",
  {
    variables: { MAX_PENDING: "3" },
  },
  async ({ server, join }) => {
    const client = await join();
    const held = await Promise.all(["a", "b", "c"].map((gate) => client.startCall("hold", { gate }, { id: gate })));
    const refused = await client.startCall("echo", {}, { id: "d" });
    assert.equal(refused.status, 429);
    assert.equal((await refused.json()).id, "d");
    for (const gate of ["a", "b", "c"]) server.gate(gate).open();
    await Promise.all(held.map((response, at) => response.answer("abc"[at])));
    assert.ok((await client.call("echo")).result);
    client.verify();
  },
);

scene(
  "a client that does not read holds up itself only",
  {
    variables: { STALL_SECONDS: "1" },
  },
  async ({ server, worker, join }) => {
    const other = await join();
    const client = await join();
    const listening = await client.listen();
    listening.stall();
    const before = worker.memory();
    const data = "x".repeat(64 * 1024);
    const flood = (async () => {
      for (let bytes = 0; bytes < FLOOD; bytes += data.length)
        await server.push({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data } });
    })();
    assert.ok((await other.call("echo")).result);
    assert.ok((await client.call("echo", { text: "same session" })).result);
    await flood;
    assert.ok((await client.call("echo")).result);
    // Most of what a runtime takes, it takes because it may.
    const grown = worker.memory() - before;
    assert.ok(!(grown > 0.75 * FLOOD), `${grown} bytes more`);
    listening.resume();
    assert.equal(await listening.ended(), "cut");
  },
);
