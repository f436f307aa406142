// What the server or the network does wrong, and the one answer the client gets for it.

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { another, scenario } from "./scenario.mjs";

const JSON_TYPE = { "content-type": "application/json" };
const HTML = { "content-type": "text/html" };

/** Every transport error says what happened in the same words. */
function assertData(error, expected) {
  assert.equal(typeof error.message, "string");
  assert.equal(typeof error.data?.phase, "string", JSON.stringify(error));
  assert.ok(["no", "maybe", "yes"].includes(error.data.delivered), JSON.stringify(error));
  assert.equal(typeof error.data.retrySafe, "boolean");
  assert.ok(error.data.attempt >= 1);
  for (const [name, value] of Object.entries(expected))
    assert.equal(error.data[name], value, `${name} in ${JSON.stringify(error)}`);
}

for (const [what, args] of Object.entries({
  "500 with HTML": { status: 500, headers: HTML, body: "<h1>Internal Server Error</h1>" },
  "500 with an empty body": { status: 500 },
  "502 with text": { status: 502, headers: { "content-type": "text/plain" }, body: "bad gateway" },
  "400 with HTML": { status: 400, headers: HTML, body: "<h1>no</h1>" },
  "401 with a challenge": { status: 401, headers: { "www-authenticate": "Bearer" } },
  "403 with an empty body": { status: 403 },
})) {
  scenario(`${what} becomes one error that names the status, and the session goes on`, {}, async ({ open, server }) => {
    const client = await open();
    const { error } = await client.call("status", args);
    assert.equal(error.code, -32000);
    assertData(error, { httpStatus: args.status });
    assert.match(error.message, new RegExp(args.status));
    if (args.status === 401 || args.status === 403) assert.equal(error.data.delivered, "no");
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST tools/call").length, 2);
  });
}

scenario("an error body without an id is the answer to the request that caused it", {}, async ({ open }) => {
  const client = await open();
  const body = '{"jsonrpc":"2.0","error":{"code":-32055,"message":"Bad Request: no such thing"},"id":null}';
  const { error } = await client.call("status", { status: 400, headers: JSON_TYPE, body }, 7);
  assert.equal(error.code, -32055);
  assert.match(error.message, /Bad Request: no such thing/);
  const anonymous = '{"jsonrpc":"2.0","error":{"code":-32056,"message":"also anonymous"}}';
  assert.equal(
    (await client.call("status", { status: 400, headers: JSON_TYPE, body: anonymous }, "7")).error.code,
    -32056,
  );
  await client.finish();
});

scenario("an error body with the request's id passes as it is, whatever the status", {}, async ({ open }) => {
  const client = await open();
  const body = '{"jsonrpc":"2.0","id":8,"error":{"code":-32010,"message":"m","data":{"k":1}}}';
  const { error } = await client.call("status", { status: 422, headers: JSON_TYPE, body }, 8);
  assert.deepEqual(error, { code: -32010, message: "m", data: { k: 1 } });
  await client.finish();
});

for (const [what, args] of Object.entries({
  "200 with HTML": { status: 200, headers: HTML, body: "<p>hello</p>" },
  "200 with broken JSON": { status: 200, headers: JSON_TYPE, body: '{"jsonrpc":"2.0","id":' },
  "200 with nothing": { status: 200, headers: JSON_TYPE },
  "202 to a request": { status: 202 },
})) {
  scenario(
    `${what} still gives the client its one answer`,
    { options: ["--request-timeout", "2s"] },
    async ({ open, server }) => {
      const client = await open();
      const { error } = await client.call("status", args);
      assert.equal(error.code, -32000);
      assertData(error, {});
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 1);
    },
  );
}

scenario("a 200 with a body to a notification is nothing on stdout", {}, async ({ open, server }) => {
  server.once("POST notifications/initialized", (exchange) => exchange.json({ jsonrpc: "2.0", result: {} }));
  const client = await open();
  await client.request("tools/list");
  await client.finish();
  assert.equal(client.lines.length, 2);
});

scenario("a refused notification does not end the session", {}, async ({ open, server }) => {
  server.once("POST notifications/initialized", (exchange) => exchange.reply(500, HTML, "<p>no</p>"));
  const client = await open();
  assert.ok((await client.request("tools/list")).result);
  await client.finish();
});

for (const status of [429, 503]) {
  scenario(`${status} with Retry-After is tried again, not before that time`, {}, async ({ open, server }) => {
    const client = await open();
    server.once("POST tools/call", (exchange) => exchange.reply(status, { "retry-after": "1" }));
    assert.ok((await client.call("echo")).result);
    await client.finish();
    const [first, second, ...more] = server.requests("POST tools/call");
    assert.deepEqual(more, []);
    assert.ok(second.at - first.at >= 1000 - 5, "tried again too early");
  });

  scenario(
    `${status} with a Retry-After beyond the time limit is an error now`,
    { options: ["--request-timeout", "5s"] },
    async ({ open, server }) => {
      const client = await open();
      server.always("POST tools/call", (exchange) => exchange.reply(status, { "retry-after": "3600" }));
      assertData((await client.call("echo")).error, { httpStatus: status, delivered: "no" });
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 1);
    },
  );
}

scenario("a call whose connection is reset before the head is not sent twice", {}, async ({ open, server }) => {
  const client = await open();
  const { error } = await client.call("reset");
  assertData(error, { delivered: "maybe", retrySafe: false });
  await client.finish();
  assert.equal(server.requests("POST tools/call").length, 1);
});

scenario("a list whose connection is reset before the head is asked for again", {}, async ({ open, server }) => {
  const client = await open();
  server.once("POST tools/list", (exchange) => exchange.reset());
  assert.ok((await client.request("tools/list")).result);
  await client.finish();
});

scenario(
  "a server that never answers is an error after the request's time limit",
  { options: ["--request-timeout", "400ms"] },
  async ({ open, server }) => {
    const client = await open();
    const { error } = await client.call("never");
    assertData(error, { delivered: "maybe" });
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST tools/call").length, 2);
  },
);

scenario(
  "progress keeps a call alive beyond the time limit",
  { options: ["--request-timeout", "1s"] },
  async ({ open }) => {
    const client = await open();
    const { result } = await client.call("progress", { steps: 6, every: 300 }, 90, { progressToken: 90 });
    assert.ok(result);
    await client.finish();
  },
);

scenario(
  "the time limit rests while the client owes an answer",
  { options: ["--request-timeout", "1s"] },
  async ({ open }) => {
    const client = await open();
    const call = client.call("ask", {
      requests: [{ method: "elicitation/create", params: { message: "take your time" } }],
    });
    const { id } = await client.asked("elicitation/create");
    await delay(1500);
    client.send({ id, result: { action: "decline" } });
    assert.ok((await call).result);
    await client.finish();
  },
);

for (const status of [307, 308]) {
  scenario(`a ${status} of the same origin is followed with method and body`, {}, async ({ open, server }) => {
    const client = await open();
    server.once("POST tools/call", (exchange) => exchange.reply(status, { location: "/mcp?again=1" }));
    assert.ok((await client.call("echo", { mark: 1 })).result);
    await client.finish();
    const [first, second] = server.requests("POST tools/call");
    assert.equal(second.body, first.body);
    assert.equal(second.headers["mcp-session-id"], first.headers["mcp-session-id"]);
  });

  scenario(
    `a ${status} to another origin is an error that names it, and nothing is sent there`,
    { options: ["--header", "Authorization:Bearer hush"] },
    async ({ t, open, server }) => {
      const foreign = await another(t);
      const client = await open();
      server.once("POST tools/call", (exchange) => exchange.reply(status, { location: foreign.url }));
      const { error } = await client.call("echo");
      assertData(error, { delivered: "no" });
      assert.ok(error.message.includes(`127.0.0.1:${foreign.port}`), error.message);
      await client.finish();
      assert.deepEqual(foreign.log, []);
    },
  );
}

scenario("a redirect loop ends in an error", {}, async ({ open, server }) => {
  const client = await open();
  server.always("POST tools/call", (exchange) => exchange.reply(307, { location: "/mcp" }));
  assert.equal((await client.call("echo")).error.code, -32000);
  await client.finish();
  assert.ok(server.requests("POST tools/call").length < 50);
});
