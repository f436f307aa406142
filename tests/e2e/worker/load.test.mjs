// Many at once: each request is answered once, on its own stream, and nothing of a session is seen in
// another. The server takes its time at random, so that answers overtake each other.

import assert from "node:assert/strict";
import { scene } from "./scene.mjs";

const CALLS = 200;
const SESSIONS = 100;
const CALLS_EACH = 5;
/** Which object, and what proves that one was told so: 128 bits that nobody guesses. */
const SESSION_ID = /^(?<object>[0-9a-f]{64})\.(?<secret>[0-9a-f]{32})$/;

/** Pseudo-random delays, the same in every run. */
function* delays(seed) {
  for (let state = seed; ; state = (state * 1103515245 + 12345) % 2 ** 31) yield state % 300;
}

scene(`${CALLS} calls at once in one session`, {}, async ({ server, join }) => {
  const client = await join();
  const listening = await client.listen();
  await Promise.all(take(CALLS, 1).map((delay, n) => echo(client, `${n}`, delay)));
  client.verify();
  assert.deepEqual(listening.messages, [], "nothing belongs to nobody");
  assert.equal(server.requests("GET /sse").length, 1);
  await client.leave();
  await server.deserted();
});

scene(`${SESSIONS} sessions at once, ${CALLS_EACH} calls in each`, {}, async ({ server, join }) => {
  const clients = await Promise.all(Array.from({ length: SESSIONS }, () => join()));
  for (const { session } of clients) assert.match(session, SESSION_ID);
  const ids = clients.map(({ session }) => SESSION_ID.exec(session).groups);
  for (const part of ["object", "secret"]) assert.equal(new Set(ids.map((id) => id[part])).size, SESSIONS, part);
  assert.equal(server.sessions.size, SESSIONS);
  await Promise.all(
    clients.flatMap((client, at) => take(CALLS_EACH, at + 2).map((delay, n) => echo(client, `${at}-${n}`, delay))),
  );
  for (const client of clients) client.verify();
  await Promise.all(clients.map((client) => client.leave()));
  await server.deserted();
});

scene("what the server says unasked reaches one stream of one session", {}, async ({ server, join }) => {
  const others = await Promise.all(Array.from({ length: 3 }, () => join()));
  // The newest stream of the server, on which it is going to speak.
  const client = await join();
  const listening = await client.listen();
  const held = await Promise.all(["a", "b", "c"].map((gate) => client.startCall("hold", { gate })));
  await server.seen("POST /messages tools/call", held.length);
  const changed = "notifications/tools/list_changed";
  server.push({ jsonrpc: "2.0", method: changed });
  await listening.notification(changed);
  for (const gate of ["a", "b", "c"]) server.gate(gate).open();
  await Promise.all(held.map((response) => response.ended()));
  await Promise.all(others.map((other) => other.call("echo")));
  client.verify();
  const streams = [client, ...others].flatMap((each) => each.streamsWith(({ method }) => method === changed));
  assert.deepEqual(streams, [listening]);
});

scene("what finds no stream waits for one, and is told once", {}, async ({ server, join }) => {
  const client = await join();
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  server.push({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "last" } });
  const listening = await client.listen();
  await listening.notification("notifications/message");
  await client.call("echo");
  assert.deepEqual(
    client.messages.filter(({ method }) => method).map(({ method }) => method),
    ["notifications/tools/list_changed", "notifications/message"],
  );
});

scene("questions of the server, many at once, are each answered by their own session", {}, async ({ join }) => {
  const clients = await Promise.all(Array.from({ length: 10 }, () => join()));
  const asked = clients.map(async (client, at) => {
    const response = await client.startCall("ask", {
      requests: [{ method: "sampling/createMessage", params: { at } }],
    });
    const question = await response.message("a question", ({ method }) => method === "sampling/createMessage");
    assert.equal(question.params.at, at);
    assert.equal((await client.post({ id: question.id, result: { at } })).status, 202);
    const { result } = await response.message("the answer", ({ result }) => result);
    assert.deepEqual(result.structuredContent.answers[0].result, { at });
  });
  await Promise.all(asked);
});

const take = (count, seed) => delays(seed).take(count).toArray();

async function echo(client, text, delay) {
  const { result } = await client.call("echo", { text, delay });
  assert.deepEqual(result.structuredContent, { text, delay });
}
