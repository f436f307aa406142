// Sessions that nobody uses cost money: their streams are closed, and in the end they are forgotten.

import assert from "node:assert/strict";
import { endpoints } from "../../fixtures/sse-server.mjs";
import { scene } from "./scene.mjs";

const INITIALIZE = "POST /messages initialize";
const variables = { IDLE_SECONDS: "2", ALARM_SECONDS: "1" };
/** Local workerd notices that a client has gone when it writes to it. */
const noticing = { ...variables, HEARTBEAT_SECONDS: "1" };

scene(
  "an idle session lets go of its server, and comes back when it is used",
  { variables },
  async ({ server, join }) => {
    const listener = await join();
    await listener.listen();
    await server.listening();
    const [listened] = server.sessions.keys();
    const client = await join();
    for (let round = 1; round <= 2; round += 1) {
      await server.until("one stream less", () => server.sessions.size === 1);
      const before = server.requests(INITIALIZE).length;
      const { result } = await client.call("echo", { round });
      assert.equal(result.structuredContent.round, round);
      assert.equal(server.requests(INITIALIZE).length, before + 1);
    }
    assert.ok(server.sessions.has(listened), "whoever listens is not idle");
  },
);

scene(
  "an idle session is over, where sessions do not recover",
  {
    variables: { ...variables, SESSION_RECOVERY: "off" },
  },
  async ({ server, join }) => {
    const client = await join();
    await server.deserted();
    assert.equal((await client.startCall("echo")).status, 404);
  },
);

scene(
  "a session that nobody comes back for is forgotten",
  {
    variables: { ...variables, SESSION_TTL_SECONDS: "1" },
  },
  async ({ server, worker, join }) => {
    const client = await join();
    await server.deserted();
    await worker.said("forgotten");
    assert.equal((await client.startCall("echo")).status, 404);
  },
);

scene(
  "a client that leaves before its session stands leaves nothing behind",
  {
    variables,
    server: { endpoint: (id, server) => server.gate("endpoint").opened.then(() => endpoints.relative(id, server)) },
  },
  async ({ server, connect }) => {
    const client = connect();
    const opened = client.open();
    opened.catch(() => {});
    await server.seen("GET /sse");
    client.responses[0].drop();
    await assert.rejects(opened);
    server.gate("endpoint").open();
    await server.listening();
    await server.deserted();
  },
);

scene(
  "a request that opens no session leaves nothing that would have to be closed",
  { variables },
  async ({ server, worker, connect, join }) => {
    const { status } = await connect().post({ id: 1, method: "tools/list" });
    assert.equal(status, 400);
    await join();
    await worker.said("idle");
    await server.deserted();
    assert.equal(worker.count("idle"), 1, worker.stderr());
  },
);

scene(
  "a listener that vanishes leaves an idle session, which comes back when it is used",
  { variables: noticing },
  async ({ server, join }) => {
    const client = await join();
    const listening = await client.listen();
    await listening.until("a sign of life", () => listening.comments.length > 0);
    listening.drop();
    await server.deserted();
    const { result } = await client.call("echo", { text: "back" });
    assert.equal(result.structuredContent.text, "back");
    assert.equal(server.requests(INITIALIZE).length, 2);
    const again = await client.listen();
    server.push({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "heard" } });
    assert.equal((await again.notification("notifications/message")).params.data, "heard");
  },
);

scene(
  "a session with an open call is not idle, even where nobody waits for the answer",
  { variables: noticing },
  async ({ server, worker, join }) => {
    const client = await join();
    const call = await client.startCall("hold", { gate: "late" }, { id: "held" });
    await server.seen("POST /messages tools/call");
    const [held] = server.sessions.keys();
    const { id: last } = await call.until("an event id", () => call.events.at(-1));
    call.drop();
    // Each of these sessions is idle for as long as the one that holds the call would have to be.
    for (let round = 1; round <= 3; round += 1) {
      await join();
      await worker.said("idle", round);
    }
    assert.ok(server.sessions.has(held), "its stream is open");
    server.gate("late").open();
    const rest = await client.listen(last);
    const { result } = await rest.answer("held");
    assert.equal(result.content[0].text, "late");
    await server.deserted();
    assert.equal(server.requests(INITIALIZE).length, 4);
  },
);
