// Who sees which token: what the Worker says about tokens, whose challenge a client gets, and where a
// client's own token goes.

import assert from "node:assert/strict";
import { envelope } from "../../fixtures/modern-fixture.mjs";
import { startServer } from "../../fixtures/server.mjs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { scene } from "./scene.mjs";
import { TYPES, initialize } from "./wire.mjs";

const TOKEN = "correct-horse-battery";
const ROOT = "/.well-known/oauth-protected-resource";
const LOGIN = "https://login.example/tenant";
const own = { PUBLIC: "0", FRONT_TOKEN: TOKEN };
const forwarding = { PUBLIC: "0", FORWARD_AUTHORIZATION: "1" };
const ada = { headers: { authorization: "Bearer ada" } };

/** Asks for the metadata at this path, on the side of whoever has these headers. */
async function metadata({ url }, path = `${ROOT}/mcp`, headers = {}) {
  const response = await fetch(url + path, { headers });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

const named = ({ url }, path = "/mcp") => `Bearer resource_metadata="${url}${ROOT}${path}"`;

// ---- a token of the operator ----------------------------------------------------------------

scene("whoever lacks the operator's token is told where to read about it", { variables: own }, async (scene) => {
  const { server, worker, connect } = scene;
  for (const headers of [TYPES, { ...TYPES, authorization: "Bearer wrong" }]) {
    const response = await connect().send("POST", { headers, body: initialize });
    assert.deepEqual([response.status, response.headers["www-authenticate"]], [401, named(worker)]);
  }
  for (const path of [`${ROOT}/mcp`, ROOT]) {
    const { status, body } = await metadata(worker, path);
    assert.equal(status, 200);
    // Nobody issues such a token, so nobody is named.
    assert.deepEqual(body, { resource: `${worker.url}/mcp`, bearer_methods_supported: ["header"] });
  }
  assert.deepEqual(server.log, [], "the server hears nothing of it");
});

scene(
  "the operator may name who issues the token",
  { variables: { ...own, AUTHORIZATION_SERVERS: ` ${LOGIN} , https://other.example` } },
  async ({ worker }) => {
    const { body } = await metadata(worker);
    assert.deepEqual(body.authorization_servers, [LOGIN, "https://other.example"]);
  },
);

scene(
  "each endpoint has metadata of its own, and the root has none of several",
  { variables: own, named: ["docs", "other"] },
  async ({ worker, connect }) => {
    for (const path of ["/docs/mcp", "/other/mcp"]) {
      const refused = await connect({ path }).send("POST", { headers: TYPES, body: initialize });
      assert.equal(refused.headers["www-authenticate"], named(worker, path));
      assert.equal((await metadata(worker, ROOT + path)).body.resource, worker.url + path);
    }
    for (const path of [ROOT, `${ROOT}/mcp`, `${ROOT}/else/mcp`, `${ROOT}/docs`, `${ROOT}/docs/mcp/`])
      assert.equal((await metadata(worker, path)).status, 404, path);
  },
);

scene("where everybody may come in, there is no token to describe", {}, async ({ worker }) => {
  for (const path of [ROOT, `${ROOT}/mcp`]) assert.equal((await metadata(worker, path)).status, 404);
});

const APP = "https://app.example";

scene(
  "a page that may call may read the metadata, and no other",
  { variables: { ...own, ALLOWED_ORIGINS: APP } },
  async ({ worker }) => {
    const url = `${worker.url}${ROOT}/mcp`;
    const asks = { "access-control-request-method": "GET", "access-control-request-headers": "mcp-protocol-version" };
    const preflight = await fetch(url, { method: "OPTIONS", headers: { origin: APP, ...asks } });
    assert.equal(preflight.status, 204);
    assert.match(preflight.headers.get("access-control-allow-headers"), /\bmcp-protocol-version\b/);
    const { status, headers } = await metadata(worker, undefined, { origin: APP });
    assert.deepEqual([status, headers.get("access-control-allow-origin")], [200, APP]);
    assert.equal((await metadata(worker, undefined, { origin: "https://evil.example" })).status, 403);
  },
);

scene("metadata are not given under a name that is not ours", { variables: { ...own, ALLOWED_HOSTS: "mcp.example" } }, async ({
  connect,
}) => {
  const client = connect();
  for (const [host, status] of [
    ["mcp.example", 200],
    ["evil.example", 403],
  ])
    assert.equal((await client.send("GET", { path: `${ROOT}/mcp`, headers: { host } })).status, status, host);
});

// ---- the client's own token: what the server says about itself --------------------------------

const ITS_OWN = `GET ${ROOT}/sse`;
const AT_ROOT = `GET ${ROOT}`;
const describe = (server, more) => ({
  resource: server.url,
  authorization_servers: ["http://127.0.0.1:9/login", LOGIN],
  scopes_supported: ["read", "write"],
  ...more,
});
const isMetadata = ({ path }) => path.startsWith("/.well-known/");

scene("the server says who issues tokens, and the Worker what they are for", { variables: forwarding }, async (scene) => {
  const { server, worker } = scene;
  const more = { jwks_uri: "https://server.example/keys", resource_name: "It", bearer_methods_supported: ["query"] };
  server.always(ITS_OWN, (exchange) => exchange.json(describe(server, more)));
  for (const path of [`${ROOT}/mcp`, ROOT, `${ROOT}/mcp`]) {
    const { status, body } = await metadata(worker, path, ada.headers);
    assert.equal(status, 200);
    assert.deepEqual(body, {
      resource: `${worker.url}/mcp`,
      authorization_servers: ["http://127.0.0.1:9/login", LOGIN],
      scopes_supported: ["read", "write"],
      bearer_methods_supported: ["header"],
    });
  }
  assert.deepEqual(server.labels(), [ITS_OWN], "the server is asked once");
  assert.equal(server.log[0].headers.authorization, undefined, "nobody's token is needed for that");
});

scene("a server may have its metadata at the root of its origin", { variables: forwarding }, async (scene) => {
  const { server, worker } = scene;
  server.always(AT_ROOT, (exchange) => exchange.json(describe(server, { resource: server.origin })));
  assert.equal((await metadata(worker)).status, 200);
  assert.deepEqual(server.labels(), [ITS_OWN, AT_ROOT]);
});

/** What the server answers, and what the client gets then. */
const unusable = [
  ["there are none", (exchange) => exchange.reply(404), 404],
  ["a page", (exchange) => exchange.reply(200, { "content-type": "text/html" }, "<!doctype html>"), 404],
  ["no issuer", (exchange, server) => exchange.json(describe(server, { authorization_servers: [] })), 404],
  ["those of another server", (exchange, server) => exchange.json(describe(server, { resource: LOGIN })), 404],
  ["more than anybody needs", (exchange, server) => exchange.json(describe(server, { x: "x".repeat(70_000) })), 404],
  ["that it is out of order", (exchange) => exchange.reply(503), 502],
  ["nothing", (exchange) => exchange.reset(), 502],
];

for (const [what, handler, expected] of unusable) {
  scene(`of a server that answers for its metadata: ${what}`, { variables: forwarding }, async ({ server, worker }) => {
    for (const label of [ITS_OWN, AT_ROOT]) server.always(label, (exchange) => handler(exchange, server));
    const { status, body } = await metadata(worker);
    assert.equal(status, expected);
    assert.ok(body.error.message && body.authorization_servers === undefined);
    await worker.said(expected === 404 ? "AUTHORIZATION_SERVERS" : "did not answer when it was asked");
  });
}

scene("a server that never answers for its metadata", { variables: forwarding }, async ({ server, worker }) => {
  for (const label of [ITS_OWN, AT_ROOT]) server.always(label, () => {});
  assert.equal((await metadata(worker)).status, 502);
});

scene("the operator may name the issuers for the server", {
  variables: { ...forwarding, AUTHORIZATION_SERVERS: LOGIN },
}, async ({ server, worker }) => {
  assert.deepEqual((await metadata(worker)).body.authorization_servers, [LOGIN]);
  assert.deepEqual(server.log, [], "it need not be asked");
});

// ---- the client's own token: whose challenge a client gets ------------------------------------

const ITS_CHALLENGE =
  'Bearer realm="it", error="invalid_token", error_description="It expired", scope="read write", ' +
  'resource_metadata="http://127.0.0.1:9/evil"';
const TOLD = ', error="invalid_token", scope="read write", error_description="It expired"';

/** The server, the request of the handshake that it refuses, and one that comes later. */
const servers = [
  ["HTTP+SSE", startSseServer, "sse", "GET /sse", "POST /messages tools/call"],
  ["Streamable HTTP", startServer, "streamable-http", "POST initialize", "POST tools/call"],
];

for (const [transport, start, spoken, first, later] of servers) {
  const variables = { ...forwarding, UPSTREAM_TRANSPORT: spoken };
  const refuse = (exchange) => exchange.reply(401, { "www-authenticate": ITS_CHALLENGE }, "no");

  scene(`${transport}: a client without a token is told where to get one`, { start, variables }, async (scene) => {
    const { server, worker, connect } = scene;
    const response = await connect().send("POST", { headers: TYPES, body: initialize });
    assert.deepEqual([response.status, response.headers["www-authenticate"]], [401, named(worker)]);
    assert.deepEqual(server.log, []);
  });

  scene(`${transport}: a token that the server refuses opens no session`, { start, variables }, async (scene) => {
    const { server, worker, connect, join } = scene;
    server.once(first, refuse);
    const response = await connect(ada).send("POST", { headers: TYPES, body: initialize });
    assert.deepEqual([response.status, response.headers["www-authenticate"]], [401, named(worker) + TOLD]);
    assert.equal(response.headers["mcp-session-id"], undefined);
    assert.equal((await response.json()).id, 1);
    assert.ok((await (await join(ada)).call("echo")).result, "the next one may be good");
  });

  scene(`${transport}: a token that expires in a session is refused as such`, { start, variables }, async (scene) => {
    const { server, worker, join } = scene;
    const client = await join(ada);
    for (const token of [undefined, "progress"]) {
      server.once(later, refuse);
      const response = await client.startCall("echo", {}, { token });
      assert.deepEqual([response.status, response.headers["www-authenticate"]], [401, named(worker) + TOLD]);
      assert.equal((await response.json()).id, client.nextId() - 1);
    }
    server.once(later, (exchange) => exchange.reply(401));
    assert.equal((await client.startCall("echo")).headers["www-authenticate"], named(worker));
    assert.ok((await client.call("echo")).result);
    assert.ok(!worker.stderr().includes("ada"));
  });

  scene(
    `${transport}: a response that streams from the start begins once the server has admitted the token`,
    { start, variables: { ...variables, STREAM_AFTER_MS: "0" } },
    async ({ server, join }) => {
      const client = await join(ada);
      server.once(later, refuse);
      assert.equal((await client.startCall("echo")).status, 401);
      const response = await client.startCall("hold", { gate: "g" });
      assert.deepEqual([response.status, response.headers["content-type"]], [200, "text/event-stream"]);
      server.gate("g").open();
      assert.ok((await response.answer(client.nextId() - 1)).result);
    },
  );

  scene(`${transport}: a token without the scope is refused as such`, { start, variables }, async (scene) => {
    const { server, worker, join } = scene;
    const client = await join(ada);
    const challenge = 'Bearer error="insufficient_scope", scope="write"';
    server.once(later, (exchange) => exchange.reply(403, { "www-authenticate": challenge }));
    const response = await client.startCall("echo");
    const told = ', error="insufficient_scope", scope="write"';
    assert.deepEqual([response.status, response.headers["www-authenticate"]], [403, named(worker) + told]);
    // Without such a challenge, a client could do nothing about it.
    server.once(later, (exchange) => exchange.reply(403));
    const other = await client.startCall("echo");
    assert.deepEqual([other.status, other.headers["www-authenticate"]], [200, undefined]);
    assert.equal((await other.json()).error.data.httpStatus, 403);
  });

  scene(
    `${transport}: that the operator's credentials are refused is no business of the client`,
    { start, variables: { UPSTREAM_TRANSPORT: spoken, UPSTREAM_AUTHORIZATION: "Bearer operator" } },
    async ({ server, join }) => {
      const client = await join();
      server.once(later, refuse);
      const response = await client.startCall("echo");
      assert.deepEqual([response.status, response.headers["www-authenticate"]], [200, undefined]);
      assert.equal((await response.json()).error.data.httpStatus, 401);
    },
  );
}

scene("a client of 2026-07-28 gets the server's refusal too", { variables: forwarding }, async (scene) => {
  const { server, worker, connect } = scene;
  const client = connect(ada);
  const headers = { ...TYPES, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list" };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/list", params: { _meta: envelope() } });
  server.once("GET /sse", (exchange) => exchange.reply(401, { "www-authenticate": ITS_CHALLENGE }));
  const refused = await client.send("POST", { headers, body });
  assert.deepEqual([refused.status, refused.headers["www-authenticate"]], [401, named(worker) + TOLD]);
  assert.equal((await refused.json()).id, 7);
  const answered = await client.send("POST", { headers, body });
  assert.ok((await answered.json()).result);
});

scene("a page of an allowed origin may read the challenge", {
  variables: { ...forwarding, ALLOWED_ORIGINS: APP },
}, async ({ server, connect }) => {
  server.once("GET /sse", (exchange) => exchange.reply(401, { "www-authenticate": ITS_CHALLENGE }));
  const client = connect({ headers: { ...ada.headers, origin: APP } });
  const { status, headers } = await client.send("POST", { headers: TYPES, body: initialize });
  assert.deepEqual([status, headers["access-control-allow-origin"]], [401, APP]);
  assert.match(headers["access-control-expose-headers"], /\bwww-authenticate\b/);
});

// ---- the client's own token: where it goes ----------------------------------------------------

/** Ways for a server to send the Worker to another one. */
const elsewhere = {
  "an endpoint": (server, other) => {
    server.options.endpoint = () => `${other.origin}/messages?sessionId=1`;
  },
  "a redirect of the stream": (server, other) => redirect(server, "GET /sse", other.url),
  "a redirect of messages": (server, other) => redirect(server, "POST /messages initialize", other.url),
  "a redirect of the metadata": (server, other) => {
    for (const label of [ITS_OWN, AT_ROOT]) redirect(server, label, other.origin + ROOT);
  },
  "a challenge": (server, other) => {
    const challenge = `Bearer resource_metadata="${other.origin}${ROOT}"`;
    server.always("GET /sse", (exchange) => exchange.reply(401, { "www-authenticate": challenge }));
  },
};

function redirect(server, label, location) {
  server.always(label, (exchange) => exchange.reply(307, { location }));
}

for (const [how, send] of Object.entries(elsewhere)) {
  scene(`a client's token does not go to another server: by ${how}`, { variables: forwarding }, async (scene) => {
    const { t, server, worker, connect } = scene;
    const other = await startSseServer();
    t.after(() => other.close());
    send(server, other);
    const response = await connect(ada).send("POST", { headers: TYPES, body: initialize });
    await response.ended();
    assert.notEqual((await metadata(worker)).status, 200);
    assert.deepEqual(other.log, [], "the other server hears nothing");
    for (const { headers } of server.log.filter((entry) => !isMetadata(entry)))
      assert.equal(headers.authorization, "Bearer ada");
  });
}

scene("each client's token goes with its own requests", { variables: forwarding }, async ({ server, join }) => {
  const names = ["ada", "eve"];
  const clients = await Promise.all(names.map((name) => join({ headers: { authorization: `Bearer ${name}` } })));
  for (const client of clients) assert.ok((await client.call("echo")).result);
  const streams = server.requests("GET /sse").map(({ headers }) => headers.authorization);
  assert.deepEqual(new Set(streams), new Set(["Bearer ada", "Bearer eve"]));
  const calls = server.requests("POST /messages tools/call").map(({ headers }) => headers.authorization);
  assert.deepEqual(calls, ["Bearer ada", "Bearer eve"]);
});
