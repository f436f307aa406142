// What a client does with modern-server.mjs, however it reaches it and whichever revision it speaks.
// Words that only one era has are put into the other's by modern-clients.mjs.

import assert from "node:assert/strict";
import { INFO } from "./modern-clients.mjs";
import { LEVELS, WATCHED } from "./modern-server.mjs";
import { progressOf, textOf } from "./sdk.mjs";

const META = "io.modelcontextprotocol/";
/** The names in `_meta` that 2026-07-28 reserves; extensions have theirs in the same space. */
const RESERVED =
  /"io\.modelcontextprotocol\/(protocolVersion|clientInfo|clientCapabilities|logLevel|serverInfo|subscriptionId)"/;
const CAPABILITIES = {
  logging: {},
  completions: {},
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
};

/** Each as {name, body, on?, capabilities?}; a body gets what `connect` resolves with, and the server. */
export const steps = [];

/** Options: `on` (the era of the clients that can do it), `capabilities` (in place of all). */
const step = (name, body, options = {}) => steps.push({ name, body, ...options });

const call = (client, name, args = {}, options = undefined) =>
  client.callTool({ name, arguments: args }, undefined, options);

step("the server introduces itself", async ({ client, kind, received }) => {
  assert.deepEqual(client.getServerVersion(), { name: "modern", version: "1" });
  assert.deepEqual(client.getServerCapabilities(), CAPABILITIES);
  assert.equal(client.getInstructions(), "Be brief.");
  if (kind.era === "legacy") assert.equal(received[0].result.protocolVersion, "2025-11-25");
  else assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
});

step("the client introduces itself with every request", async ({ client, server }) => {
  await client.listTools();
  await call(client, "echo", { text: "hi" });
  const modern = server.log.filter(({ message }) => message?.params?._meta?.[`${META}protocolVersion`]);
  const introductions = modern.map(({ message: { params } }) => [
    params._meta[`${META}protocolVersion`],
    params._meta[`${META}clientInfo`],
    params._meta[`${META}clientCapabilities`],
  ]);
  assert.ok(introductions.length >= 3, server.labels().join());
  for (const introduction of introductions)
    assert.deepEqual(introduction, ["2026-07-28", INFO, { sampling: {}, elicitation: {}, roots: {} }]);
});

step("tools, without the one whose annotation is invalid", async ({ client }) => {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  for (const name of ["echo", "add", "slow", "ask", "two_rounds", "locate"]) assert.ok(names.includes(name), name);
  assert.ok(!names.includes("misplaced"));
  assert.equal(tools.find(({ name }) => name === "locate").inputSchema.properties.region["x-mcp-header"], "Region");
  assert.equal(textOf(await call(client, "echo", { text: "größer 👋" })), "größer 👋");
  assert.deepEqual((await call(client, "add", { a: 2, b: 40 })).structuredContent, { sum: 42 });
});

step("a tool that fails, one that is unknown, and a resource that is unknown", async ({ client }) => {
  const failed = await call(client, "fail");
  assert.deepEqual([failed.isError, textOf(failed)], [true, "failed as asked"]);
  await assert.rejects(call(client, "nowhere"), { code: -32602 });
  await assert.rejects(client.readResource({ uri: "test://nowhere" }), { code: -32602 });
});

for (const [when, before] of [
  ["after the list was read", (client) => client.listTools()],
  ["before any list was read", () => {}],
]) {
  step(`arguments are mirrored in headers, ${when}`, async ({ client, server }) => {
    await before(client);
    const args = { region: " us", zoom: 3, exact: false, place: { street: "Größe 1" }, note: "plain" };
    assert.deepEqual(JSON.parse(textOf(await call(client, "locate", args))), args);
    const { headers } = server.requests("POST tools/call").at(-1);
    const mirrored = Object.entries(headers).filter(([name]) => name.startsWith("mcp-param-"));
    assert.deepEqual(Object.fromEntries(mirrored), {
      "mcp-param-region": "=?base64?IHVz?=",
      "mcp-param-zoom": "3",
      "mcp-param-exact": "false",
      "mcp-param-street": "=?base64?R3LDtsOfZSAx?=",
    });
  });
}

step("progress, complete and in order", async ({ client, received }) => {
  assert.equal(textOf(await call(client, "slow", { steps: 20 }, { onprogress: () => {} })), "20 steps");
  assert.deepEqual(
    progressOf(received),
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
});

for (const [tool, answer] of [
  ["ask", "accept Ada"],
  ["sample", "re: why?"],
  ["roots", "file:///home/ada"],
  ["two_rounds", "Ada from London"],
  ["both", "accept Ada | re: why?"],
]) {
  step(`a tool that asks the client: ${tool}`, async ({ client, server }) => {
    assert.equal(textOf(await call(client, tool)), answer);
    const calls = server.requests("POST tools/call").map(({ message }) => message);
    assert.equal(new Set(calls.map(({ id }) => JSON.stringify(id))).size, calls.length, "an id was used twice");
    assert.equal(calls.length, tool === "two_rounds" ? 3 : 2);
  });
}

step("a prompt that asks the client", async ({ client }) => {
  const { messages } = await client.getPrompt({ name: "greet" });
  assert.equal(messages[0].content.text, "Greet Ada");
});

step(
  "a tool that asks for what the client does not have",
  async ({ client, server }) => {
    const requiredCapabilities = { sampling: {} };
    await assert.rejects(call(client, "sample"), { code: -32021, data: { requiredCapabilities } });
    assert.equal(server.requests("POST tools/call").length, 1);
    assert.equal(textOf(await call(client, "ask")), "accept Ada");
  },
  { capabilities: { elicitation: {} } },
);

step("list_changed", async ({ client, seen, server, watchTools }) => {
  await watchTools();
  await server.listening(({ toolsListChanged }) => toolsListChanged);
  await call(client, "change_tools", { name: "sprout" });
  await seen("notifications/tools/list_changed");
  assert.ok((await client.listTools()).tools.some(({ name }) => name === "sprout"));
  assert.equal(textOf(await call(client, "sprout")), "I am sprout");
});

step("subscribing to a resource and unsubscribing", async ({ client, seen, received }) => {
  const updates = () =>
    received.filter(({ method }) => method === "notifications/resources/updated").map(({ params }) => params.uri);
  const touch = (uri) => call(client, "touch_resource", { uri });
  const updated = (uri) => seen("notifications/resources/updated", ({ params }) => params.uri === uri);

  await client.subscribeResource({ uri: WATCHED });
  await touch("test://other");
  await touch(WATCHED);
  await updated(WATCHED);
  assert.deepEqual(updates(), [WATCHED]);

  await client.subscribeResource({ uri: "test://other" });
  await client.unsubscribeResource({ uri: WATCHED });
  await touch(WATCHED);
  await touch("test://other");
  await updated("test://other");
  assert.deepEqual(updates(), [WATCHED, "test://other"]);
});

step("log messages of the level that was asked for, and none before", async ({ client, received }) => {
  const levels = () =>
    received.filter(({ method }) => method === "notifications/message").map(({ params }) => params.level);
  await call(client, "log", { text: "unheard" });
  assert.deepEqual(levels(), []);
  await client.setLoggingLevel("warning");
  await call(client, "log", { text: "heard" });
  assert.deepEqual(levels(), ["warning", "error"]);
  await client.setLoggingLevel("debug");
  await call(client, "log", { text: "all" });
  assert.deepEqual(levels(), ["warning", "error", ...LEVELS]);
});

step("prompts and completion", async ({ client }) => {
  assert.deepEqual(
    (await client.listPrompts()).prompts.map(({ name }) => name),
    ["visit", "greet"],
  );
  const { messages } = await client.getPrompt({ name: "visit", arguments: { city: "Rome" } });
  assert.equal(messages[0].content.text, "Visit Rome");
  const { completion } = await client.complete({
    ref: { type: "ref/prompt", name: "visit" },
    argument: { name: "city", value: "P" },
  });
  assert.deepEqual(completion.values, ["Paris", "Prague"]);
});

step("resources and templates", async ({ client }) => {
  assert.deepEqual(
    (await client.listResources()).resources.map(({ uri }) => uri),
    [WATCHED, "test://other"],
  );
  assert.equal((await client.readResource({ uri: WATCHED })).contents[0].text, "as above, so below");
  assert.equal((await client.listResourceTemplates()).resourceTemplates[0].uriTemplate, "test://item/{n}");
  assert.equal((await client.readResource({ uri: "test://item/3" })).contents[0].text, "item 3");
});

step("a cancelled call is closed at the server, and life goes on", async ({ client, server, received }) => {
  const controller = new AbortController();
  const options = { signal: controller.signal, onprogress: () => controller.abort("enough") };
  await assert.rejects(call(client, "wait", { mark: "left" }, options));
  await server.until("end of the cancelled call", () => server.aborted.includes("left"));
  const [{ ended }] = server.requests("POST tools/call");
  assert.equal(ended, "by the client");
  assert.equal(textOf(await call(client, "echo", { text: "alive" })), "alive");
  assert.deepEqual(server.requests("POST notifications/cancelled"), []);
  // The SDKs take the id of a call for its progress token.
  const { progressToken } = received.find(({ method }) => method === "notifications/progress").params;
  assert.ok(!received.some(({ id, method }) => method === undefined && id === progressToken), "it was answered");
});

step("twenty calls at once, some of which ask, each with its own answer", async ({ client }) => {
  const calls = Array.from({ length: 20 }, (_, n) =>
    n % 4 === 0 ? [call(client, "two_rounds"), "Ada from London"] : [call(client, "echo", { text: `${n}` }), `${n}`],
  );
  const results = await Promise.all(calls.map(([result]) => result));
  assert.deepEqual(
    results.map(textOf),
    calls.map(([, answer]) => answer),
  );
});

step(
  "ping is answered without the server, which has none",
  async ({ client, server }) => {
    assert.deepEqual(await client.ping(), {});
    assert.deepEqual(server.requests("POST ping"), []);
  },
  { on: "legacy" },
);

step("the subscriptions end with the client", async ({ close, server, watchTools }) => {
  await watchTools();
  await server.listening();
  await close();
  await server.until("end of every subscription", () =>
    server.requests("POST subscriptions/listen").every(({ ended }) => ended),
  );
});

/** What holds for everything that a client of this era has received. */
export function assertEra({ kind, received, errors }) {
  assert.deepEqual(errors, []);
  const results = received.filter(({ result }) => result !== undefined).map(({ result }) => result);
  if (kind.era === "modern") {
    assert.ok(!received.some(({ id, method }) => id !== undefined && method !== undefined), "a server asked outright");
    for (const { resultType } of results) assert.ok(resultType, "a result without a type");
    return;
  }
  for (const message of received) {
    assert.doesNotMatch(JSON.stringify(message), RESERVED, "a word of the modern era");
  }
  for (const result of results)
    for (const word of ["resultType", "ttlMs", "cacheScope", "requestState", "inputRequests"])
      assert.ok(!(word in result), `a word of the modern era: ${word}`);
}
