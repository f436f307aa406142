// 2026-07-28 line by line: how the proxy finds out which era is behind a URL, what it makes of a
// server that asks within an answer, and which headers it adds. The servers are scripted.

import assert from "node:assert/strict";
import {
  VERSION,
  complete,
  envelope,
  refuse,
  refuseHeaders,
  refuseVersion,
  startModernFixture,
} from "../fixtures/modern-fixture.mjs";
import { startServer } from "../fixtures/server.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { scenario } from "./scenario.mjs";

const DISCOVER = "POST server/discover";
const INITIALIZE = "POST initialize";

const modern = (server) => ({ start: startModernFixture, server });
const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
const initialize = (client) => client.request("initialize", PARAMS);

/** Sends a request of 2026-07-28 and resolves with its answer. */
const ask = (client, method, params = {}, id = client.nextId()) =>
  client.request(method, { ...params, _meta: { ...params._meta, ...envelope() } }, id);

/** Clients of both eras: how each begins, and how it then asks. */
const eras = {
  legacy: { begin: (client) => client.handshake(), ask: (client, ...request) => client.request(...request) },
  modern: { begin: async () => {}, ask },
};

/** Registers a scenario for a client of each era. */
function bothEras(name, options, body) {
  for (const [era, { begin, ask: request }] of Object.entries(eras)) {
    scenario(`${name} (${era} client)`, options, async ({ connect, server }) => {
      const client = connect();
      await begin(client);
      await body({ client, server, request: (...words) => request(client, ...words) });
      await client.finish();
    });
  }
}

function errorOf(answer) {
  assert.ok(answer.error, `no error: ${JSON.stringify(answer)}`);
  return answer.error;
}

function resultOf(answer) {
  assert.ok(answer.result, `no result: ${JSON.stringify(answer)}`);
  return answer.result;
}

// ---- detection ----------------------------------------------------------------------------------

scenario("an empty result of server/discover is no modern server: initialize follows", {}, async (given) => {
  given.server.always(DISCOVER, (exchange) => exchange.result({}));
  const client = await given.open();
  resultOf(await client.request("tools/list"));
  await client.finish();
  assert.deepEqual(given.server.labels().slice(0, 2), [DISCOVER, INITIALIZE]);
  assert.equal(given.server.requests(DISCOVER).length, 1);
});

scenario("a modern client learns of a legacy server in the words of its own era", {}, async ({ connect, server }) => {
  server.always(DISCOVER, (exchange) => exchange.result({}));
  const client = connect();
  const found = resultOf(await ask(client, "server/discover"));
  assert.deepEqual([found.resultType, found.supportedVersions], ["complete", [VERSION]]);
  const listed = resultOf(await ask(client, "tools/list"));
  assert.deepEqual([listed.resultType, listed.ttlMs, listed.cacheScope], ["complete", 0, "private"]);
  await client.finish();
  assert.equal(server.requests(INITIALIZE).length, 1);
});

scenario("a version that is refused is replaced once by one that the server names", modern(), async (given) => {
  given.server.once(DISCOVER, (exchange) => refuseVersion(exchange, [VERSION]));
  const client = await given.open();
  await client.finish();
  const probes = given.server.requests(DISCOVER);
  assert.equal(probes.length, 2);
  assert.equal(probes[1].headers["mcp-protocol-version"], VERSION);
  assert.equal(probes[1].message.params._meta["io.modelcontextprotocol/protocolVersion"], VERSION);
  assert.deepEqual(given.server.requests(INITIALIZE), []);
});

for (const [what, supported, probes] of [
  ["the version that it named itself", [VERSION], 2],
  ["every version that we know", ["2031-01-01"], 1],
]) {
  scenario(`a server that refuses ${what} is an error, and not asked to initialize`, modern(), async (given) => {
    given.server.always(DISCOVER, (exchange) => refuseVersion(exchange, supported));
    const client = given.connect();
    const told = JSON.stringify(errorOf(await initialize(client)));
    for (const version of [VERSION, ...supported]) assert.ok(told.includes(version), told);
    await client.finish();
    assert.deepEqual(given.server.labels(), Array(probes).fill(DISCOVER));
  });
}

scenario("a server that names only legacy versions is asked to initialize", {}, async ({ open, server }) => {
  server.always(DISCOVER, (exchange) => refuseVersion(exchange, ["2025-06-18", "2025-11-25"]));
  const client = await open();
  await client.finish();
  assert.deepEqual(server.labels().slice(0, 2), [DISCOVER, INITIALIZE]);
});

for (const status of [401, 403]) {
  scenario(`a ${status} to server/discover says nothing of the era: it is asked again first`, { login: false }, async (given) => {
    const { server } = given;
    const stop = server.always(DISCOVER, (exchange) => exchange.reply(status));
    const client = given.connect();
    assert.equal(errorOf(await initialize(client)).data.httpStatus, status);
    assert.deepEqual(server.labels(), [DISCOVER]);
    stop();
    await client.handshake();
    await client.finish();
    assert.deepEqual(server.labels().slice(0, 3), [DISCOVER, DISCOVER, INITIALIZE]);
  });
}

scenario("a 503 to server/discover says nothing of the era", modern(), async ({ connect, server }) => {
  const stop = server.always(DISCOVER, (exchange) => exchange.reply(503));
  const client = connect({ options: ["--retries", "0"] });
  assert.equal(errorOf(await initialize(client)).data.httpStatus, 503);
  stop();
  await client.handshake();
  await client.finish();
  assert.deepEqual(new Set(server.labels()), new Set([DISCOVER]));
});

scenario("a 503 with Retry-After to server/discover is asked again", modern(), async ({ open, server }) => {
  server.once(DISCOVER, (exchange) => exchange.reply(503, { "retry-after": "1" }));
  const client = await open();
  await client.finish();
  assert.deepEqual(server.labels(), [DISCOVER, DISCOVER]);
});

for (const [transport, start] of [
  ["Streamable HTTP", startServer],
  ["HTTP+SSE", startSseServer],
]) {
  scenario(
    `server/discover before ${transport} is answered, and initialize works in the same process`,
    { start },
    async ({ connect }) => {
      const client = connect();
      const { result, error } = await ask(client, "server/discover", {}, "server-discover-probe-1");
      assert.ok(error || result.supportedVersions.includes(VERSION), JSON.stringify(result));
      assert.equal((await client.handshake()).result.protocolVersion, "2025-11-25");
      resultOf(await client.request("tools/list"));
      await client.finish();
    },
  );
}

// ---- a server that asks within an answer --------------------------------------------------------

const FORM = {
  message: "Who?",
  requestedSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
};
const SAMPLE = { messages: [{ role: "user", content: { type: "text", text: "why?" } }], maxTokens: 9 };
/** Not JSON, not ASCII, and with an escape: to be returned as it is. */
const STATE = 'st\u00e4te "1"\n\\u00e9 {';

/** Asks for two things; with both it returns what it was given. */
function askForTwo(exchange) {
  const { inputResponses, requestState } = exchange.message.params;
  const given = { inputResponses, requestState };
  if (inputResponses) return exchange.result(complete({ content: [], structuredContent: given }));
  return exchange.result({
    resultType: "input_required",
    inputRequests: {
      "a name": { method: "elicitation/create", params: { mode: "form", ...FORM } },
      thought: { method: "sampling/createMessage", params: SAMPLE },
    },
    requestState: STATE,
  });
}

const asking = modern({
  definitions: ["ask", "echo"].map((name) => ({ name, inputSchema: { type: "object" } })),
  calls: { ask: askForTwo },
});
const able = { handshake: { capabilities: { elicitation: {}, sampling: {} } } };

scenario("two questions in one answer are two requests, and their answers one more call", asking, async (given) => {
  const { server } = given;
  const client = await given.open(able);
  const args = { n: 1, deep: { text: "größer" } };
  const answer = client.call("ask", args, 7, { progressToken: "t" });
  const form = await client.asked("elicitation/create");
  const sample = await client.asked("sampling/createMessage");
  assert.equal(new Set([7, form.id, sample.id]).size, 3);
  assert.deepEqual([form.params.message, form.params.requestedSchema], [FORM.message, FORM.requestedSchema]);
  assert.deepEqual(sample.params, SAMPLE);

  const accepted = { action: "accept", content: { name: "Ada" } };
  const thought = { role: "assistant", model: "m", content: { type: "text", text: "because" } };
  client.send({ id: form.id, result: accepted });
  // A call that is answered after the first answer was sent: the server still waits for the second.
  resultOf(await client.call("echo", { aside: true }));
  assert.equal(server.calls("ask").length, 1);
  client.send({ id: sample.id, result: thought });

  const inputResponses = { "a name": accepted, thought };
  assert.deepEqual(resultOf(await answer).structuredContent, { inputResponses, requestState: STATE });
  await client.finish();

  const [first, second, ...more] = server.calls("ask").map(({ message }) => message);
  assert.deepEqual(more, []);
  assert.notDeepEqual(first.id, second.id);
  for (const { params } of [first, second]) {
    assert.deepEqual(params.arguments, args);
    assert.equal(params._meta.progressToken, "t");
  }
  assert.deepEqual([first.params.inputResponses, first.params.requestState], [undefined, undefined]);
  const [{ params: aside }] = server.calls("echo").map(({ message }) => message);
  assert.deepEqual([aside.inputResponses, aside.requestState], [undefined, undefined]);
});

scenario("an error of the client in place of an answer fails the call in its words", asking, async (given) => {
  const client = await given.open(able);
  const answer = client.call("ask");
  const form = await client.asked("elicitation/create");
  client.send({ id: form.id, error: { code: -1, message: "the user is at lunch" } });
  const { result, error } = await answer;
  assert.ok(error || result.isError, JSON.stringify(result));
  assert.match(JSON.stringify(error ?? result), /the user is at lunch/);
  resultOf(await client.call("echo"));
  await client.finish();
  assert.equal(given.server.calls("ask").length, 1);
});

// ---- what a legacy client does without -----------------------------------------------------------

scenario("changes of its roots do not leave a legacy client", modern(), async ({ open, server }) => {
  const client = await open({ handshake: { capabilities: { roots: { listChanged: true } } } });
  client.notify("notifications/roots/list_changed");
  resultOf(await client.call("echo"));
  await client.finish();
  assert.deepEqual(server.labels(), [DISCOVER, "POST tools/call"]);
  const { _meta } = server.calls("echo")[0].message.params;
  assert.deepEqual(_meta["io.modelcontextprotocol/clientCapabilities"], { roots: {} });
});

scenario("a modern server asks in results only: its requests are dropped", modern(), async ({ open, server }) => {
  server.once("POST tools/call", (exchange) => {
    const stream = exchange.stream();
    stream.send({ jsonrpc: "2.0", id: "why", method: "roots/list" });
    stream.result(complete({ content: [] }));
    stream.end();
  });
  const client = await open({ handshake: { capabilities: { roots: {} } } });
  resultOf(await client.call("echo"));
  await client.finish();
  assert.deepEqual(client.messages.filter(({ method }) => method !== undefined), []);
  assert.deepEqual(server.labels(), [DISCOVER, "POST tools/call"]);
});

for (const how of ["end", "reset"]) {
  bothEras(`a call whose stream breaks (${how}) has an unknown outcome and is not resumed`, modern(), async (given) => {
    const { request, server } = given;
    server.once("POST tools/call", (exchange) => {
      const stream = exchange.stream();
      stream.event({ id: "1", data: JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: {} }) });
      setImmediate(() => stream.cut(how));
    });
    const { data } = errorOf(await request("tools/call", { name: "echo", arguments: {} }));
    assert.deepEqual([data.delivered, data.retrySafe], ["maybe", false]);
    resultOf(await request("tools/call", { name: "echo", arguments: {} }));
    assert.equal(server.calls("echo").length, 2);
    assert.deepEqual(server.requests("GET"), []);
  });
}

scenario("tasks of a legacy client are refused, and no modern server hears of them", modern(), async (given) => {
  const client = await given.open();
  for (const method of ["tasks/list", "tasks/get", "tasks/result", "tasks/cancel"])
    assert.equal(errorOf(await client.request(method, { taskId: "1" })).code, -32601);
  await client.finish();
  assert.deepEqual(given.server.labels(), [DISCOVER]);
});

const LISTEN = "POST subscriptions/listen";
const SUBSCRIBED = ["test://one", "test://two"];

scenario("subscriptions of a legacy client become one subscriptions/listen", modern(), async ({ open, server }) => {
  const capabilities = { resources: { subscribe: true } };
  const found = { supportedVersions: [VERSION], capabilities, ttlMs: 0, cacheScope: "private" };
  server.always(DISCOVER, (exchange) => exchange.result(complete(found)));
  const streams = [];
  server.always(LISTEN, (exchange) => {
    const stream = exchange.stream();
    const { notifications } = exchange.message.params;
    const _meta = { "io.modelcontextprotocol/subscriptionId": exchange.message.id };
    stream.notify("notifications/subscriptions/acknowledged", { notifications, _meta });
    stream.update = (uri) => stream.notify("notifications/resources/updated", { uri, _meta });
    streams.push(stream);
  });
  const client = await open();
  for (const uri of SUBSCRIBED) assert.deepEqual(resultOf(await client.request("resources/subscribe", { uri })), {});
  const filters = server.requests(LISTEN).map(({ message }) => message.params.notifications);
  assert.deepEqual(filters.at(-1), { resourceSubscriptions: SUBSCRIBED });
  await Promise.all(streams.slice(0, -1).map(({ closed }) => closed));
  for (const uri of SUBSCRIBED) streams.at(-1).update(uri);
  const updates = () => client.messages.filter(({ method }) => method === "notifications/resources/updated");
  await client.until("both updates", () => updates().length === 2);
  assert.deepEqual(updates().map(({ params }) => params), SUBSCRIBED.map((uri) => ({ uri })));
  await client.finish();
  assert.deepEqual(server.requests("POST resources/subscribe"), []);
});

// ---- headers --------------------------------------------------------------------------------------

const tool = (name, properties = {}) => ({ name, inputSchema: { type: "object", properties } });
const mirrored = (type, header) => ({ type, "x-mcp-header": header });
const INVALID = [
  tool("fractional", { ratio: mirrored("number", "Ratio") }),
  tool("listed", { all: { type: "array", items: mirrored("string", "Each") } }),
  tool("doubled", { a: mirrored("string", "Region"), b: mirrored("string", "REGION") }),
];
const LOCATE = tool("locate", { region: mirrored("string", "Region"), verbose: mirrored("boolean", "Verbose") });
const ARGUMENTS = { region: " us", verbose: null };

/** Insists on the header of a value, as a server must. */
function locate(exchange) {
  if (exchange.entry.headers["mcp-param-region"] === undefined) return refuseHeaders(exchange);
  return exchange.result(complete({ content: [], structuredContent: exchange.message.params.arguments }));
}

const locating = modern({ definitions: [LOCATE], calls: { locate } });

bothEras(
  "tools with an invalid annotation are left out of the list, and named on stderr",
  modern({ definitions: [LOCATE, ...INVALID, tool("plain")] }),
  async ({ client, request }) => {
    const { tools } = resultOf(await request("tools/list"));
    assert.deepEqual(tools, [LOCATE, tool("plain")]);
    for (const { name } of INVALID)
      await client.until(`a warning that names ${name}`, () => client.stderr.includes(name));
  },
);

bothEras("an argument is mirrored in its header, encoded, and null is not", locating, async ({ request, server }) => {
  await request("tools/list");
  const { structuredContent } = resultOf(await request("tools/call", { name: "locate", arguments: ARGUMENTS }));
  assert.deepEqual(structuredContent, ARGUMENTS);
  const [{ headers }, ...more] = server.calls("locate");
  assert.deepEqual(more, []);
  assert.equal(headers["mcp-param-region"], "=?base64?IHVz?=");
  assert.equal(headers["mcp-param-verbose"], undefined);
});

bothEras("a tool that is called before any list has its headers", locating, async ({ request, server }) => {
  resultOf(await request("tools/call", { name: "locate", arguments: ARGUMENTS }));
  assert.equal(server.calls("locate").at(-1).headers["mcp-param-region"], "=?base64?IHVz?=");
  assert.ok(server.calls("locate").length <= 2);
  assert.equal(server.requests("POST tools/list").length, 1);
});

bothEras(
  "headers that no longer match are repaired with the new list, and the call is sent once more",
  modern({ definitions: [tool("locate")], calls: { locate } }),
  async ({ request, server }) => {
    await request("tools/list");
    server.definitions = [LOCATE];
    resultOf(await request("tools/call", { name: "locate", arguments: ARGUMENTS }));
    assert.deepEqual(
      server.calls("locate").map(({ headers }) => headers["mcp-param-region"]),
      [undefined, "=?base64?IHVz?="],
    );
  },
);

bothEras(
  "headers that are refused again are an error, after one repetition",
  modern({ definitions: [LOCATE], calls: { locate: refuseHeaders } }),
  async ({ request, server }) => {
    await request("tools/list");
    const { code } = errorOf(await request("tools/call", { name: "locate", arguments: ARGUMENTS }));
    assert.equal(code, -32020);
    assert.equal(server.calls("locate").length, 2);
  },
);

scenario("a modern request passes word for word, under headers of its own", modern(), async ({ connect, server }) => {
  const client = connect();
  const params = `{"name":"größe","arguments":{"n":9007199254740993},"_meta":${JSON.stringify(envelope())}}`;
  client.line(`{"jsonrpc":"2.0","id":"ä 1","method":"tools/call","params":${params}}`);
  await client.answer("ä 1");
  await client.finish();
  const [{ headers, body }] = server.calls("größe");
  assert.ok(body.includes(params), body);
  assert.equal(headers["mcp-protocol-version"], VERSION);
  assert.equal(headers["mcp-method"], "tools/call");
  assert.equal(headers["mcp-name"], "=?base64?Z3LDtsOfZQ==?=");
  assert.equal(headers["mcp-session-id"], undefined);
});

bothEras("a refusal with any status is the answer to its request", modern(), async ({ request, server }) => {
  assert.equal(errorOf(await request("no/such/method")).code, -32601);
  const requiredCapabilities = { sampling: {} };
  server.once("POST tools/call", (exchange) =>
    refuse(exchange, 400, { code: -32021, message: "no sampling", data: { requiredCapabilities } }),
  );
  const { code, data } = errorOf(await request("tools/call", { name: "echo", arguments: {} }));
  assert.deepEqual([code, data], [-32021, { requiredCapabilities }]);
});
