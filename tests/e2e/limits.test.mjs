// Bad lines, big messages, and a client that does not read.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { bigText } from "../fixtures/tools.mjs";
import { peakMemory } from "./hostile.mjs";
import { scenario } from "./scenario.mjs";
import { standstill } from "./standstill.mjs";

const MIB = 1024 * 1024;
/** Room for the envelope around a payload. */
const ENVELOPE = 4096;
const sha256 = (text) => createHash("sha256").update(text).digest("hex");

scenario("a malformed request with a readable id gets -32700, and the session goes on", {}, async ({ open }) => {
  const client = await open();
  client.owe("41");
  client.bytes('{"jsonrpc":"2.0","id":41,"method":"tools/list","params":{]}\n');
  assert.equal((await client.answer(41)).error.code, -32700);
  assert.ok((await client.request("tools/list")).result);
  await client.finish();
});

scenario("a line without a readable id is a note on stderr and nothing on stdout", {}, async ({ open }) => {
  const client = await open();
  client.bytes("this is not JSON\n");
  client.bytes(Buffer.concat([Buffer.of(0xff, 0xfe, 0x00), Buffer.from("\n")]));
  assert.ok((await client.request("tools/list")).result);
  await client.until("a note on stderr", () => client.stderr.trim().length > 0);
  await client.finish();
  assert.equal(client.lines.length, 2);
});

scenario("blank lines, CRLF and a BOM on stdin are taken as they are meant", {}, async ({ connect, server }) => {
  const client = connect();
  client.owe("1");
  client.owe("2");
  const initialize = {
    jsonrpc: "2.0",
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } },
  };
  client.bytes(`\uFEFF${JSON.stringify(initialize)}\r\n\r\n\n  \n`);
  await client.answer(1);
  client.bytes(
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\r\n{"jsonrpc":"2.0","id":2,"method":"tools/list"}\r\n',
  );
  assert.ok((await client.answer(2)).result);
  await client.finish();
  assert.equal(client.lines.length, 2);
  assert.equal(server.requests("POST tools/list")[0].body, '{"jsonrpc":"2.0","id":2,"method":"tools/list"}');
});

scenario(
  "a request over the limit gets an error that names the limit, and the next one works",
  { options: ["--max-message-bytes", "1MiB"] },
  async ({ open, server }) => {
    const client = await open();
    const { error } = await client.call("digest", { text: "x".repeat(MIB) }, "big");
    assert.equal(error.code, -32600);
    assert.match(error.message, /1 ?MiB|1048576/);
    assert.ok((await client.call("digest", { text: "x".repeat(MIB - ENVELOPE) })).result);
    await client.finish();
    assert.equal(server.requests("POST tools/call").length, 1);
  },
);

for (const as of ["json", "sse"]) {
  scenario(
    `an answer over the limit is an error that names the limit, and the next one works (${as})`,
    { options: ["--max-message-bytes", "1MiB"] },
    async ({ open }) => {
      const client = await open();
      const { error } = await client.call("bytes", { bytes: 2 * MIB, as });
      assert.match(error.message, /1 ?MiB|1048576/);
      assert.deepEqual([error.data.delivered, error.data.attempt], ["yes", 1]);
      assert.ok((await client.call("bytes", { bytes: MIB - ENVELOPE, as })).result);
      await client.finish();
    },
  );

  scenario(`a 64 MiB answer passes unharmed (${as})`, {}, async ({ open }) => {
    const client = await open();
    const bytes = 64 * MIB - ENVELOPE;
    const { result } = await client.call("bytes", { bytes, as });
    assert.equal(sha256(result.content[0].text), sha256(bigText(bytes)));
    await client.finish();
  });
}

scenario("an answer bigger than the pipe arrives whole with nothing coming after it", {}, async ({ open }) => {
  const client = await open();
  for (const kib of [100, 200, 300, 500, 900]) {
    const { result } = await client.call("bytes", { bytes: kib * 1024 });
    assert.equal(Buffer.byteLength(result.content[0].text), kib * 1024);
  }
  await client.finish();
});

scenario("a 64 MiB request passes unharmed", {}, async ({ open }) => {
  const client = await open();
  const text = bigText(64 * MIB - ENVELOPE);
  const { result } = await client.call("digest", { text });
  assert.equal(result.content[0].text, sha256(text));
  await client.finish();
});

scenario(
  "with stdout stalled and 1 GB coming, memory stays within its bound and nothing is lost",
  { options: ["--max-message-bytes", "8MiB"], skip: process.platform !== "linux" && "needs /proc" },
  async ({ shell, open, server }) => {
    const client = await open();
    client.stall();
    const call = client.call("flood", { bytes: 1024 * MIB, gate: "enough" });
    await standstill(() => server.flooded);
    assert.ok(server.flooded < 512 * MIB, `the server could send ${server.flooded} bytes to nobody`);
    const bound = (4 * 8 + 64 + (shell.name === "wasmtime" ? 64 : 0)) * MIB;
    const peak = peakMemory(client.child.pid);
    assert.ok(peak < bound, `peak ${peak} bytes, bound ${bound}`);
    server.gate("enough").open();
    client.resume();
    assert.ok((await call).result);
    await client.finish();
    const numbers = client.messages
      .filter(({ method }) => method === "notifications/message")
      .map(({ params }) => params.data.n);
    assert.deepEqual(
      numbers,
      Array.from(numbers, (_, n) => n),
    );
  },
);

scenario(
  "comments without end leave nothing behind",
  { options: ["--max-message-bytes", "1MiB"], skip: process.platform !== "linux" && "needs /proc" },
  async ({ shell, open, server }) => {
    server.once("POST tools/call", async (exchange) => {
      const stream = exchange.stream();
      // One comment of 128 MiB, then a million short ones.
      await stream.raw(":");
      for (let mib = 0; mib < 128; mib += 1) await stream.raw("k".repeat(MIB));
      for (let n = 0; n < 100; n += 1) await stream.raw(": ka\n\n".repeat(10_000));
      stream.result({});
      stream.end();
    });
    const client = await open();
    assert.deepEqual((await client.call("echo")).result, {});
    const bound = (6 + 64 + (shell.name === "wasmtime" ? 64 : 0)) * MIB;
    const peak = peakMemory(client.child.pid);
    assert.ok(peak < bound, `peak ${peak} bytes, bound ${bound}`);
    await client.finish();
    assert.equal(client.lines.length, 2);
  },
);

scenario(
  "big calls that wait for their answers do not hold up a cancellation",
  { options: ["--max-message-bytes", "1MiB"] },
  async ({ open, server }) => {
    const client = await open();
    const text = "x".repeat(MIB - ENVELOPE);
    const big = (id) =>
      client.send({ id, method: "tools/call", params: { name: "holdHead", arguments: { gate: "big", text } } });
    big("first");
    await server.seen("POST tools/call");
    for (let n = 0; n < 20; n += 1) big(n + 100);
    client.notify("notifications/cancelled", { requestId: "first" });
    await server.until("cancellation", () => server.cancelled.includes("first"));
    server.gate("big").open();
    await client.finish();
  },
);

scenario("a client that does not read stderr is served all the same", { on: ["native"] }, async ({ open }) => {
  const client = await open();
  client.child.stderr.pause();
  await client.bytes("noise\n".repeat(20_000));
  assert.ok((await client.call("echo")).result);
  client.child.stderr.resume();
  await client.finish();
});
