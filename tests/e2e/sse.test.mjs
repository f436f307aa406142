// HTTP+SSE of 2024-11-05: one stream that names an endpoint and brings every answer, POSTs that are
// only taken, and what happens when either fails.

import assert from "node:assert/strict";
import { endpoints, startSseServer } from "../fixtures/sse-server.mjs";
import { scenario } from "./scenario.mjs";

const CALL = "POST /messages tools/call";
const PAGE = { "content-type": "text/html" };

const sse = { start: startSseServer };
const sseWith = (server, options) => ({ start: startSseServer, server, options });
const text = ({ result }) => result.content[0].text;

/** The proxy's options with which it says that a stream has ended. */
const told = ["--verbose"];
const losses = (client) => client.stderr.split("the event stream ended").length - 1;

/** Resolves when the proxy has noticed its n-th loss of a stream. */
const noticed = (client, n = 1) => client.until(`loss ${n} of a stream`, () => losses(client) >= n);

// ---- the endpoint -------------------------------------------------------------------------

for (const [what, options, path] of [
  ["a path", { endpoint: endpoints.relative }, "/messages"],
  ["an absolute URL", { endpoint: endpoints.absolute }, "/messages"],
  ["only a query", { endpoint: endpoints.queryOnly }, "/sse"],
  ["a path under the prefix of a gateway", { endpoint: endpoints.relative, prefix: "/gate/one" }, "/gate/one/messages"],
]) {
  scenario(`an endpoint that is ${what} is resolved against the stream`, sseWith(options), async ({ open, server }) => {
    const client = await open();
    assert.ok((await client.call("echo")).result);
    await client.finish();
    const posts = server.log.filter(({ query }) => query.has("sessionId"));
    assert.deepEqual(new Set(posts.map((entry) => entry.path)), new Set([path]));
    assert.equal(posts.length, 3);
  });
}

scenario(
  "an endpoint that lacks the prefix of a gateway is tried under it after a 404, once",
  sseWith({ prefix: "/gate/one", endpoint: endpoints.withoutPrefix }, told),
  async ({ open, server }) => {
    const client = await open();
    assert.ok((await client.call("echo")).result);
    server.cutStreams();
    await noticed(client);
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.deepEqual(
      server.labels().filter((label) => label.startsWith("POST /messages")),
      ["POST /messages initialize"],
    );
    assert.equal(server.requests("POST /gate/one/messages tools/call").length, 2);
    assert.equal(server.requests("GET /gate/one/sse").length, 2);
  },
);

scenario(
  "messages wait for an endpoint that comes late",
  sseWith({ endpoint: (id, server) => server.gate("endpoint").opened.then(() => endpoints.relative(id, server)) }),
  async ({ connect, server }) => {
    const client = connect();
    const shaken = client.handshake();
    await server.seen("GET /sse");
    server.gate("endpoint").open();
    await shaken;
    await client.finish();
  },
);

for (const [what, data] of [
  ["on the same origin", "/elsewhere?sessionId=1"],
  ["on another origin", "http://127.0.0.1:1/messages"],
]) {
  scenario(`a second endpoint ${what} changes nothing`, sseWith({}, told), async ({ open, server }) => {
    const client = await open();
    const held = client.call("hold", { gate: "held" });
    await client.until("three POSTs that were taken", () => client.stderr.split(": 202,").length > 3);
    const [stream] = server.sessions.values();
    stream.event({ type: "endpoint", data });
    stream.notify("notifications/message", { level: "info", data: "after it" });
    await client.message("what comes after it", ({ method }) => method === "notifications/message");
    assert.ok((await client.call("echo")).result);
    server.gate("held").open();
    assert.ok((await held).result);
    await client.finish();
    assert.equal(server.requests("GET /sse").length, 1);
    assert.equal(server.requests(CALL).length, 2);
  });
}

// ---- the stream ---------------------------------------------------------------------------

scenario(
  "CRLF and comments are taken as they are meant",
  sseWith({ newline: "\r\n", pingEvery: 1 }),
  async ({ open }) => {
    const client = await open();
    await Promise.all(Array.from({ length: 20 }, (_, n) => client.call("meet", { gate: "all", count: 20, n })));
    await client.finish();
    assert.equal(client.lines.length, 21);
  },
);

scenario("a hundred calls on one stream are each given their own answer", sse, async ({ open, server }) => {
  const client = await open();
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, n) => client.call("meet", { gate: "hundred", count: 100, n })),
  );
  assert.deepEqual(
    answers.map(text),
    Array.from({ length: 100 }, (_, n) => `hundred ${n}`),
  );
  await client.finish();
  assert.equal(server.requests("GET /sse").length, 1);
});

scenario("progress arrives complete, in order and before the answer", sse, async ({ open }) => {
  const client = await open();
  await client.call("progress", { steps: 200 }, 70, { progressToken: 0 });
  const seen = client.messages.slice(1);
  assert.deepEqual(
    seen.slice(0, -1).map(({ params }) => [params.progressToken, params.progress]),
    Array.from({ length: 200 }, (_, n) => [0, n + 1]),
  );
  assert.equal(seen.at(-1).id, 70);
  await client.finish();
});

for (const [method, result] of [
  ["sampling/createMessage", { role: "assistant", model: "m", content: { type: "text", text: "hi" } }],
  ["elicitation/create", { action: "accept", content: {} }],
  ["ping", {}],
]) {
  scenario(`a ${method} of the server reaches the client, and its answer the server`, sse, async ({ open, server }) => {
    const client = await open({ handshake: { capabilities: { sampling: {}, elicitation: {} } } });
    // Inside a call, with the id of the client's own call: the two directions are apart.
    const call = client.call("ask", { requests: [{ method, id: 500 }] }, 500);
    assert.equal((await client.asked(method)).id, 500);
    client.send({ id: 500, result });
    assert.deepEqual((await call).result.structuredContent.answers, [{ jsonrpc: "2.0", id: 500, result }]);
    // And outside of any.
    const answer = server.pushAsk(method);
    const { id } = await client.message("the second one", (asked) => asked.method === method && asked.id !== 500);
    client.send({ id, result });
    assert.deepEqual((await answer).result, result);
    await client.finish();
  });
}

scenario("notifications of the server reach the client without any call", sse, async ({ open, server }) => {
  const client = await open();
  for (const method of ["notifications/tools/list_changed", "notifications/message"]) {
    server.push({ jsonrpc: "2.0", method, params: { level: "info", data: "x" } });
    await client.message(method, (message) => message.method === method);
  }
  await client.finish();
});

scenario("a cancelled call is cancelled at the server, and no late answer leaks", sse, async ({ open, server }) => {
  const client = await open();
  client.send({ id: "c-1", method: "tools/call", params: { name: "holdHead", arguments: { gate: "late" } } });
  await server.seen(CALL);
  client.notify("notifications/cancelled", { requestId: "c-1" });
  await server.until("cancellation", () => server.cancelled.length > 0);
  assert.deepEqual(server.cancelled, ["c-1"]);
  server.gate("late").open();
  await client.call("echo");
  await client.finish();
});

scenario(
  "an answer over the limit is an error for its call, and the stream goes on",
  sseWith({}, ["--max-message-bytes", "1MiB"]),
  async ({ open, server }) => {
    const client = await open();
    const held = client.call("holdHead", { gate: "held" });
    const { error } = await client.call("bytes", { bytes: 2 * 1024 * 1024 });
    assert.match(error.message, /1 ?MiB|1048576/);
    server.gate("held").open();
    assert.ok((await held).result);
    await client.finish();
    assert.equal(server.requests("GET /sse").length, 1);
  },
);

// ---- POSTs --------------------------------------------------------------------------------

scenario("headers: what every request has, and none of Streamable HTTP's sessions", sse, async ({ open, server }) => {
  const client = await open({ options: ["--transport", "sse", "--header", "X-Mine:1"] });
  await client.call("echo");
  await client.finish();
  for (const { method, headers, label } of server.log) {
    assert.equal(headers["x-mine"], "1", label);
    assert.equal(headers["mcp-session-id"], undefined, label);
    if (method === "GET") assert.match(headers.accept, /text\/event-stream/);
    if (method === "POST") assert.match(headers["content-type"], /^application\/json/);
  }
});

scenario("an answer may come before the 202 of its POST, and comes once", sse, async ({ open, server }) => {
  const client = await open();
  server.once(CALL, async (exchange) => {
    server.process(exchange);
    await server.gate("answered").opened;
    exchange.accepted();
  });
  assert.ok((await client.call("echo")).result);
  server.gate("answered").open();
  assert.ok((await client.call("echo")).result);
  await client.finish();
});

for (const [status, body] of [
  [200, ""],
  [200, '{"jsonrpc":"2.0","id":1,"result":{"not":"this one"}}'],
  [204, ""],
]) {
  scenario(
    `a POST answered ${status} ${body && "with a body "}is as good as one answered 202`,
    sse,
    async ({ open, server }) => {
      const client = await open();
      server.once(CALL, (exchange) => {
        exchange.reply(status, body ? { "content-type": "application/json" } : {}, body);
        server.process(exchange);
      });
      assert.deepEqual((await client.call("echo", { mark: 1 })).result.structuredContent, { mark: 1 });
      await client.finish();
    },
  );
}

for (const status of [400, 401, 413, 500]) {
  scenario(
    `a POST refused with ${status} is one error that names it, for its call alone`,
    sse,
    async ({ open, server }) => {
      const client = await open();
      const held = client.call("holdHead", { gate: "held" });
      await server.seen(CALL);
      server.once(CALL, (exchange) => exchange.reply(status, PAGE, "<p>no</p>"));
      const { error } = await client.call("echo");
      assert.equal(error.data.httpStatus, status);
      assert.match(error.message, new RegExp(status));
      server.gate("held").open();
      assert.ok((await held).result);
      await client.finish();
      assert.equal(server.requests("GET /sse").length, 1);
      assert.equal(server.requests(CALL).length, 2);
    },
  );
}

scenario(
  "a POST that never returns is an error after its time limit and harms no other call",
  sseWith({}, ["--first-byte-timeout", "1s"]),
  async ({ open, server }) => {
    const client = await open();
    server.once(CALL, () => {});
    const stuck = client.call("echo", {}, "stuck");
    await server.seen(CALL);
    const held = client.call("holdHead", { gate: "held" });
    for (let n = 0; n < 20; n += 1) assert.ok((await client.call("echo")).result);
    assert.ok(!client.messages.some(({ id }) => id === "stuck"), "answered before its time");
    const { error } = await stuck;
    assert.match(error.message, /--first-byte-timeout/);
    assert.equal(error.data.delivered, "maybe");
    server.gate("held").open();
    assert.ok((await held).result);
    await client.finish();
    assert.equal(server.requests("GET /sse").length, 1);
  },
);

scenario("a POST that never returns is no harm when the answer comes on the stream", sse, async ({ open, server }) => {
  const client = await open();
  server.always(CALL, (exchange) => server.process(exchange));
  for (let n = 0; n < 20; n += 1) assert.ok((await client.call("echo")).result);
  await client.finish();
});

scenario(
  "a call that is taken and never answered is an error after its time limit, however lively the stream is",
  sseWith({ pingEvery: 10 }, ["--request-timeout", "500ms"]),
  async ({ open }) => {
    const client = await open();
    const { error } = await client.call("never");
    assert.match(error.message, /--request-timeout/);
    assert.equal(error.data.delivered, "maybe");
    assert.ok((await client.call("echo")).result);
    await client.finish();
  },
);

scenario(
  "progress is a sign that a POST has arrived, also where it returns only when the call is done",
  sseWith({}, ["--first-byte-timeout", "1s"]),
  async ({ open, server }) => {
    const client = await open();
    server.once(CALL, async (exchange) => {
      await server.process(exchange);
      exchange.accepted();
    });
    const { result } = await client.call("progress", { steps: 6, every: 300 }, 90, { progressToken: 90 });
    assert.ok(result);
    await client.finish();
  },
);

// ---- losses -------------------------------------------------------------------------------

for (const how of ["end", "reset"]) {
  scenario(
    `the loss of the stream answers every open call, and the next one finds a new session (${how})`,
    sse,
    async ({ open, server }) => {
      const client = await open();
      const open20 = Array.from({ length: 20 }, () => client.call("never"));
      await server.seen(CALL, 20);
      server.cutStreams(how);
      for (const { error } of await Promise.all(open20))
        assert.deepEqual([error.code, error.data.delivered, error.data.retrySafe], [-32000, "maybe", false]);
      assert.ok((await client.call("echo")).result);
      await client.finish();
      assert.equal(server.requests(CALL).length, 21, "a call was sent twice");
      const [first, again, ...more] = server.requests("POST /messages initialize");
      assert.deepEqual(more, []);
      assert.deepEqual(again.message.params, first.message.params);
      assert.equal(server.requests("POST /messages notifications/initialized").length, 2);
      assert.equal(server.requests("GET /sse").length, 2);
      assert.equal(server.requests("POST /sse initialize").length, 1, "the verdict outlives the session");
      assert.equal(client.lines.length, 22, "the client saw the second handshake");
    },
  );
}

scenario("a list that was open when the stream was lost is asked for again", sse, async ({ open, server }) => {
  const client = await open();
  const label = "POST /messages tools/list";
  server.once(label, (exchange) => {
    exchange.accepted();
    server.cutStreams();
  });
  assert.ok((await client.request("tools/list")).result);
  await client.finish();
  assert.equal(server.requests(label).length, 2);
});

scenario(
  "a stream that is cut whenever it is idle does not fail the next call",
  sseWith({ cutWhenIdle: 50 }, told),
  async ({ open }) => {
    const client = await open();
    for (let n = 1; n <= 3; n += 1) {
      await noticed(client, n);
      assert.ok((await client.call("echo")).result);
    }
    await client.finish();
  },
);

scenario(
  "a POST that is under way when the stream ends, and is then refused with 404, goes into the next session",
  sseWith({}, told),
  async ({ open, server }) => {
    const client = await open();
    server.once(CALL, async (exchange) => {
      server.cutStreams();
      await noticed(client);
      exchange.reply(404);
    });
    assert.ok((await client.call("echo")).result);
    await client.finish();
  },
);

scenario(
  "a stream that cannot be opened again is an error that says why, and the call after that tries anew",
  sseWith({}, [...told, "--retries", "0"]),
  async ({ open, server }) => {
    const client = await open();
    const stop = server.always("GET /sse", (exchange) => exchange.reply(503, PAGE, "<p>busy</p>"));
    server.cutStreams();
    await noticed(client);
    const { error } = await client.call("echo");
    assert.equal(error.data.delivered, "no");
    assert.equal(error.data.httpStatus, 503, JSON.stringify(error));
    stop();
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests(CALL).length, 1);
  },
);

scenario(
  "a session that the server has forgotten while its stream is open is replaced",
  sse,
  async ({ open, server }) => {
    const client = await open();
    server.forgetSessions();
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("GET /sse").length, 2);
    assert.equal(client.lines.length, 2);
  },
);

scenario(
  "an answer of the client does not go into another session than its question came from",
  sse,
  async ({ open, server }) => {
    const client = await open();
    await server.seen("POST /messages notifications/initialized");
    server.pushAsk("roots/list");
    const { id } = await client.asked("roots/list");
    server.forgetSessions();
    client.send({ id, result: { roots: [] } });
    await server.seen("POST /messages response");
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST /messages response").length, 1);
  },
);

scenario("the log level is restored with the session", sseWith({}, told), async ({ open, server }) => {
  const client = await open();
  await client.request("logging/setLevel", { level: "warning" });
  server.cutStreams();
  await noticed(client);
  await client.call("echo");
  await client.finish();
  const levels = server.requests("POST /messages logging/setLevel").map(({ message }) => message.params.level);
  assert.deepEqual(levels, ["warning", "warning"]);
});

// ---- the end ------------------------------------------------------------------------------

scenario(
  "the end of stdin waits for a slow call, closes the stream and deletes nothing",
  sse,
  async ({ open, server }) => {
    const client = await open();
    const call = client.call("holdHead", { gate: "slow" });
    await server.seen(CALL);
    client.eof();
    server.gate("slow").open();
    assert.ok((await call).result);
    await client.finish();
    await server.deserted();
    assert.deepEqual(
      server.log.filter(({ method }) => method === "DELETE"),
      [],
    );
  },
);

scenario(
  "a call that outlives the drain time is answered with an error, then exit 0",
  sseWith({}, ["--drain-timeout", "300ms"]),
  async ({ open, server }) => {
    const client = await open();
    client.send({ id: "stuck", method: "tools/call", params: { name: "never" } });
    await server.seen(CALL);
    client.eof();
    assert.equal((await client.answer("stuck")).error.data.delivered, "maybe");
    await client.finish();
  },
);
