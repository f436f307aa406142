// What an operator reads: JSON lines that say what happened, in words that are ours. Nothing of what
// was said, and nothing that would let anybody in, is ever printed, by us or by the runtime.

import assert from "node:assert/strict";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { scene } from "./scene.mjs";

const TOKEN = "correct-horse-battery";
const SECRET = "operator-only-credentials";
const KEY = "key-in-the-query";
/** Stands in bodies, both ways. */
const MARKER = "whispered-in-confidence";
const CALL = "POST /messages tools/call";

const variables = {
  PUBLIC: "0",
  VERBOSE: "1",
  FRONT_TOKEN: TOKEN,
  UPSTREAM_AUTHORIZATION: `Bearer ${SECRET}`,
};
const headers = { authorization: `Bearer ${TOKEN}` };

scene(
  "the log says what happened, and gives nothing away",
  { variables, query: `?key=${KEY}` },
  async ({ t, server, worker, connect, join }) => {
    const client = await join({ headers });
    const { query, headers: given } = server.requests("GET /sse")[0];
    assert.deepEqual([query.get("key"), given.authorization], [KEY, `Bearer ${SECRET}`]);
    const { result } = await client.call("echo", { text: MARKER });
    assert.equal(result.structuredContent.text, MARKER);
    await told(worker, "info", "INIT", "HTTP+SSE, protocol 2025-11-25");

    await isTurnedAway(client, connect);
    await told(worker, "warn", "EDGE", "a request came without the credentials that it needs", 2);
    await told(worker, "warn", "EDGE", "the Origin of a request is not in ALLOWED_ORIGINS");
    await saysNonsense(client);
    await isServedBadly(client, server);
    await told(worker, "warn", "SERVER", "the server sent no message: not valid JSON");

    await losesItsServer(t, client, server);
    await told(worker, "info", "SSE", "the event stream ended, and the session with it");
    await told(worker, "warn", "SESSION", "the server opened no new session");
    await told(worker, "info", "SESSION", "a new session is open");
    await worker.restart();
    assert.ok((await client.call("echo", { text: MARKER })).result);
    await told(worker, "info", "SESSION", "a new session is open", 2);
    await client.leave();

    // What is printed last counts, too.
    await worker.kill();
    const printed = worker.stderr();
    for (const line of ours(printed)) assertPlain(line);
    const halves = client.session.split(".");
    assert.equal(halves.length, 2);
    for (const word of [TOKEN, SECRET, KEY, MARKER, ...halves]) assert.ok(!printed.includes(word), word);
  },
);

/** Whoever has no token, or comes from a foreign page, gets no further than the door. */
async function isTurnedAway(client, connect) {
  for (const [status, own] of [
    [401, {}],
    [401, { authorization: `Bearer ${TOKEN}-and-more` }],
    [403, { ...headers, origin: `https://${MARKER}.example` }],
  ]) {
    const response = await connect().send("POST", { headers: client.named(own), body: MARKER });
    assert.equal(response.status, status);
  }
}

/** The client sends what is no message, and asks for sessions that are none. */
async function saysNonsense(client) {
  const post = async (own, body) => (await client.send("POST", { headers: client.named(own), body })).status;
  const [object] = client.session.split(".");
  assert.equal(await post({}, `{"${MARKER}`), 400);
  assert.equal(await post({ "mcp-session-id": `${object}.${MARKER}` }, "{}"), 404);
  assert.equal(await post({ "mcp-session-id": MARKER }, "{}"), 404);
}

/** The server breaks an event, and refuses a call with a page. */
async function isServedBadly(client, server) {
  server.push(`{"${MARKER}": "${SECRET}`);
  server.once(CALL, (exchange) => exchange.reply(500, { "content-type": "text/html" }, `<p>${MARKER}</p>`));
  assert.equal((await client.call("echo", { text: MARKER })).error.data.httpStatus, 500);
}

/** The server dies in the middle of a call, is not there for the next one, and then is back. */
async function losesItsServer(t, client, server) {
  const call = await client.startCall("never", { text: MARKER }, { id: MARKER });
  await server.seen(CALL, 3);
  await server.close();
  assert.equal((await call.answer(MARKER)).error.data.delivered, "maybe");
  assert.equal((await client.call("echo", { text: MARKER })).error.data.delivered, "no");
  const back = await startSseServer({ port: server.port });
  t.after(() => back.close());
  assert.ok((await client.call("echo", { text: MARKER })).result);
}

/** Resolves once the Worker has logged this so many times, always in the same way. */
async function told(worker, level, tag, message, times = 1) {
  await worker.said(JSON.stringify(message), times);
  const lines = ours(worker.stderr()).filter((line) => line.message === message);
  for (const line of lines) assert.deepEqual(line, { level, tag, message });
}

/** The lines of the log; the runtime's own are no JSON. */
const ours = (printed) =>
  printed
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line));

/** It has a level, a tag and a message, and nothing else. */
function assertPlain(line) {
  assert.deepEqual(Object.keys(line).toSorted(), ["level", "message", "tag"]);
  assert.ok(["info", "warn", "error"].includes(line.level), line.level);
  assert.match(line.tag, /^[A-Z]+$/);
  assert.ok(line.message.length > 0);
}
