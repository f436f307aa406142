// Sessions that the server has forgotten, and servers that come and go.

import assert from "node:assert/strict";
import { another, scenario } from "./scenario.mjs";

/** The calls that the server really ran, as opposed to those it refused. */
const ran = (server) => server.ran ?? 0;
const counted = {
  tools: {
    count(call, _args, server) {
      server.ran = ran(server) + 1;
      call.result({ content: [{ type: "text", text: String(server.ran) }] });
    },
  },
};

scenario(
  "after the server forgot the session the next call succeeds and the client notices nothing",
  { server: counted },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    server.forgetSessions();
    assert.equal((await client.call("count")).result.content[0].text, "1");
    await server.listening();
    await client.finish();
    assert.equal(ran(server), 1);
    assert.equal(client.lines.length, 2);
    const [first, again, ...more] = server.requests("POST initialize");
    assert.deepEqual(more, []);
    assert.deepEqual(again.message.params, first.message.params);
    assert.equal(again.headers["mcp-session-id"], undefined);
    assert.equal(again.headers["mcp-protocol-version"], undefined);
    const sessions = server.requests("POST notifications/initialized").map(({ headers }) => headers["mcp-session-id"]);
    assert.equal(new Set(sessions).size, 2);
    assert.deepEqual(
      server.requests("DELETE").map(({ headers }) => headers["mcp-session-id"]),
      sessions.slice(1),
    );
  },
);

scenario(
  "many calls that meet a forgotten session share one recovery",
  { server: counted },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    server.forgetSessions();
    const answers = await Promise.all(Array.from({ length: 20 }, () => client.call("count")));
    assert.ok(
      answers.every(({ result }) => result),
      JSON.stringify(answers),
    );
    await client.finish();
    assert.equal(ran(server), 20);
    assert.equal(server.requests("POST initialize").length, 2);
  },
);

scenario("the log level is restored with the session", { server: counted }, async ({ open, server }) => {
  const client = await open();
  await client.request("logging/setLevel", { level: "warning" });
  server.forgetSessions();
  await client.call("count");
  await client.finish();
  const levels = server.requests("POST logging/setLevel");
  assert.ok(levels.length >= 2, "the level was not set again");
  assert.equal(levels.at(-1).message.params.level, "warning");
});

scenario("a second 404 in a row is an error, not a loop", {}, async ({ open, server }) => {
  const client = await open();
  await server.listening();
  server.always("POST tools/call", (exchange) => exchange.reply(404));
  const { error } = await client.call("echo");
  assert.equal(error.code, -32000);
  assert.equal(error.data.httpStatus, 404);
  assert.equal(error.data.delivered, "no");
  assert.ok((await client.request("tools/list")).result);
  await client.finish();
  assert.ok(server.requests("POST initialize").length <= 2);
  assert.ok(server.requests("POST tools/call").length <= 2);
});

scenario(
  "a 404 of a server without sessions is an error at once",
  { server: { sessions: false } },
  async ({ open, server }) => {
    const client = await open();
    server.always("POST tools/call", (exchange) => exchange.reply(404));
    const { error } = await client.call("echo");
    assert.equal(error.data.httpStatus, 404);
    await client.finish();
    assert.equal(server.requests("POST initialize").length, 1);
  },
);

scenario("a server that restarts on its port is found again", {}, async ({ t, open, server }) => {
  const client = await open();
  await server.listening();
  await server.close();
  const restarted = await another(t, { port: server.port });
  // The GET stream is opened again: by then the proxy knows that its old connections are gone.
  await restarted.seen("GET");
  assert.ok((await client.call("echo")).result);
  await client.finish();
  assert.equal(restarted.requests("POST initialize").length, 1);
  assert.equal(client.lines.length, 2);
});

scenario("idle connections that the server closed do not fail the next call", {}, async ({ open, server }) => {
  const used = { GET: new Set(), POST: new Set() };
  server.http.on("request", ({ method, socket }) => used[method]?.add(socket));
  const client = await open();
  await server.listening();
  await client.call("echo");
  const idle = [...used.POST].filter((socket) => !used.GET.has(socket) && !socket.destroyed);
  // Closed from our side; the event says that the proxy has closed its side, too.
  await Promise.all(idle.map((socket) => new Promise((resolve) => socket.once("close", resolve).end())));
  assert.ok((await client.call("echo")).result);
  await client.finish();
});

scenario(
  "a server that is down is an error for initialize, and the process lives",
  {},
  async ({ t, connect, server }) => {
    await server.close();
    const client = connect();
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
    const { error } = await client.request("initialize", params);
    assert.equal(error.code, -32000);
    assert.equal(error.data.delivered, "no");
    assert.equal(error.data.retrySafe, true);
    assert.equal(error.data.attempt, 4, "one attempt and three retries");
    const late = await another(t, { port: server.port });
    await client.handshake();
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(late.requests("POST initialize").length, 1);
  },
);

scenario("--retries says how often a refused connection is tried again", {}, async ({ connect, server }) => {
  await server.close();
  const client = connect({ options: ["--retries", "0"] });
  const { error } = await client.request("initialize", { protocolVersion: "2025-11-25", capabilities: {} });
  assert.equal(error.data.attempt, 1);
  await client.finish();
});

scenario("a server that comes up during the retries is reached", {}, async ({ t, connect, server }) => {
  await server.close();
  const client = connect({ options: ["--retries", "8"] });
  const shaken = client.handshake();
  await another(t, { port: server.port });
  await shaken;
  await client.finish();
});
