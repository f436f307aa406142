// What the Worker says on the wire: statuses, headers, events. The rules are those of Streamable HTTP,
// 2025-03-26 to 2025-11-25.

import assert from "node:assert/strict";
import { scene } from "./scene.mjs";
import { LATEST, TYPES, initialize } from "./wire.mjs";

const CALL = "POST /messages tools/call";
const VERSIONS = ["2025-03-26", "2025-06-18", LATEST];
const message = (fields) => JSON.stringify({ jsonrpc: "2.0", ...fields });
const list = message({ id: 1, method: "tools/list" });

/** What is refused: its status, the code of its error, and the request, given the headers of a session. */
const refusals = [
  ["a body that is not JSON by its type", 415, -32600, (named) => post(named({ "content-type": "text/plain" }), list)],
  ["a body without a type", 415, -32600, (named) => post(named({ "content-type": undefined }), list)],
  ["a client that reads no events", 406, -32600, (named) => post(named({ accept: "application/json" }), list)],
  ["a listener that reads no events", 406, -32600, (named) => get(named({ accept: "application/json" }))],
  ["a method that is none of MCP", 405, -32600, (named) => ["PUT", { headers: named(), body: list }]],
  ["a body that is no JSON", 400, -32700, (named) => post(named(), "{")],
  ["a body that is no message", 400, -32600, (named) => post(named(), '{"id":1}')],
  ["an empty body", 400, -32700, (named) => post(named(), "")],
  ["a request without a session", 400, -32600, () => post(TYPES, list)],
  ["a listener without a session", 400, -32600, () => get(TYPES)],
  ["the end of no session", 400, -32600, () => ["DELETE", { headers: TYPES }]],
  ["a version that nobody knows", 400, -32022, (named) => post(named({ "mcp-protocol-version": "1999-01-01" }), list)],
  ["a listener of such a version", 400, -32022, (named) => get(named({ "mcp-protocol-version": "1999-01-01" }))],
  ["a client of a later era, without its envelope", 400, -32602, () => post(modern, list)],
  ["a second initialize", 400, -32600, (named) => post(named(), initialize)],
  ["a batch in a version without batches", 400, -32600, (named) => post(named(), `[${list}]`)],
];
const modern = { ...TYPES, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" };
const post = (headers, body) => ["POST", { headers, body }];
const get = (headers) => ["GET", { headers }];

scene("what the specification refuses is refused, with its status", {}, async ({ t, server, join }) => {
  const client = await join();
  for (const [what, status, code, request] of refusals) {
    await t.test(`${status}: ${what}`, async () => {
      const response = await client.send(...request((headers) => client.named(headers)));
      assert.equal(response.status, status);
      const { jsonrpc, error } = await response.json();
      assert.deepEqual([jsonrpc, error.code], ["2.0", code], error.message);
      if (status === 405) assert.match(response.headers.allow, /^GET, POST, DELETE/);
      if (code === -32022) assert.deepEqual(error.data.supported.slice(-3).toSorted(), VERSIONS.toSorted());
    });
  }
  assert.ok((await client.call("echo")).result, "the session lives on");
  assert.equal(server.requests("GET /sse").length, 1);
  assert.equal(server.requests("POST /messages tools/list").length, 0);
});

/** A machine may be slow, and an answer soon all the same. */
const patient = { variables: { STREAM_AFTER_MS: "60000" } };

scene("an answer is JSON, and an event stream for who asks of progress", patient, async ({ join, connect }) => {
  const client = connect();
  const opened = await client.open();
  assert.equal(opened.status, 200);
  assert.equal(opened.headers["content-type"], "application/json");
  assert.equal(opened.headers["mcp-proxy-upstream"], "http+sse");
  assert.match(opened.headers["mcp-session-id"], /^[\x21-\x7e]{32,}$/);
  for (const [kind, token] of [["application/json"], ["text/event-stream", 7]]) {
    const call = await client.startCall("echo", {}, { token });
    assert.equal(call.status, 200);
    assert.equal(call.headers["content-type"], kind);
    assert.equal(call.headers["cache-control"], "no-cache, no-transform");
    assert.equal(await call.ended(), "ended");
  }
  const note = await client.post({ method: "notifications/x" });
  await note.ended();
  assert.deepEqual([note.status, note.text], [202, ""]);
  const answer = await client.post({ id: "stray", result: {} });
  assert.equal(answer.status, 202);
  assert.notEqual((await join()).session, client.session);
});

/** What a server may say about itself, which is none of a client's business. */
const talkative = {
  "access-control-allow-origin": "*",
  "mcp-session-id": "the-server-s-own",
  server: "nginx/0.7",
  "set-cookie": "balancer=7",
  "x-secret": "internal-host",
};

/** All that a client gets to see beside the message. */
const SHOWN = new Set([
  "allow",
  "cache-control",
  "connection",
  "content-length",
  "content-type",
  "date",
  "mcp-proxy-server",
  "mcp-proxy-upstream",
  "mcp-session-id",
  "transfer-encoding",
  "x-accel-buffering",
]);

scene(
  "no header of the server reaches the client",
  {
    server: { headers: talkative },
  },
  async ({ server, connect }) => {
    const [client, stranger] = [connect(), connect()];
    await client.open();
    await client.listen();
    assert.ok((await client.call("echo")).result);
    server.once(CALL, (exchange) => exchange.reply(403, {}, "no"));
    assert.ok((await client.call("echo")).error);
    for (const [, , , request] of refusals) await client.send(...request((headers) => client.named(headers)));
    await client.leave();
    await client.startCall("echo");
    server.once("GET /sse", (exchange) => exchange.reply(401, { "www-authenticate": "Basic" }, "who are you?"));
    await stranger.send("POST", { headers: TYPES, body: initialize });
    const responses = [client, stranger].flatMap((each) => each.responses);
    const statuses = new Set(responses.map(({ status }) => status));
    for (const status of [200, 202, 204, 400, 404, 405, 415]) assert.ok(statuses.has(status), `${status} was seen`);
    const names = new Set(responses.flatMap(({ headers }) => Object.keys(headers)));
    assert.deepEqual(names.difference(SHOWN), new Set());
    const all = JSON.stringify(responses.map(({ headers }) => headers));
    for (const value of Object.values(talkative).slice(1)) assert.ok(!all.includes(value), value);
  },
);

for (const version of VERSIONS) {
  scene(`${version}: the first bytes of a stream come at once`, {}, async ({ server, join }) => {
    const client = await join({ handshake: { version } });
    const call = await client.startCall("hold", { gate: "late" }, { id: 77 });
    const listening = await client.listen();
    for (const stream of [call, listening]) {
      await stream.until("the first bytes", () => stream.text);
      // Clients of earlier versions would take an event without data for a broken message.
      if (version === LATEST) assert.deepEqual([stream.events[0].data, stream.events[0].retry], ["", "1000"]);
      else assert.deepEqual([stream.events, stream.comments.length], [[], 1]);
    }
    server.gate("late").open();
    await call.answer(77);
    client.verify();
  });
}

scene("every event has an id of its own", {}, async ({ server, join }) => {
  const client = await join();
  const listening = await client.listen();
  const calls = ["a", "b"].map((token) => client.startCall("progress", { steps: 5 }, { token }));
  for (const call of await Promise.all(calls)) assert.equal(await call.ended(), "ended");
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  await listening.notification("notifications/tools/list_changed");
  const ids = client.responses.flatMap(({ events }) => events.map(({ id }) => id));
  assert.equal(ids.length, 2 * (1 + 5 + 1) + 2);
  assert.ok(ids.every((id) => /^[\x21-\x7e]+$/.test(id)));
  assert.equal(new Set(ids).size, ids.length);
});

scene("a silent stream shows that it lives", { variables: { HEARTBEAT_SECONDS: "1" } }, async ({ join }) => {
  const client = await join();
  const streams = [await client.listen(), await client.startCall("never")];
  for (const stream of streams) await stream.until("a comment", () => stream.comments.includes(": keepalive"));
});

scene("a batch is split in the one version that has it", {}, async ({ server, join }) => {
  const client = await join({ handshake: { version: "2025-03-26" } });
  const echo = (id) => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name: "echo", arguments: { id } } });
  const response = await client.post([echo("a"), { jsonrpc: "2.0", method: "notifications/x" }, echo("b")]);
  assert.equal(await response.ended(), "ended");
  client.verify();
  assert.equal(server.requests(CALL).length, 2);
  assert.equal(server.requests("POST /messages notifications/x").length, 1);
  const notes = await client.post([{ jsonrpc: "2.0", method: "notifications/x" }]);
  assert.equal(notes.status, 202);
  for (const bad of ["[]", `[${initialize}]`, "[1]", `[${list},${list}]`])
    assert.equal((await client.send("POST", { headers: client.named(), body: bad })).status, 400, bad);
});

scene("a session that was ended is no more", {}, async ({ server, join }) => {
  const client = await join();
  const listening = await client.listen();
  const call = await client.startCall("never", {}, { id: "open" });
  await server.seen(CALL);
  await client.leave();
  assert.match((await call.answer("open")).error.message, /ended the session/);
  for (const stream of [listening, call]) assert.equal(await stream.ended(), "ended");
  await server.deserted();
  const seen = server.log.length;
  for (const method of ["POST", "GET", "DELETE"]) {
    const body = method === "POST" ? list : undefined;
    assert.equal((await client.send(method, { headers: client.named(), body })).status, 404, method);
  }
  assert.equal(server.log.length, seen);
});

scene("the newest listener wins", {}, async ({ server, join }) => {
  const client = await join();
  const first = await client.listen();
  const second = await client.listen();
  assert.equal(await first.ended(), "ended");
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  await second.notification("notifications/tools/list_changed");
  assert.deepEqual(first.messages, []);
});

scene("a client gets the rest of the stream that it names, and of no other", {}, async ({ server, join }) => {
  const client = await join();
  const listening = await client.listen();
  const call = await client.startCall("progress", { steps: 4 }, { id: "call", token: "t" });
  assert.equal(await call.ended(), "ended");
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  await listening.notification("notifications/tools/list_changed");
  const second = call.events[2];
  const rest = await client.listen(second.id);
  assert.equal(await rest.ended(), "ended");
  assert.deepEqual(rest.events, call.events.slice(3));
  assert.equal((await client.listen(rest.events.at(-1).id)).status, 204, "there is no more");
  assert.equal(listening.over, undefined);
});

scene("an id that is open is not taken twice", {}, async ({ server, join }) => {
  const client = await join();
  const held = await client.startCall("hold", { gate: "g" }, { id: 1 });
  assert.equal((await client.startCall("echo", {}, { id: 1 })).status, 400);
  const text = await client.startCall("echo", {}, { id: "1" });
  assert.ok((await text.answer("1")).result, "a text is not a number");
  server.gate("g").open();
  await held.answer(1);
  assert.ok((await client.call("echo", {}, 1)).result);
});

/** What a parser that builds values and writes them again would change. */
const ODD = '"big":9007199254740993, "zero":-0.0,"one":1.0,"z":{"b":1,"a":[ ]},"u":"\\u00e9\\/é","x-unknown" : null';

scene("the bytes of messages pass unchanged, both ways", patient, async ({ server, join }) => {
  const client = await join();
  const request = `{"params":{${ODD}},"x" : {${ODD}},"method":"tools/call","id":9007199254740993,"jsonrpc":"2.0"}`;
  const answer = `{"x" : {${ODD}},"result":{${ODD}},"id":9007199254740993,"jsonrpc":"2.0"}`;
  server.once(CALL, (exchange) => {
    exchange.accepted();
    server.push(answer);
  });
  const call = await client.send("POST", { headers: client.named(), body: request });
  assert.equal(await call.ended(), "ended");
  assert.equal((await server.seen(CALL)).body, request);
  assert.equal(call.text, answer);

  const notice = `{"params":{${ODD}},"x" : {${ODD}},"method":"notifications/odd","jsonrpc":"2.0"}`;
  const listening = await client.listen();
  server.push(notice);
  await listening.notification("notifications/odd");
  assert.equal(listening.events.at(-1).data, notice);
  assert.equal((await client.send("POST", { headers: client.named(), body: notice })).status, 202);
  assert.equal((await server.seen("POST /messages notifications/odd")).body, notice);
});

for (const [name, value] of [
  ["REPLAY_EVENTS", "2"],
  ["REPLAY_BYTES", "3000"],
]) {
  scene(
    `${name}: who comes back for an answer that is no longer kept is told so`,
    { variables: { [name]: value, STREAM_AFTER_MS: "0" } },
    async ({ server, join }) => {
      const client = await join();
      const dropped = await client.startCall("hold", { gate: "late" }, { id: "lost" });
      const { id: last } = await dropped.until("an event id", () => dropped.events.at(-1));
      await server.seen(CALL);
      dropped.drop();
      server.gate("late").open();
      await client.call("bytes", { bytes: 1500 });
      const newest = await client.startCall("bytes", { bytes: 1500 });
      assert.equal(await newest.ended(), "ended");

      const rest = await client.listen(last);
      const { error } = await rest.answer("lost");
      assert.deepEqual([error.data.delivered, error.data.retrySafe], ["maybe", false]);
      assert.equal(await rest.ended(), "ended");
      assert.equal((await client.listen(rest.events.at(-1).id)).status, 204, "it is told once");
      const again = await client.listen(newest.events[0].id);
      assert.equal(await again.ended(), "ended");
      assert.deepEqual(again.events, newest.events.slice(1), "what is kept is not lost");
    },
  );
}

scene(
  "of what waits for a stream the oldest falls out, and the newest arrives",
  { variables: { MAX_QUEUE_BYTES: "1000" } },
  async ({ server, worker, join }) => {
    const client = await join();
    const data = "x".repeat(500);
    for (const logger of ["oldest", "newest"])
      server.push({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", logger, data } });
    // The Worker reads in order: once it has complained about this, it has read what came before.
    server.push("no message");
    await worker.said("the server sent no message");
    const listening = await client.listen();
    await listening.notification("notifications/message");
    assert.ok((await client.call("echo")).result);
    assert.deepEqual(
      client.messages.filter(({ method }) => method).map(({ params }) => params.logger),
      ["newest"],
    );
  },
);
