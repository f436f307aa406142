// Real peers on both sides of the Worker: the official SDK's client over Streamable HTTP, and servers
// that speak HTTP+SSE. The client is the stock one; that connections get lost is the cutter's doing.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { books } from "../books.mjs";
import { steps } from "../everything.mjs";
import { startEverything } from "../processes.mjs";
import { connectOver, progressOf, textOf } from "../sdk.mjs";
import { runSteps } from "../steps.mjs";
import { startCutter } from "./cutter.mjs";
import { startWorker } from "./workerd.mjs";

const HUNG_MS = 60_000;
const MIB = 1024 * 1024;

/** Room for the biggest messages of the scenario, which are over the Worker's own limits. */
const variables = {
  PUBLIC: "1",
  ALLOW_HTTP: "1",
  MAX_BODY_BYTES: String(16 * MIB),
  MAX_EVENT_BYTES: String(16 * MIB),
};

/** A server and the Worker before it, started by the first test that asks. */
function front(start) {
  let started;
  after(async () => {
    const { worker, server } = (await started) ?? {};
    await worker?.stop();
    await server?.close();
  });
  const launch = async () => {
    const server = await start();
    return { server, worker: await startWorker({ UPSTREAM_URL: server.url, ...variables }) };
  };
  return () => (started ??= launch());
}

/** Connects the SDK's client; `exchanges` has what it asked by HTTP, with the status of the answer. */
async function connect(t, url) {
  const exchanges = [];
  const watch = async (input, init) => {
    const exchange = { method: init.method, last: new Headers(init.headers).get("last-event-id") };
    exchanges.push(exchange);
    exchange.response = fetch(input, init);
    const { status } = await exchange.response;
    exchange.status = status;
    return exchange.response;
  };
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { fetch: watch });
  const connected = await connectOver(transport);
  t.after(() => connected.client.close());
  return { ...connected, transport, exchanges };
}

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

const fixture = front(() => startSseServer());

test("a listening stream that was cut is taken up again, and nothing is lost or told twice", {
  timeout: HUNG_MS,
}, async (t) => {
  const { server, worker } = await fixture();
  const cutter = await startCutter(worker.port);
  t.after(() => cutter.close());
  const { client, received, seen } = await connect(t, cutter.url);
  const say = (text) => server.push({ jsonrpc: "2.0", method: "notifications/message", params: log(text) });
  const heard = (text) => seen("notifications/message", ({ params }) => params.data === text);
  say("before");
  await heard("before");
  assert.equal(cutter.cut("GET /mcp"), 1);
  say("meanwhile");
  await heard("meanwhile");
  say("after");
  await heard("after");
  assert.deepEqual(
    received.filter(({ method }) => method === "notifications/message").map(({ params }) => params.data),
    ["before", "meanwhile", "after"],
  );
  await client.close();
});

test("after an error the client does not come back for more, nor lose its listening stream", {
  timeout: HUNG_MS,
}, async (t) => {
  const { server, worker } = await fixture();
  const { client, exchanges, seen } = await connect(t, worker.url);
  await assert.rejects(client.callTool({ name: "nonsense", arguments: {} }), { code: -32602 });
  // The SDK takes an error for no answer, and asks for the rest of a stream that has ended.
  const asked = await until(() => exchanges.find(({ last }) => last));
  assert.equal((await asked.response).status, 204, "there is no rest");
  server.push({ jsonrpc: "2.0", method: "notifications/message", params: log("still here") });
  await seen("notifications/message", ({ params }) => params.data === "still here");
  assert.deepEqual(
    exchanges.filter(({ method }) => method === "GET").map(({ status }) => status),
    [200, 204],
  );
});

test("a session that the client has ended is no more", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await fixture();
  const { client, transport } = await connect(t, worker.url);
  const { sessionId } = transport;
  await transport.terminateSession();
  await server.deserted();
  assert.equal(transport.sessionId, undefined);
  const headers = { "mcp-session-id": sessionId, accept: "text/event-stream" };
  assert.equal((await fetch(`${worker.url}/mcp`, { headers })).status, 404);
  await client.close();
});

const log = (data) => ({ level: "info", data });

/** Resolves with the first true value of `probe`, asked again with every turn of the loop. */
async function until(probe) {
  for (let value = probe(); ; value = probe()) {
    if (value) return value;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** No answer came twice. */
function assertOnce(received) {
  const ids = received.filter(({ method }) => method === undefined).map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
}
