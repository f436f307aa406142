// Clients of 2026-07-28 before the Worker, and behind it servers that have sessions: the official SDK's
// client with the reference server "everything", and requests by hand where a test wants to see or break
// what a client would not show.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { envelope, startModernFixture } from "../../fixtures/modern-fixture.mjs";
import { startServer } from "../../fixtures/server.mjs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { steps } from "../everything.mjs";
import { connect, modernKind } from "../modern-clients.mjs";
import { assertEra } from "../modern-steps.mjs";
import { startEverything, startFixture } from "../processes.mjs";
import { HUNG_MS, alone, front } from "./peers.mjs";

const kind = {
  ...modernKind,
  transport: (_shell, url) => new StreamableHTTPClientTransport(new URL(`${url}/mcp`)),
};

/** What a modern client can do with a legacy server; the others need what its era does not have. */
const TRANSLATED = [
  "tools",
  "resources",
  "subscriptions",
  "prompts and completion",
  "progress",
  "sampling inside a call",
  "elicitation inside a call",
  "fifty calls at once",
];

for (const transport of ["streamableHttp", "sse"]) {
  const everything = front(() => startEverything(transport));
  for (const name of TRANSLATED) {
    const [, body] = steps.find(([known]) => known === name) ?? assert.fail(`no step ${name}`);
    test(`everything over ${transport}: ${name}`, { timeout: HUNG_MS }, async (t) => {
      const { worker } = await everything();
      const connected = await connect(kind, undefined, worker.url);
      t.after(() => connected.close());
      await body(connected);
      assertEra(connected);
    });
  }
}

// ---- by hand ----------------------------------------------------------------------------------

const SERVERS = { "Streamable HTTP": startServer, "HTTP+SSE": startSseServer };
/** Whether the proxy has ended its sessions with a server, `round` of them. */
const CLOSED = {
  "Streamable HTTP": (server, round) => server.requests("DELETE").length === round,
  "HTTP+SSE": (server) => server.sessions.size === 0,
};

const PARAMS = { message: "Who?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } };
const asks = (id) => ({ requests: [{ method: "elicitation/create", params: PARAMS, id }] });
const ABLE = { elicitation: {} };
const ADA = { action: "accept", content: { name: "Ada" } };

/** Posts a request of 2026-07-28; resolves with the status and the last message of the response. */
async function post(worker, id, method, params, { capabilities = {}, headers = {} } = {}) {
  const named = params.name === undefined ? {} : { "mcp-name": params.name };
  const response = await fetch(`${worker.url}/mcp`, {
    method: "POST",
    headers: {
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": method,
      ...named,
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: envelope(capabilities) } }),
  });
  const text = await response.text();
  const events = text.split("\n").filter((line) => line.startsWith("data: "));
  return { status: response.status, ...JSON.parse(events.at(-1)?.slice("data: ".length) ?? text) };
}

/** Calls a tool that asks the client the question `q`. */
const ask = (worker, id, more = {}, { q = "q", ...options } = {}) =>
  post(worker, id, "tools/call", { name: "ask", arguments: asks(q), ...more }, { capabilities: ABLE, ...options });

const echo = (worker, id, args) => post(worker, id, "tools/call", { name: "echo", arguments: args });

/** A call that waits for its client; resolves with the state. */
async function parked(worker, id, { q = "q", ...options } = {}) {
  const { result } = await ask(worker, id, {}, { q, ...options });
  assert.deepEqual([result?.resultType, Object.keys(result?.inputRequests ?? {})], ["input_required", [q]]);
  return result.requestState;
}

const answers = (requestState, q = "q") => ({ inputResponses: { [q]: ADA }, requestState });
const answerIn = ({ result }) => result?.structuredContent.answers[0].result;

/** What the server was sent with this method, over either transport. */
const sent = (server, method) => server.log.filter(({ message }) => message?.method === method);

for (const [transport, start] of Object.entries(SERVERS)) {
  const scene = (name, body) =>
    test(`${name}: ${transport}`, { timeout: HUNG_MS }, async (t) => body(await alone(t, start)));

  scene("clients with the same ids share one session and one handshake", async ({ server, worker }) => {
    const results = await Promise.all(Array.from({ length: 20 }, (_, n) => echo(worker, 7, { n })));
    assert.deepEqual(
      results.map(({ id, result }) => [id, result?.structuredContent.n]),
      results.map((_, n) => [7, n]),
    );
    assert.equal(sent(server, "notifications/initialized").length, 1);
  });

  scene("a call is parked, and the retry goes on with it, once", async ({ server, worker }) => {
    const state = await parked(worker, 1);
    const retried = await ask(worker, 2, answers(state));
    assert.deepEqual([retried.id, answerIn(retried)], [2, ADA]);
    assert.equal((await ask(worker, 3, answers(state))).error?.code, -32602);
    assert.equal(sent(server, "tools/call").length, 1);
  });

  scene("two retries race: one goes on, the other is told", async ({ server, worker }) => {
    const state = await parked(worker, 1);
    const both = await Promise.all([ask(worker, 2, answers(state)), ask(worker, 3, answers(state))]);
    const outcomes = both.map(({ result, error }) => result?.resultType ?? error?.code).sort();
    assert.deepEqual(outcomes, [-32602, "complete"]);
    assert.equal(sent(server, "tools/call").length, 1);
  });

  scene("a state that is altered, or used for another tool, is refused", async ({ server, worker }) => {
    const state = await parked(worker, 1);
    const altered = `${state.slice(0, -4)}${state.endsWith("AAAA") ? "BBBB" : "AAAA"}`;
    assert.equal((await ask(worker, 2, answers(altered))).error?.code, -32602);
    const other = { name: "echo", arguments: asks("q"), ...answers(state) };
    assert.equal((await post(worker, 3, "tools/call", other, { capabilities: ABLE })).error?.code, -32602);
    assert.equal(sent(server, "tools/call").length, 1);
    assert.deepEqual(answerIn(await ask(worker, 4, answers(state))), ADA);
  });

  scene("a restart of the Worker loses what is parked, and says so", async ({ server, worker }) => {
    const state = await parked(worker, 1);
    await worker.restart();
    assert.equal((await ask(worker, 2, answers(state))).error?.code, -32602);
    assert.deepEqual((await echo(worker, 3, { n: 1 })).result?.structuredContent, { n: 1 });
    const asked = sent(server, "tools/call").filter(({ message }) => message.params.name === "ask");
    assert.equal(asked.length, 1);
  });

  scene("calls do not get each other's questions", async ({ worker }) => {
    const questions = ["a", "b", "c"];
    const states = await Promise.all(questions.map((q) => parked(worker, 1, { q })));
    const retry = (q, at) => ask(worker, 2, answers(states[at], q), { q });
    const results = await Promise.all(questions.map(retry));
    assert.deepEqual(results.map(answerIn), [ADA, ADA, ADA]);
  });

  scene("after the first call, a call is one request", async ({ server, worker }) => {
    await echo(worker, 1, {});
    await server.until("the session is open", () => sent(server, "notifications/initialized").length > 0);
    await server.until("the stream is open", () => server.log.some(({ method }) => method === "GET"));
    const before = server.log.length;
    await echo(worker, 2, {});
    assert.deepEqual(
      server.log.slice(before).map(({ message }) => message?.method),
      ["tools/call"],
    );
  });
}

const logged = (start) => () => start({ logDiscover: true });

/** Twenty first calls at once of a client that can answer questions. */
const rush = (worker) =>
  Promise.all(
    Array.from({ length: 20 }, async (_, n) => {
      const params = { name: "echo", arguments: { n } };
      const { result } = await post(worker, n, "tools/call", params, { capabilities: ABLE });
      assert.equal(result?.structuredContent.n, n);
    }),
  );

for (const [what, start, handshake] of [
  ["a Streamable HTTP server", startServer, "initialize"],
  ["a modern server", startModernFixture, "server/discover"],
])
  test(`first calls that may ask share one handshake before ${what}`, { timeout: HUNG_MS }, async (t) => {
    const { server, worker } = await alone(t, logged(start));
    await rush(worker);
    for (const method of ["server/discover", handshake]) assert.equal(sent(server, method).length, 1, method);
  });

test("the objects of an HTTP+SSE server ask for its era once", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t, logged(startSseServer));
  await rush(worker);
  assert.equal(sent(server, "server/discover").length, 1);
  // Only the first object has tried Streamable HTTP.
  assert.equal(server.requests("POST /sse initialize").length, 1);
});

test("a session id on a modern request is ignored", { timeout: HUNG_MS }, async (t) => {
  const { worker } = await alone(t, startServer);
  for (const session of ["x", `${"0".repeat(64)}.${"0".repeat(32)}`]) {
    const headers = { "mcp-session-id": session };
    const { status, result } = await post(worker, 1, "tools/call", { name: "echo", arguments: { session } }, { headers });
    assert.deepEqual([status, result?.structuredContent], [200, { session }]);
  }
});

test("a notification of a modern client needs no version in its headers", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t, startServer);
  const notify = async (headers, meta) => {
    const params = { requestId: 1, ...meta };
    const body = JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params });
    const types = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    const response = await fetch(`${worker.url}/mcp`, { method: "POST", headers: { ...types, ...headers }, body });
    await response.text();
    return response.status;
  };
  assert.equal(await notify({ "mcp-protocol-version": "2026-07-28" }), 202);
  assert.equal(await notify({ "mcp-method": "notifications/cancelled" }), 202);
  assert.equal(await notify({}, { _meta: envelope() }), 202);
  // Nothing says that this client is not a legacy one that has lost its session.
  assert.equal(await notify({}), 400);
  assert.deepEqual(server.log, []);
});

test("a restart of the Worker leaves no session open at the server", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t, startServer);
  const state = await parked(worker, 1);
  await worker.restart();
  assert.equal((await ask(worker, 2, answers(state))).error?.code, -32602);
  assert.deepEqual((await echo(worker, 3, { n: 1 })).result?.structuredContent, { n: 1 });
  const first = server.requests("POST notifications/initialized")[0].headers;
  const { headers } = await server.seen("DELETE");
  for (const name of ["mcp-session-id", "mcp-protocol-version"]) assert.equal(headers[name], first[name]);
});

test("a client has so many objects at most, and no object is made for more", { timeout: HUNG_MS }, async (t) => {
  const { server, worker } = await alone(t, startServer, { MAX_SESSIONS: "2" });
  const list = (kind) => post(worker, 1, "tools/list", {}, { capabilities: { experimental: { [kind]: {} } } });
  for (const kind of ["a", "b"]) assert.ok((await list(kind)).result);
  const refused = await list("c");
  assert.equal(refused.status, 429, JSON.stringify(refused));
  assert.match(refused.error.message, /MAX_SESSIONS/);
  assert.ok((await list("a")).result);
  assert.equal(sent(server, "notifications/initialized").length, 2);
});

for (const [transport, start] of Object.entries(SERVERS)) {
  test(`a state is of no use to another principal: ${transport}`, { timeout: HUNG_MS }, async (t) => {
    const { server, worker } = await alone(t, start, { PUBLIC: "", FORWARD_AUTHORIZATION: "1" });
    const as = (name) => ({ headers: { authorization: `Bearer ${name}` } });
    const state = await parked(worker, 1, as("ada"));
    const stolen = await ask(worker, 2, answers(state), as("eve"));
    assert.equal(stolen.error?.code, -32602, JSON.stringify(stolen));
    assert.deepEqual(answerIn(await ask(worker, 3, answers(state), as("ada"))), ADA);
    assert.equal(sent(server, "tools/call").length, 1);
  });

  const idle = `an idle object lets go of its server, and comes back when it is used: ${transport}`;
  test(idle, { timeout: HUNG_MS }, async (t) => {
    const { server, worker } = await alone(t, start, { IDLE_SECONDS: "2", ALARM_SECONDS: "1" });
    for (let round = 1; round <= 2; round += 1) {
      assert.deepEqual((await echo(worker, round, { round })).result?.structuredContent, { round });
      await worker.said("idle", round);
      await server.until("the session is closed", () => CLOSED[transport](server, round));
      assert.equal(sent(server, "notifications/initialized").length, round);
    }
  });
}

// ---- a server that dies -------------------------------------------------------------------------

/** Two questions, one after the other, of a tool whose process says that it runs. */
const twice = { mark: "once", requests: ["first", "second"].flatMap((id) => asks(id).requests) };
const marked = (worker, id, more = {}) =>
  post(worker, id, "tools/call", { name: "markedAsk", arguments: twice, ...more }, { capabilities: ABLE });

for (const transport of ["streamableHttp", "sse"])
  for (const when of ["before", "after"]) {
    const name = `a parked call whose server died, continued ${when} it is back: ${transport}`;
    test(name, { timeout: HUNG_MS }, async (t) => {
      const { server, worker } = await alone(t, () => startFixture(transport));
      const state = (await marked(worker, 1)).result.requestState;
      const { result } = await marked(worker, 2, answers(state, "first"));
      assert.deepEqual(Object.keys(result?.inputRequests ?? {}), ["second"]);
      await server.close();
      const retry = (id) => marked(worker, id, answers(result.requestState, "second"));
      const early = when === "before" ? await retry(3) : undefined;
      const restarted = await startFixture(transport, server.port);
      t.after(() => restarted.close());
      const { id, error } = early ?? (await retry(3));
      assert.equal(id, 3);
      assert.match(error?.message, /may have (been )?carried/, JSON.stringify(error));
      assert.notEqual(error.data?.retrySafe, true, JSON.stringify(error));
      assert.equal((await retry(4)).error?.code, -32602, "the state is used up");
      assert.deepEqual((await echo(worker, 5, { n: 1 })).result?.structuredContent, { n: 1 });
      assert.equal(server.count("ran once;"), 1);
      assert.equal(restarted.count("ran once;"), 0, restarted.printed());
    });
  }
