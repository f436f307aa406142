// The runtime is killed and comes back, as with a deploy, an eviction or a crash: the session goes on
// under its id, open requests are answered honestly, and what the client had set is set again.

import assert from "node:assert/strict";
import { open, scene } from "./scene.mjs";
import { startWorker } from "./workerd.mjs";

const INITIALIZE = "POST /messages initialize";
const SUBSCRIBE = "POST /messages resources/subscribe";
const LEVEL = "POST /messages logging/setLevel";

const server = {
  methods: { "resources/subscribe": () => ({}), "resources/unsubscribe": () => ({}) },
  capabilities: { resources: { subscribe: true, listChanged: true } },
};

scene("a session goes on after a restart", { server }, async ({ server, worker, join }) => {
  const client = await join();
  const { session } = client;
  await client.request("logging/setLevel", { level: "debug" });
  for (const uri of ["test://a", "test://b"]) await client.request("resources/subscribe", { uri });
  await client.request("resources/unsubscribe", { uri: "test://a" });
  const call = await client.startCall("never", {}, { id: "open" });
  const { id: last } = await call.until("an event id", () => call.events.at(-1));
  await server.seen("POST /messages tools/call");

  await worker.restart();
  assert.equal(await call.ended(), "cut");
  await server.deserted();
  const rest = await client.listen(last);
  const { error } = await rest.answer("open");
  assert.deepEqual([error.data.delivered, error.data.retrySafe], ["maybe", false]);
  assert.equal(await rest.ended(), "ended");

  const listening = await client.listen();
  await listening.notification("notifications/tools/list_changed");
  await listening.notification("notifications/resources/list_changed");
  const { result } = await client.call("echo", { text: "same session" });
  assert.equal(result.structuredContent.text, "same session");
  assert.equal(client.session, session);
  const [first, second] = server.requests(INITIALIZE);
  assert.deepEqual(second.message.params, first.message.params);
  assert.equal((await server.seen(LEVEL, 2)).message.params.level, "debug");
  assert.equal((await server.seen(SUBSCRIBE, 3)).message.params.uri, "test://b");
  assert.equal(server.requests("POST /messages tools/call").length, 2, "the open call is not sent again");
  await client.leave();
  await server.deserted();
  await worker.restart();
  assert.equal((await client.listen()).status, 404, "an ended session stays ended");
});

scene("many calls at once bring a session back once", {}, async ({ server, worker, join }) => {
  const client = await join();
  await worker.restart();
  const results = await Promise.all(Array.from({ length: 20 }, (_, n) => client.call("echo", { n })));
  assert.deepEqual(
    results.map(({ result }) => result.structuredContent.n),
    results.map((_, n) => n),
  );
  client.verify();
  assert.equal(server.requests(INITIALIZE).length, 2);
  assert.equal(server.sessions.size, 1);
});

scene("twenty sessions survive a restart in the middle of their calls", {}, async ({ server, worker, join }) => {
  const clients = await Promise.all(Array.from({ length: 20 }, () => join()));
  const calls = await Promise.all(clients.map((client) => client.startCall("never", {}, { id: "open" })));
  const last = await Promise.all(calls.map((call) => call.until("an event id", () => call.events.at(-1)?.id)));
  await server.seen("POST /messages tools/call", clients.length);
  await worker.restart();
  await server.deserted();
  const rests = await Promise.all(clients.map((client, at) => client.listen(last[at])));
  for (const rest of rests) assert.equal((await rest.answer("open")).error.data.delivered, "maybe");
  const results = await Promise.all(clients.map((client, at) => client.call("echo", { at })));
  assert.deepEqual(
    results.map(({ result }) => result.structuredContent.at),
    clients.map((_, at) => at),
  );
  assert.equal(server.sessions.size, clients.length);
});

scene(
  "a restart ends the session, where sessions do not recover",
  {
    variables: { SESSION_RECOVERY: "off" },
  },
  async ({ server, worker, join }) => {
    const client = await join();
    await server.seen("POST /messages notifications/initialized");
    await worker.restart();
    await server.deserted();
    const seen = server.log.length;
    assert.equal((await client.startCall("echo")).status, 404);
    assert.equal((await client.listen()).status, 404);
    assert.equal((await client.send("DELETE", { headers: client.named() })).status, 404);
    assert.equal(server.log.length, seen, "nothing reaches the server");
    await join();
  },
);

scene(
  "a session does not come back to a Worker that was told not to recover any",
  {},
  async ({ t, worker, server, join }) => {
    const client = await join();
    await worker.kill();
    const variables = { ...open, UPSTREAM_URL: server.url, SESSION_RECOVERY: "off" };
    const other = await startWorker(variables, { dir: worker.dir });
    t.after(() => other.stop());
    client.move(other);
    assert.equal((await client.startCall("echo")).status, 404);
  },
);
