// Sessions that nobody uses cost money: their streams are closed, and in the end they are forgotten.

import assert from "node:assert/strict";
import { endpoints } from "../../fixtures/sse-server.mjs";
import { scene } from "./scene.mjs";

const INITIALIZE = "POST /messages initialize";
const variables = { IDLE_SECONDS: "2", ALARM_SECONDS: "1" };

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
