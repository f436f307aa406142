// Real peers of which one dies: the runtime of the Worker, or the server. The stock clients of the SDKs
// go on with the session that they have, and are told honestly what became of their calls.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startEverything, startPython, withoutPython } from "../processes.mjs";
import { textOf } from "../sdk.mjs";
import { startCutter } from "./cutter.mjs";
import { HUNG_MS, alone, connect, playPython } from "./peers.mjs";

const CALL = "POST /messages tools/call";
const INITIALIZE = "POST /messages initialize";
const CHANGED = "notifications/tools/list_changed";

/**
 * A fixture server, the Worker, and the way to it. Clients give up after two vain tries; `restart` lets
 * whoever comes meanwhile wait, so that it does not matter how long the Worker takes.
 */
async function restartable(t, variables) {
  const { server, worker } = await alone(t, undefined, variables);
  const cutter = await startCutter(worker.port);
  t.after(() => cutter.close());
  const restart = async () => {
    const release = cutter.hold();
    await worker.restart();
    release();
  };
  return { server, url: cutter.url, restart };
}

test("the TypeScript SDK's client goes on after a restart of the Worker", { timeout: HUNG_MS }, async (t) => {
  const { server, url, restart } = await restartable(t);
  const { client, transport, received, seen, exchanges, exchanged } = await connect(t, url);
  await exchanged(({ method, status }) => method === "GET" && status === 200);
  const { sessionId } = transport;
  const pending = assert.rejects(client.callTool({ name: "never" }), isHonest);
  await server.seen(CALL);
  await exchanged(({ message, status }) => message?.params?.name === "never" && status === 200);
  await restart();
  await pending;
  await seen(CHANGED);
  const { structuredContent } = await client.callTool({ name: "echo", arguments: { text: "again" } });
  assert.deepEqual(structuredContent, { text: "again" });
  assert.equal(transport.sessionId, sessionId);
  assert.equal(exchanges.filter(({ message }) => message?.method === "initialize").length, 1);
  assert.equal(server.requests(INITIALIZE).length, 2, "the Worker has repeated it");
  assert.equal(server.requests(CALL).length, 2, "what may have been carried out is not sent again");
  assertOneError(received);
  assert.equal(received.filter(({ method }) => method === CHANGED).length, 1);
});

test("a call whose response has not begun fails with its connection, and the session goes on", { timeout: HUNG_MS }, async (t) => {
  const { server, url, restart } = await restartable(t, { STREAM_AFTER_MS: "60000" });
  const { client, received, seen, exchanged } = await connect(t, url);
  await exchanged(({ method, status }) => method === "GET" && status === 200);
  const pending = assert.rejects(client.callTool({ name: "never" }));
  await server.seen(CALL);
  await restart();
  await pending;
  await seen(CHANGED);
  const { structuredContent } = await client.callTool({ name: "echo", arguments: { text: "again" } });
  assert.deepEqual(structuredContent, { text: "again" });
  assert.equal(server.requests(CALL).length, 2, "what may have been carried out is not sent again");
  assert.equal(received.filter(({ error }) => error).length, 0, "nobody hears of it twice");
});

test("the Python SDK's client goes on after a restart", { timeout: HUNG_MS, skip: withoutPython }, async (t) => {
  const { server, url, restart } = await restartable(t, { STREAM_AFTER_MS: "0" });
  const played = playPython(t, "survive", url);
  await server.seen(CALL);
  await restart();
  const { error, echo, changes } = await played;
  assert.ok(isHonest(error));
  assert.deepEqual(echo, { text: "again" });
  assert.deepEqual(changes, [CHANGED]);
  assert.equal(server.requests(INITIALIZE).length, 2, "once by the client, and once by the Worker");
  await server.deserted();
});

/** Servers as they are installed: how to start one, a call that takes long, and one that does not. */
const mortals = [
  {
    server: "everything over sse",
    start: (port) => startEverything("sse", port),
    slow: { name: "trigger-long-running-operation", arguments: { duration: 600, steps: 6000 } },
    quick: [{ name: "echo", arguments: { message: "again" } }, "Echo: again"],
  },
  {
    server: "the Python SDK over sse",
    skip: withoutPython,
    start: startPython,
    slow: { name: "slow", arguments: { seconds: 600, steps: 6000 } },
    quick: [{ name: "echo", arguments: { text: "again" } }, "again"],
  },
];

for (const { server: name, skip, start, slow, quick } of mortals) {
  test(`${name} is killed in a call, and found again`, { timeout: HUNG_MS, skip }, async (t) => {
    const { server, worker } = await alone(t, start);
    const { client, transport, received } = await connect(t, worker.url);
    const { sessionId } = transport;
    const underWay = Promise.withResolvers();
    const call = client.callTool(slow, undefined, { onprogress: underWay.resolve });
    const pending = assert.rejects(call, isHonest);
    await underWay.promise;
    await server.close();
    await pending;
    const back = await start(server.port);
    t.after(() => back.close());
    const [again, answer] = quick;
    assert.equal(textOf(await client.callTool(again)), answer);
    assert.equal(transport.sessionId, sessionId);
    assertOneError(received);
  });
}

/** It says that the call may have been carried out. */
function isHonest({ code, data }) {
  assert.deepEqual([code, data?.delivered, data?.retrySafe], [-32000, "maybe", false]);
  return true;
}

function assertOneError(received) {
  assert.equal(received.filter(({ error }) => error).length, 1);
}
