// Calls in both directions while nothing is broken: concurrency, requests of the server, progress,
// cancellation, ids, and the bytes of messages.

import assert from "node:assert/strict";
import { scenario } from "./scenario.mjs";

scenario("ten calls are at the server at the same time", {}, async ({ open, server }) => {
  const client = await open();
  // The server answers none of them before all ten have arrived.
  const answers = await Promise.all(
    Array.from({ length: 10 }, (_, n) => client.call("meet", { gate: "ten", count: 10, n })),
  );
  assert.deepEqual(
    answers.map(({ result }) => result.content[0].text),
    Array.from({ length: 10 }, (_, n) => `ten ${n}`),
  );
  assert.equal(server.requests("POST tools/call").length, 10);
  await client.finish();
});

scenario("a hundred streamed calls at once are each answered once", {}, async ({ open }) => {
  const client = await open();
  await Promise.all(
    Array.from({ length: 100 }, (_, n) => client.call("meet", { gate: "hundred", count: 100, n, as: "sse" })),
  );
  await client.finish();
});

for (const [what, method, params, result] of [
  [
    "sampling",
    "sampling/createMessage",
    { messages: [], maxTokens: 1 },
    { role: "assistant", model: "m", content: { type: "text", text: "hi" } },
  ],
  [
    "elicitation",
    "elicitation/create",
    { message: "who?", requestedSchema: { type: "object", properties: {} } },
    { action: "accept", content: {} },
  ],
  ["roots", "roots/list", undefined, { roots: [{ uri: "file:///r" }] }],
  ["ping", "ping", undefined, {}],
]) {
  scenario(`a ${what} request inside a call reaches the client, and its answer the server`, {}, async ({ open }) => {
    const client = await open({ handshake: { capabilities: { sampling: {}, elicitation: {}, roots: {} } } });
    // The server's request has the id of the client's own call: the two directions are apart.
    const call = client.call("ask", { requests: [{ method, params, id: 500 }] }, 500);
    const ask = await client.asked(method);
    assert.deepEqual([ask.id, ask.params], [500, params]);
    client.send({ id: ask.id, result });
    const { structuredContent } = (await call).result;
    assert.deepEqual(structuredContent.answers, [{ jsonrpc: "2.0", id: 500, result }]);
    await client.finish();
  });
}

scenario("a client's error answer to a sampling request reaches the server", {}, async ({ open }) => {
  const client = await open();
  const call = client.call("ask", {
    requests: [{ method: "sampling/createMessage", params: { messages: [], maxTokens: 1 } }],
  });
  const { id } = await client.asked("sampling/createMessage");
  client.send({ id, error: { code: -1, message: "the user said no" } });
  assert.deepEqual((await call).result.structuredContent.answers[0].error, { code: -1, message: "the user said no" });
  await client.finish();
});

scenario(
  "requests and notifications of the GET stream reach the client, and its answers the server",
  {},
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    await client.message("list_changed", ({ method }) => method === "notifications/tools/list_changed");
    const answer = server.pushAsk("roots/list");
    const { id } = await client.asked("roots/list");
    client.send({ id, result: { roots: [] } });
    assert.deepEqual(await answer, { jsonrpc: "2.0", id, result: { roots: [] } });
    await client.finish();
  },
);

scenario("progress arrives complete, in order and before the answer, also under token 0", {}, async ({ open }) => {
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

for (const tool of ["hold", "holdHead"]) {
  scenario(
    `a cancelled call is cancelled at the server under its id, and no late answer leaks (${tool})`,
    {},
    async ({ open, server }) => {
      const client = await open();
      client.send({ id: "c-1", method: "tools/call", params: { name: tool, arguments: { gate: "late" } } });
      await server.seen("POST tools/call");
      client.notify("notifications/cancelled", { requestId: "c-1", reason: "changed my mind" });
      await server.until("cancellation", () => server.cancelled.length > 0);
      assert.deepEqual(server.cancelled, ["c-1"]);
      server.gate("late").open();
      await client.call("echo", {});
      await client.finish();
    },
  );
}

scenario("a cancellation does not queue behind a full house of calls", {}, async ({ open, server }) => {
  const client = await open();
  const calls = Array.from({ length: 64 }, (_, n) => client.call("holdHead", { gate: "house" }, `h-${n}`));
  await server.seen("POST tools/call", 64);
  client.send({ id: "extra", method: "tools/call", params: { name: "holdHead", arguments: { gate: "house" } } });
  await server.seen("POST tools/call", 65);
  client.notify("notifications/cancelled", { requestId: "extra" });
  await server.until("cancellation", () => server.cancelled.includes("extra"));
  server.gate("house").open();
  await Promise.all(calls);
  await client.finish();
});

scenario('ids 1 and "1" stay apart when their answers come in reverse order', {}, async ({ open, server }) => {
  const client = await open();
  const number = client.call("holdHead", { gate: "number" }, 100);
  const string = client.call("holdHead", { gate: "string" }, "100");
  await server.seen("POST tools/call", 2);
  server.gate("string").open();
  assert.equal((await string).result.content[0].text, "string");
  server.gate("number").open();
  assert.equal((await number).result.content[0].text, "number");
  await client.finish();
});

const ODD = '"big":9007199254740993, "exp":1.50E+2,"z":{"b":1,"a":[ ]},"u":"\\u00e9\\/é","dup":1,"dup":2';

scenario("the bytes of a request reach the server unchanged", {}, async ({ open, server }) => {
  server.once("POST tools/call", (exchange) => exchange.json('{"jsonrpc":"2.0","id":9007199254740993,"result":{}}'));
  const client = await open();
  const line = `{"params":{${ODD}, "name":"nobody"},"x-unknown" : {"k":null},"method":"tools/call","id":9007199254740993,"jsonrpc":"2.0"}`;
  client.line(line);
  assert.equal((await server.seen("POST tools/call")).body, line);
  await client.finish();
});

for (const as of ["json", "sse"]) {
  scenario(`the bytes of an answer reach the client unchanged (${as})`, {}, async ({ open, server }) => {
    const body = `{"x-unknown" : {"k":null},"result":{${ODD}},"id":9007199254740993,"jsonrpc":"2.0"}`;
    server.once("POST tools/call", (exchange) => {
      if (as === "json") return exchange.json(body);
      const stream = exchange.stream();
      stream.send(body);
      return stream.end();
    });
    const client = await open();
    client.line('{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"x"}}');
    await client.finish();
    assert.equal(client.lines.at(-1).text, body);
  });
}

scenario("a JSON-RPC error of the server passes unchanged", {}, async ({ open }) => {
  const client = await open();
  const { error } = await client.request("no/such-method", {});
  assert.deepEqual(error, { code: -32601, message: "no method no/such-method" });
  await client.finish();
});
