// A modern client before a legacy server, line by line: what the proxy adds to answers, what it keeps
// from the client, and how a request of the server becomes a question within an answer.

import assert from "node:assert/strict";
import { envelope } from "../fixtures/modern-fixture.mjs";
import { startServer } from "../fixtures/server.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { scenario } from "./scenario.mjs";

const TRANSPORTS = { "Streamable HTTP": startServer, "HTTP+SSE": startSseServer };

const text = (value) => ({ content: [{ type: "text", text: value }] });

/** Sends a request of 2026-07-28; `meta` is more of its `_meta`, `capabilities` what its client can do. */
function ask(client, method, params = {}, { id = client.nextId(), meta = {}, capabilities = {} } = {}) {
  return client.request(method, { ...params, _meta: { ...envelope(capabilities), ...meta } }, id);
}

const callTool = (client, name, args = {}, options = undefined) =>
  ask(client, "tools/call", { name, arguments: args }, options);

scenario("answers of a legacy server get what 2026-07-28 wants of them", {}, async ({ connect, server }) => {
  const client = connect();
  const called = await callTool(client, "echo", { n: 1 });
  assert.deepEqual([called.result?.resultType, called.result?.structuredContent], ["complete", { n: 1 }]);
  const listed = await ask(client, "tools/list");
  assert.deepEqual([listed.result?.ttlMs, listed.result?.cacheScope], [0, "private"]);
  assert.equal(listed.result._meta["io.modelcontextprotocol/serverInfo"].name, "fixture");
  await client.finish();
  const [{ message }] = server.requests("POST tools/call");
  assert.ok(!JSON.stringify(message).includes("io.modelcontextprotocol/"), JSON.stringify(message));
});

scenario("codes that 2026-07-28 does not have are replaced", {}, async ({ connect, server }) => {
  const client = connect();
  server.always("POST resources/read", (exchange) => exchange.error(-32002, "Resource not found"));
  server.always("POST prompts/get", (exchange) => exchange.error(-32050, "a code of its own"));
  const uri = "test://nowhere";
  const { error } = await ask(client, "resources/read", { uri });
  assert.deepEqual([error?.code, error?.data?.uri], [-32602, uri]);
  assert.equal((await ask(client, "prompts/get", { name: "x" })).error?.code, -32603);
  await client.finish();
});

for (const [transport, start] of Object.entries(TRANSPORTS)) {
  const chatter = async (call) => {
    const stream = call.stream();
    await stream.notify("notifications/message", { level: "info", data: "by the way" });
    stream.result(text("said"));
    stream.end();
  };
  const chatty = { start, server: { tools: { chatter } } };

  scenario(`log messages pass from the level that a request names: ${transport}`, chatty, async ({ connect }) => {
    const client = connect();
    const heard = () => client.messages.filter(({ method }) => method === "notifications/message").length;
    for (const [level, count] of [
      [undefined, 0],
      ["error", 0],
      ["info", 1],
    ]) {
      const meta = level && { "io.modelcontextprotocol/logLevel": level };
      const { result } = await callTool(client, "chatter", {}, { meta });
      assert.equal(result?.resultType, "complete");
      assert.equal(heard(), count, `heard at ${level}`);
    }
    await client.finish();
  });

  scenario(`a request of a legacy server is a question in an answer: ${transport}`, { start }, async ({ connect }) => {
    const client = connect();
    const params = { message: "Who?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } };
    const args = { requests: [{ method: "elicitation/create", params, id: "q" }] };
    const capabilities = { elicitation: {} };
    const { result: asked } = await callTool(client, "ask", args, { id: 1, capabilities });
    assert.deepEqual([asked?.resultType, Object.keys(asked?.inputRequests ?? {})], ["input_required", ["q"]]);
    assert.deepEqual(asked.inputRequests.q, { method: "elicitation/create", params });
    assert.equal(typeof asked.requestState, "string");

    const accepted = { action: "accept", content: { name: "Ada" } };
    const { requestState } = asked;
    const retry = { name: "ask", arguments: args, inputResponses: { q: accepted }, requestState };
    const { result } = await ask(client, "tools/call", retry, { id: 2, capabilities });
    assert.equal(result?.resultType, "complete");
    const [{ id, result: taken }] = result.structuredContent.answers;
    assert.deepEqual([id, taken], ["q", accepted]);
    await client.finish();
    assert.ok(client.messages.every(({ method }) => method === undefined), "a request reached a modern client");
  });
}

scenario(
  "a request of a legacy server outside of any call is answered, and reaches nobody",
  { start: startSseServer },
  async ({ connect, server }) => {
    const client = connect();
    assert.ok((await ask(client, "tools/list", {}, { capabilities: { roots: {} } })).result);
    const answer = server.pushAsk("roots/list");
    await server.seen("POST /messages response");
    const { result, error } = await answer;
    assert.ok(error || Array.isArray(result.roots), JSON.stringify(result));
    await client.finish();
    assert.equal(client.lines.length, 1);
  },
);
