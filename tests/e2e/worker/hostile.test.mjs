// Peers that mean harm: bodies that are longer than they say, batches of nothing, requests that open no
// session. Each is refused, whoever else is there is answered meanwhile, and memory stays within a bound.

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import net from "node:net";
import { join as path } from "node:path";
import { startServer } from "../../fixtures/server.mjs";
import { scene } from "./scene.mjs";
import { TYPES, initialize } from "./wire.mjs";

const MIB = 1024 * 1024;
/** What a flood has at most; nobody takes all of it. */
const FLOOD = 512 * MIB;
/** What workerd may take more than before, whatever a peer sends: the limits of messages, a few times over. */
const BOUND = 96 * MIB;
const CALL = "POST tools/call";
const streamable = { start: startServer, variables: { UPSTREAM_TRANSPORT: "streamable-http" } };

/** Fails if workerd ever had more than the bound beyond what it had before. Without /proc there is nothing to see. */
function assertBounded(worker, before) {
  const grown = worker.peak() - before;
  assert.ok(!(grown > BOUND), `${Math.round(grown / MIB)} MiB more`);
}

// ---- bodies that lie ------------------------------------------------------------------------

/** Writes these bytes again and again, as chunks of HTTP, until the other side has had enough; says how many. */
async function flood(socket, bytes) {
  socket.on("error", () => {});
  const chunk = Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);
  const gone = new Promise((resolve) => socket.once("close", resolve));
  let sent = 0;
  for (; sent < FLOOD && !socket.destroyed; sent += bytes.length)
    if (!socket.write(chunk)) await Promise.race([new Promise((resolve) => socket.once("drain", resolve)), gone]);
  return sent;
}

const BEGINNING = '{"jsonrpc":"2.0","id":7,"result":{"text":"';

for (const [what, said] of [
  ["is much longer than it says", "content-length: 10\r\n"],
  ["says that it has no bytes at all", "content-length: 0\r\n"],
  ["says that it is shorter than nothing", "content-length: -5\r\n"],
  ["does not say how long it is", ""],
]) {
  scene(`an answer that ${what} is cut off at the limit`, streamable, async ({ server, worker, join }) => {
    const other = await join();
    const client = await join();
    const before = worker.memory();
    let flooded;
    server.once(CALL, ({ req: { socket } }) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${said}transfer-encoding: chunked\r\n\r\n`);
      socket.write(`${BEGINNING.length.toString(16)}\r\n${BEGINNING}\r\n`);
      flooded = flood(socket, Buffer.alloc(64 * 1024, "x"));
    });
    const { error } = await client.call("echo", {}, 7);
    assert.ok(error.message);
    assert.ok((await other.call("echo")).result, "others are served");
    assert.ok((await client.call("echo")).result, "and so is the next call");
    assertBounded(worker, before);
    await Promise.all([client.leave(), other.leave()]);
    await worker.stop();
    assert.ok((await flooded) < FLOOD, "nobody reads all of it");
  });
}

for (const named of [true, false]) {
  const where = named ? "in a session" : "without a session";
  scene(
    `${where}, a body that is much longer than it says is cut off at the limit`,
    { variables: { MAX_BODY_BYTES: String(MIB) } },
    async ({ server, worker, join }) => {
      const client = await join();
      const before = worker.memory();
      const headers = {
        ...(named ? client.named() : TYPES),
        host: "x",
        "content-length": 10,
        "transfer-encoding": "chunked",
      };
      const socket = net.connect(worker.port, "127.0.0.1");
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
      let heard = "";
      socket.setEncoding("utf8").on("data", (text) => (heard += text));
      const closed = new Promise((resolve) => socket.once("close", resolve));
      socket.write(`POST /mcp HTTP/1.1\r\n${lines.join("")}\r\n`);
      assert.ok((await flood(socket, Buffer.alloc(64 * 1024, " "))) < FLOOD, "nobody reads all of it");
      await closed;
      if (heard) assert.match(heard, /^HTTP\/1\.1 4/);
      assert.ok((await client.call("echo")).result);
      assertBounded(worker, before);
      assert.equal(server.requests("POST /messages tools/call").length, 1);
    },
  );
}

// ---- requests that open no session ----------------------------------------------------------

const of = (message) => JSON.stringify({ jsonrpc: "2.0", ...message });
const LONG = "x".repeat(300);
/** Bodies of clients without a session, with the status and the error that each gets. */
const useless = [
  ["a request", of({ id: 5, method: "tools/list" }), 400, { id: 5, code: -32600, message: /must be initialize/ }],
  ["a notification", of({ method: "notifications/initialized" }), 400, { code: -32600, message: /must be initialize/ }],
  ["a response", of({ id: 5, result: {} }), 400, { code: -32600, message: /must be initialize/ }],
  ["a batch", `[${initialize}]`, 400, { code: -32600, message: /must be initialize/ }],
  ["an empty batch", "[]", 400, { code: -32600, message: /batch is empty/ }],
  ["no JSON", '{"jsonrpc":"2.0","id":5,"method":', 400, { code: -32700, message: /not valid JSON/ }],
  ["no message", "{}", 400, { code: -32600, message: /not a JSON-RPC message/ }],
  ["nothing", "", 400, { code: -32700, message: /not valid JSON/ }],
  [
    "an id that is too long",
    initialize.replace('"id":1', `"id":"${LONG}"`),
    400,
    { id: LONG, code: -32600, message: /id is longer/ },
  ],
  ["another type", initialize, 415, { code: -32600, message: /Content-Type/ }, { "content-type": "text/plain" }],
  ["another wish", initialize, 406, { code: -32600, message: /Accept/ }, { accept: "text/html" }],
  [
    "another era",
    of({ id: 5, method: "server/discover" }),
    400,
    { id: 5, code: -32602, message: /protocolVersion.* must be a string/ },
    { "mcp-protocol-version": "2030-01-01" },
  ],
];
const USELESS = 2000;

/** The objects that have left something on the disk. Each that was ever made has a file. */
const objects = (worker) =>
  readdirSync(worker.dir, { recursive: true, encoding: "utf8" }).filter((name) =>
    /session.[0-9a-f]{64}\.sqlite$/.test(name),
  );

scene(`${USELESS} requests that open no session make no object`, {}, async ({ t, server, worker, connect, join }) => {
  const client = connect();
  for (const [what, body, status, { id, code, message }, headers] of useless) {
    await t.test(what, async () => {
      const response = await client.send("POST", { headers: { ...TYPES, ...headers }, body });
      assert.equal(response.status, status);
      assert.match(response.headers["content-type"], /application\/json/);
      const { jsonrpc, error, ...rest } = await response.json();
      assert.deepEqual([jsonrpc, rest.id, error.code], ["2.0", id, code]);
      assert.match(error.message, message);
    });
  }
  const agents = Array.from({ length: 20 }, () => connect());
  const rounds = Array.from({ length: USELESS / agents.length }, (_, at) => useless[at % useless.length]);
  await Promise.all(
    agents.map(async (agent) => {
      for (const [, body, status, , headers] of rounds) {
        const response = await agent.send("POST", { headers: { ...TYPES, ...headers }, body });
        assert.equal(response.status, status);
        await response.ended();
        agent.responses.length = 0;
      }
    }),
  );
  assert.deepEqual(objects(worker), []);
  assert.deepEqual(server.log, []);
  const joined = await join();
  assert.ok((await joined.call("echo")).result);
  assert.equal(objects(worker).length, 1, "a session is an object, and is seen");
});

// ---- batches of nothing ---------------------------------------------------------------------

const ones = (bytes) => `[${"1,".repeat(bytes / 2 - 2)}1]`;

for (const named of [true, false]) {
  const where = named ? "in a session" : "without a session";
  scene(
    `${where}, a batch of two million numbers is refused, and costs nobody else anything`,
    {},
    async ({ worker, join, connect }) => {
      const other = await join();
      const client = named ? await join({ handshake: { version: "2025-03-26" } }) : connect();
      const before = worker.memory();
      const body = ones(4 * MIB);
      const refused = client.send("POST", { headers: named ? client.named() : TYPES, body });
      assert.ok((await other.call("echo")).result);
      const response = await refused;
      assert.ok([400, 413, 429].includes(response.status), `${response.status}`);
      assert.ok((await response.json()).error.message);
      assert.ok((await other.call("echo")).result);
      assertBounded(worker, before);
    },
  );
}

for (const [type, frame] of [
  ["application/json", (text) => text],
  ["text/event-stream", (text) => `data: ${text}\n\n`],
]) {
  scene(
    `a server that sends four million numbers as ${type} costs its own request only`,
    streamable,
    async ({ server, worker, join }) => {
      const other = await join();
      const client = await join();
      const before = worker.memory();
      const printed = worker.stderr().length;
      server.once(CALL, (exchange) => exchange.reply(200, { "content-type": type }, frame(ones(8 * MIB))));
      const bombed = client.call("echo", {}, "bombed");
      await server.seen(CALL);
      assert.ok((await other.call("echo")).result);
      assert.ok((await bombed).error.message);
      for (const each of [other, client]) assert.ok((await each.call("echo")).result);
      assertBounded(worker, before);
      assert.ok(worker.stderr().length - printed < 64 * 1024, "and its operator one line or two");
    },
  );
}
