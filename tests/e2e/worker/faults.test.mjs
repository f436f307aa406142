// Clients that leave and servers that fail: whoever waits is told once and honestly, the others go on,
// and nothing stays behind.

import assert from "node:assert/strict";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { scene } from "./scene.mjs";

const CALL = "POST /messages tools/call";
/** Local workerd notices that a client has gone when it writes to it. */
const HEARTBEAT = { HEARTBEAT_SECONDS: "1" };

scene("a client that leaves a call has not cancelled it", { variables: HEARTBEAT }, async ({ server, join }) => {
  const client = await join();
  const call = await client.startCall("hold", { gate: "late" }, { id: "held" });
  await server.seen(CALL);
  const { id: last } = await call.until("an event id", () => call.events.at(-1));
  call.drop();
  assert.deepEqual(await resultOf(client, "other"), { text: "other" });
  server.gate("late").open();
  const rest = await client.listen(last);
  const { result } = await rest.answer("held");
  assert.equal(result.content[0].text, "late");
  assert.equal(await rest.ended(), "ended");
  assert.deepEqual(server.cancelled, []);
  assert.equal(server.requests(CALL).length, 2);
  await client.leave();
  await server.deserted();
});

scene(
  "twenty clients leave in the middle of a call, and nothing stays behind",
  {
    variables: HEARTBEAT,
  },
  async ({ server, join }) => {
    const clients = await Promise.all(Array.from({ length: 20 }, () => join()));
    const calls = await Promise.all(clients.map((client) => client.startCall("hold", { gate: "all" })));
    await Promise.all(clients.map((client) => client.listen()));
    await server.seen(CALL, clients.length);
    for (const call of calls) call.drop();
    server.gate("all").open();
    await Promise.all(clients.map((client) => resultOf(client, "here")));
    await Promise.all(clients.map((client) => client.leave()));
    await server.deserted();
  },
);

scene("a server that dies in a call is replaced when it is back", {}, async ({ t, server, join }) => {
  const client = await join();
  const listening = await client.listen();
  const calls = await Promise.all([
    client.startCall("never", {}, { id: 1001 }),
    client.startCall("never", {}, { id: 1002 }),
  ]);
  await server.seen(CALL, 2);
  await server.close();
  for (const [at, call] of calls.entries()) {
    const { error } = await call.answer(1001 + at);
    assert.equal(error.data.delivered, "maybe");
    assert.equal(error.data.retrySafe, false);
    assert.equal(await call.ended(), "ended");
  }
  const back = await startSseServer({ port: server.port });
  t.after(() => back.close());
  assert.deepEqual(await resultOf(client, "again"), { text: "again" });
  assert.deepEqual(back.requests(CALL).length, 1, "what may have been carried out is not sent again");
  client.verify();
  // Much may be different now: the client is told, on one of its streams.
  assert.equal(client.streamsWith(({ method }) => method === "notifications/tools/list_changed").length, 1);
  assert.equal(listening.over, undefined);
});

scene(
  "a server that dies ends the session, where sessions do not recover",
  {
    variables: { SESSION_RECOVERY: "off" },
  },
  async ({ t, server, join, connect }) => {
    const client = await join();
    const listening = await client.listen();
    const call = await client.startCall("never", {}, { id: 1001 });
    await server.seen(CALL);
    await server.close();
    assert.equal((await call.answer(1001)).error.data.delivered, "maybe");
    assert.equal(await listening.ended(), "ended");
    const back = await startSseServer({ port: server.port });
    t.after(() => back.close());
    assert.equal((await client.startCall("echo")).status, 404);
    assert.equal((await client.listen()).status, 404);
    assert.deepEqual(back.log, []);
    await connect().open();
  },
);

scene("a server that is not there is told as an error to initialize", {}, async ({ server, connect }) => {
  await server.close();
  const client = connect();
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "x", version: "1" } };
  const response = await client.start("initialize", params, 1);
  assert.equal(response.status, 200);
  assert.equal(response.headers["mcp-session-id"], undefined);
  const { error, id } = await response.json();
  assert.deepEqual([id, error.code], [1, -32000]);
});

for (const [what, name, prepare] of [
  ["a POST", "echo", (server) => server.once(CALL, () => {})],
  ["a request", "never", () => {}],
]) {
  scene(
    `a server that never answers ${what} is given up, and the session goes on`,
    {
      variables: { REQUEST_TIMEOUT_SECONDS: "1" },
    },
    async ({ server, join }) => {
      const client = await join();
      prepare(server);
      const { error } = await client.call(name, {}, "slow");
      assert.match(error.message, /no sign of life from the server for 1 s/);
      assert.equal(error.data.delivered, "maybe");
      assert.deepEqual(await resultOf(client, "well"), { text: "well" });
      client.verify();
      assert.equal(server.requests("GET /sse").length, 1, "streams");
    },
  );
}

scene("the end of the server's stream alone is the loss of its session", {}, async ({ server, join }) => {
  const client = await join();
  server.cutStreams("reset");
  await server.deserted();
  assert.deepEqual(await resultOf(client, "anew"), { text: "anew" });
  assert.equal(server.requests("POST /messages initialize").length, 2);
});

async function resultOf(client, text) {
  return (await client.call("echo", { text })).result?.structuredContent;
}
