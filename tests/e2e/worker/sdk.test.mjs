// Real peers on both sides of the Worker: the official SDK's client over Streamable HTTP, and servers
// that speak HTTP+SSE. The client is the stock one; that connections get lost is the cutter's doing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { books } from "../books.mjs";
import { steps } from "../everything.mjs";
import { startEverything, startPython, withoutPython } from "../processes.mjs";
import { progressOf, textOf } from "../sdk.mjs";
import { runSteps } from "../steps.mjs";
import { startCutter } from "./cutter.mjs";
import { HUNG_MS, alone, connect, front, playPython } from "./peers.mjs";

const legacy = books.filter(({ server }) => !server.includes("streamableHttp"));
for (const book of legacy) {
  const ready = front(book.start);
  test(`a session with ${book.server}`, { timeout: HUNG_MS, skip: book.skip }, async (t) => {
    const { worker } = await ready();
    const session = await connect(t, worker.url);
    await runSteps(t, session, book);
    await session.transport.terminateSession();
  });
}

const everything = front(() => startEverything("sse"));
for (const [name, body] of steps) {
  test(`everything: ${name}`, { timeout: HUNG_MS }, async (t) => {
    const { worker } = await everything();
    await body(await connect(t, worker.url));
  });
}

test("a call goes on after its connection was cut", { timeout: HUNG_MS }, async (t) => {
  const { worker } = await everything();
  const cutter = await startCutter(worker.port);
  t.after(() => cutter.close());
  const { client, received, exchanges } = await connect(t, cutter.url);
  const call = { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 10 } };
  let cuts = 0;
  const onprogress = ({ progress }) => {
    if (progress === 2) cuts += cutter.cut("tools/call");
  };
  assert.match(textOf(await client.callTool(call, undefined, { onprogress })), /completed/);
  assert.equal(cuts, 1);
  // Whatever was on its way when the connection was cut has come with the rest, and once.
  assert.deepEqual(
    progressOf(received),
    Array.from({ length: 10 }, (_, n) => n + 1),
  );
  assert.equal(exchanges.filter(({ last }) => last).length, 1, "GETs with a Last-Event-ID");
  assertOnce(received);
});

/** The server says this unasked. */
const say = (server, data) =>
  server.push({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data } });

test("a listening stream that was cut goes on, and nothing is lost or told twice", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t);
  const cutter = await startCutter(worker.port);
  t.after(() => cutter.close());
  const { received, seen, exchanged } = await connect(t, cutter.url);
  const heard = (text) => seen("notifications/message", ({ params }) => params.data === text);
  await exchanged(({ method, status }) => method === "GET" && status === 200);
  say(server, "before");
  await heard("before");
  assert.equal(cutter.cut("GET /mcp"), 1);
  say(server, "meanwhile");
  await heard("meanwhile");
  say(server, "after");
  await heard("after");
  assert.deepEqual(
    received.filter(({ method }) => method === "notifications/message").map(({ params }) => params.data),
    ["before", "meanwhile", "after"],
  );
});

// The SDK takes an error for no answer, and asks for the rest of a stream that has ended. If it got
// another stream, it would have two to listen on, each of which would replace the other for ever.
for (const [what, provoke] of [
  ["an error", ({ client }) => assert.rejects(client.callTool({ name: "nonsense" }), { code: -32602 })],
  ["a cancellation", cancelOne],
]) {
  test(`after ${what} the client is told not to come back for more`, { timeout: HUNG_MS }, async (t) => {
    const { server, worker } = await alone(t, undefined, { STREAM_AFTER_MS: "0" });
    const session = await connect(t, worker.url);
    await session.exchanged(({ method, status }) => method === "GET" && status === 200);
    await provoke({ ...session, server });
    await session.exchanged(({ last, status }) => last && status === 204);
    say(server, "still here");
    await session.seen("notifications/message", ({ params }) => params.data === "still here");
    assert.deepEqual(
      session.exchanges.filter(({ method }) => method === "GET").map(({ status }) => status),
      [200, 204],
    );
  });
}

async function cancelOne({ client, server }) {
  const controller = new AbortController();
  const call = client.callTool({ name: "never" }, undefined, { signal: controller.signal });
  await server.seen("POST /messages tools/call");
  controller.abort("enough");
  await assert.rejects(call);
  await server.seen("POST /messages notifications/cancelled");
}

test("a session that the client has ended is no more", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t);
  const { transport } = await connect(t, worker.url);
  const { sessionId } = transport;
  await transport.terminateSession();
  await server.deserted();
  const headers = { "mcp-session-id": sessionId, accept: "text/event-stream" };
  assert.equal((await fetch(`${worker.url}/mcp`, { headers })).status, 404);
});

const pythonServer = front(() => startPython());

test("a session of the Python SDK's client", { timeout: HUNG_MS, skip: withoutPython }, async (t) => {
  const { worker } = await pythonServer();
  const { tools, ...seen } = await playPython(t, "converse", worker.url);
  assert.ok(tools.includes("echo"));
  assert.deepEqual(seen, {
    version: "2025-11-25",
    echo: "größer 👋",
    progress: [1, 2, 3, 4],
    slow: "4 steps",
    logs: ["step 1", "step 2", "step 3", "step 4", "noted"],
    sample: "sampled re: why?",
    elicit: "accept Ada",
    motto: "as above, so below",
    visit: "Visit Rome",
    changes: ["notifications/tools/list_changed"],
    sprout: "I am sprout",
    many: Array.from({ length: 20 }, (_, n) => `m${n}`),
    unknown: true,
  });
});

/** No answer came twice. */
function assertOnce(received) {
  const ids = received.filter(({ method }) => method === undefined).map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
}
