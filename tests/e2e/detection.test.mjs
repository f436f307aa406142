// Finding out which era and which transport are behind a URL, with one `server/discover` and then the
// client's first message; and saying what was tried where there is no server.

import assert from "node:assert/strict";
import { startServer } from "../fixtures/server.mjs";
import { endpoints, startSseServer } from "../fixtures/sse-server.mjs";
import { another, scenario } from "./scenario.mjs";

const PAGE = { "content-type": "text/html" };
const JSON_TYPE = { "content-type": "application/json" };
const JSON_RPC = '{"jsonrpc":"2.0","error":{"code":-32055,"message":"I understood, and no"},"id":null}';

const sse = { start: startSseServer };
const sseWith = (server) => ({ start: startSseServer, server });

const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
const initialize = (client) => client.request("initialize", PARAMS);

const legacySession = [
  "POST /messages initialize",
  "POST /messages notifications/initialized",
  "POST /messages tools/list",
];

// ---- the era --------------------------------------------------------------------------------

/** Legacy servers of both transports: what each is asked with, and what opens a session there. */
const legacyServers = [
  { name: "Streamable HTTP", start: startServer, path: "", begin: ["POST initialize"] },
  { name: "HTTP+SSE", start: startSseServer, path: " /sse", begin: ["POST /sse initialize", "GET /sse"] },
];

for (const { name, start, path, begin } of legacyServers) {
  const discover = `POST${path} server/discover`;
  const logged = { start, server: { logDiscover: true } };

  scenario(`a server on ${name} gets one server/discover, before anything else`, logged, async ({ open, server }) => {
    const client = await open();
    await client.request("tools/list");
    await client.finish();
    assert.deepEqual(server.labels().slice(0, 1 + begin.length), [discover, ...begin]);
    assert.equal(server.requests(discover).length, 1);
  });

  for (const [what, reply] of [
    ["with a 500", (exchange) => exchange.reply(500, PAGE, "<p>unknown method</p>")],
    ["with nothing", () => {}],
  ]) {
    scenario(`a server/discover answered ${what} on ${name} leads to initialize`, { start }, async (given) => {
      given.server.always(discover, reply);
      const client = await given.open({ options: ["--request-timeout", "1s"] });
      assert.ok((await client.call("echo")).result);
      await client.finish();
      assert.deepEqual(given.server.labels().slice(0, 1 + begin.length), [discover, ...begin]);
      assert.equal(given.server.requests(discover).length, 1);
    });
  }

  scenario(`--era legacy sends no server/discover to ${name}`, logged, async ({ open, server }) => {
    const client = await open({ options: ["--era", "legacy"] });
    await client.request("tools/list");
    await client.finish();
    assert.deepEqual(server.labels().slice(0, begin.length), begin);
    assert.deepEqual(server.requests(discover), []);
  });

  scenario(`--era modern before ${name} is an error that names the option`, logged, async ({ connect, server }) => {
    const client = connect({ options: ["--era", "modern"] });
    const { error } = await initialize(client);
    assert.match(error.message, /2026-07-28.*--era modern/);
    assert.equal(error.data.delivered, "no");
    await client.finish();
    assert.deepEqual(server.labels(), [discover]);
  });
}

// ---- the transport --------------------------------------------------------------------------

scenario(
  "a server on Streamable HTTP is sent nothing to detect its transport",
  { server: { logDiscover: true } },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    await client.request("tools/list");
    await client.finish();
    assert.deepEqual(server.labels(), [
      "POST server/discover",
      "POST initialize",
      "POST notifications/initialized",
      "GET",
      "POST tools/list",
      "DELETE",
    ]);
  },
);

scenario(
  "--transport sse sends nothing for detection, and no server/discover",
  sseWith({ logDiscover: true }),
  async ({ open, server }) => {
    const client = await open({ options: ["--transport", "sse"] });
    await client.request("tools/list");
    await client.finish();
    assert.deepEqual(server.labels(), ["GET /sse", ...legacySession]);
  },
);

for (const status of [400, 404, 405, 406, 415, 501]) {
  scenario(
    `a POST answered ${status} without JSON-RPC leads to the stream, with the same message`,
    sseWith({ postToStream: { status, headers: PAGE, body: "<p>no</p>" } }),
    async ({ open, server }) => {
      const client = await open();
      await client.request("tools/list");
      await client.finish();
      assert.deepEqual(server.labels(), ["POST /sse initialize", "GET /sse", ...legacySession]);
      const [tried] = server.requests("POST /sse initialize");
      assert.equal(server.requests("POST /messages initialize")[0].body, tried.body);
    },
  );
}

scenario("a session that is piped in at once waits for the verdict", sse, async ({ connect, server }) => {
  const client = connect();
  client.send({ id: 1, method: "initialize", params: PARAMS });
  client.notify("notifications/initialized");
  client.send({ id: 2, method: "tools/list" });
  client.send({ id: 3, method: "tools/call", params: { name: "echo" } });
  await client.finish();
  assert.deepEqual(client.messages.map(({ id, result }) => result && id).sort(), [1, 2, 3]);
  assert.equal(server.requests("POST /sse initialize").length, 1);
});

for (const status of [401, 403, 429, 500, 503]) {
  scenario(
    `a ${status} decides nothing: it is the answer, and the next try is free`,
    sse,
    async ({ connect, server }) => {
      const stop = server.always("POST /sse initialize", (exchange) => exchange.reply(status));
      const client = connect();
      const { error } = await initialize(client);
      assert.equal(error.data.httpStatus, status);
      assert.deepEqual(server.requests("GET /sse"), []);
      stop();
      assert.ok((await initialize(client)).result);
      await client.finish();
    },
  );
}

scenario("a 503 with Retry-After is asked again before anything is decided", sse, async ({ open, server }) => {
  server.once("POST /sse initialize", (exchange) => exchange.reply(503, { "retry-after": "1" }));
  const client = await open();
  await client.finish();
  assert.deepEqual(server.labels().slice(0, 3), ["POST /sse initialize", "POST /sse initialize", "GET /sse"]);
});

// Which refusals lead to a stream, and which do not, is in refusals.test.mjs.
scenario(
  "a 400 with an error of the server's own is its answer, also without an id, and leads nowhere",
  sseWith({ postToStream: { status: 400, headers: JSON_TYPE, body: JSON_RPC } }),
  async ({ connect, server }) => {
    const client = connect();
    const { error } = await initialize(client);
    assert.deepEqual([error.code, error.message], [-32055, "I understood, and no"]);
    await client.finish();
    assert.deepEqual(server.labels(), ["POST /sse initialize"]);
  },
);

/** Both tries fail; the error for `initialize` tells of each. */
async function assertReport(client, statuses, bodies) {
  const { error } = await initialize(client);
  assert.equal(error.data.delivered, "no");
  const { attempts } = error.data;
  assert.deepEqual(
    attempts.map(({ method, httpStatus }) => [method, httpStatus]),
    [
      ["POST", statuses[0]],
      ["GET", statuses[1]],
    ],
  );
  for (const [n, body] of bodies.entries()) if (body) assert.match(attempts[n].body, body);
  assert.match(error.message, new RegExp(`POST.*${statuses[0]}.*GET`));
  return error;
}

for (const status of [404, 405, 500]) {
  scenario(`nothing behind a URL is told with both attempts (GET ${status})`, sse, async ({ connect, server }) => {
    const body = `<h1>nobody home</h1>${"x".repeat(100_000)}`;
    const stop = server.always("GET /sse", (exchange) => exchange.reply(status, PAGE, body));
    const client = connect({ options: ["--retries", "0"] });
    const error = await assertReport(client, [404, status], [/Cannot POST here/, /^<h1>nobody home/]);
    assert.match(error.message, new RegExp(`GET.*${status}`));
    assert.ok(JSON.stringify(error).length < 10_000, "the report is bounded");
    // A verdict of nothing is none.
    stop();
    assert.ok((await initialize(client)).result);
    await client.finish();
  });
}

for (const [what, first] of [
  ["message", `event: message\ndata: {"jsonrpc":"2.0","method":"ping","id":1}\n\n`],
  ["an event without a name", `data: hello\n\n`],
]) {
  scenario(`a stream that begins with ${what} is no HTTP+SSE`, sseWith({ first }), async ({ connect, server }) => {
    const client = connect();
    const error = await assertReport(client, [404, 200], []);
    assert.match(error.message, /endpoint/);
    await client.finish();
    assert.deepEqual(server.labels(), ["POST /sse initialize", "GET /sse"]);
    assert.equal(client.lines.length, 1);
  });
}

scenario(
  "comments before the endpoint are not its beginning",
  sseWith({ first: ": hi\n\nretry: 9\n\n" }),
  async ({ open }) => {
    const client = await open();
    await client.finish();
  },
);

scenario("a page behind a GET is no HTTP+SSE", sse, async ({ connect, server }) => {
  server.always("GET /sse", (exchange) => exchange.reply(200, PAGE, "<h1>welcome</h1>"));
  const client = connect();
  await assertReport(client, [404, 200], [/Cannot POST here/, /welcome/]);
  await client.finish();
});

scenario(
  "an endpoint that never comes is an error that names it and its time limit",
  { ...sseWith({ endpoint: endpoints.never }), options: ["--endpoint-timeout", "300ms"] },
  async ({ connect, server }) => {
    const client = connect();
    const { error } = await initialize(client);
    assert.match(error.message, /endpoint.*0\.3.*--endpoint-timeout/);
    assert.equal(error.data.delivered, "no");
    assert.deepEqual(
      error.data.attempts.map(({ method }) => method),
      ["POST", "GET"],
    );
    await client.finish();
    assert.deepEqual(server.labels(), ["POST /sse initialize", "GET /sse"]);
  },
);

scenario(
  "the end of stdin while the endpoint is awaited is an error for a message that was never taken",
  { ...sseWith({ endpoint: endpoints.never }), options: ["--drain-timeout", "300ms"] },
  async ({ connect, server }) => {
    const client = connect();
    const answer = initialize(client);
    await server.seen("GET /sse");
    client.eof();
    assert.equal((await answer).error.data.delivered, "no");
    await client.finish();
  },
);

for (const options of [[], ["--transport", "sse"]]) {
  scenario(
    `an endpoint on another origin is refused and nothing is sent there (${options.at(-1) ?? "auto"})`,
    { ...sseWith({ endpoint: (id, server) => server.foreign(id) }), options },
    async ({ t, connect, server }) => {
      const foreign = await another(t, {}, startSseServer);
      server.foreign = (id) => `${foreign.origin}/messages?sessionId=${id}`;
      const client = connect({ options: ["--header", "Authorization:Bearer hush"] });
      const { error } = await initialize(client);
      assert.ok(error.message.includes(foreign.origin), error.message);
      assert.equal(error.data.delivered, "no");
      await client.finish();
      assert.deepEqual(foreign.log, []);
      assert.deepEqual(server.requests("POST /messages initialize"), []);
    },
  );
}

scenario("--transport streamable-http does not look for a stream", sse, async ({ connect, server }) => {
  const client = connect({ options: ["--transport", "streamable-http"] });
  const { error } = await initialize(client);
  assert.equal(error.data.httpStatus, 404);
  await client.finish();
  assert.deepEqual(server.labels(), ["POST /sse initialize"]);
});

scenario("--transport sse does not try a POST", {}, async ({ connect, server }) => {
  const client = connect({ options: ["--transport", "sse"] });
  const { error } = await initialize(client);
  assert.equal(error.data.httpStatus, 400);
  await client.finish();
  assert.deepEqual(server.labels(), ["GET"]);
});

scenario(
  "a 404 of a server that has answered before is no reason to look for a stream",
  { server: { sessions: false, get: 405 } },
  async ({ open, server }) => {
    const client = await open();
    await server.seen("GET");
    server.once("POST tools/call", (exchange) => exchange.reply(404, PAGE, "<p>no</p>"));
    assert.equal((await client.call("echo")).error.data.httpStatus, 404);
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("GET").length, 1);
  },
);
