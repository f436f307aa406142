// What reaches the server: nothing of the client but its messages, at no other place than the operator
// has set, and with the operator's credentials.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { converse, scene } from "./scene.mjs";
import { TYPES, initialize } from "./wire.mjs";

/** What a client should not be able to pass on. */
const smuggled = {
  cookie: "a=b",
  authorization: "Bearer client",
  "x-forwarded-for": "1.2.3.4",
  "cf-connecting-ip": "1.2.3.4",
  "x-custom": "custom",
  "user-agent": "smuggler",
  referer: "http://here.example/",
  "mcp-proxy-principal": "root",
  "mcp-proxy-upstream": "other",
};

/** All that a server gets to see beside the message. */
const NEEDED = new Set([
  "accept",
  "accept-encoding",
  "cache-control",
  "connection",
  "content-length",
  "content-type",
  "host",
  "mcp-protocol-version",
]);

scene("no header of the client reaches the server", {}, async ({ server, join }) => {
  const client = await join({ headers: smuggled });
  await client.listen("some-event");
  assert.ok((await client.call("echo")).result);
  const names = new Set(server.log.flatMap(({ headers }) => Object.keys(headers)));
  assert.deepEqual(names.difference(NEEDED), new Set());
  const all = JSON.stringify(server.log.map(({ headers, url }) => [headers, url]));
  for (const value of [...Object.values(smuggled), client.session]) assert.ok(!all.includes(value), value);
});

scene(
  "the server gets the operator's credentials, and the client does not see them",
  {
    variables: { UPSTREAM_AUTHORIZATION: "Bearer operator" },
  },
  async ({ server, worker, join }) => {
    const client = await join({ headers: smuggled });
    assert.ok((await client.call("echo")).result);
    assert.ok(server.log.length >= 4);
    for (const { headers, label } of server.log) assert.equal(headers.authorization, "Bearer operator", label);
    const shown = JSON.stringify(client.responses.map(({ headers, text }) => [headers, text])) + worker.stderr();
    assert.ok(!shown.includes("operator"));
  },
);

scene(
  "each server of several gets its own messages and credentials",
  {
    variables: { UPSTREAM_AUTHORIZATION_MY_DOCS: "Bearer docs" },
    named: ["my-docs", "other"],
  },
  async ({ server, others, join }) => {
    const docs = await join({ path: "/my-docs/mcp?q=1" });
    const other = await join({ path: "/other/mcp" });
    assert.ok((await docs.call("echo")).result);
    assert.ok((await other.call("echo")).result);
    const [first, second] = others;
    assert.deepEqual(server.log, []);
    for (const [fixture, credentials] of [
      [first, "Bearer docs"],
      [second, undefined],
    ]) {
      assert.deepEqual(new Set(fixture.log.map(({ headers }) => headers.authorization)), new Set([credentials]));
      assert.equal(fixture.requests("POST /messages tools/call").length, 1);
      assert.equal(fixture.requests("GET /sse")[0].url, "/sse");
    }
    // A session is known at its own endpoint only.
    docs.at("/other/mcp");
    assert.equal((await docs.startCall("echo")).status, 404);
  },
);

scene(
  "several servers may be set as a table",
  { named: ["docs", "other"], isTable: true },
  async ({ others, join }) => {
    for (const [at, path] of ["/docs/mcp", "/other/mcp"].entries()) {
      const client = await join({ path });
      assert.ok((await client.call("echo")).result);
      assert.deepEqual(
        others.map((server) => server.requests("POST /messages tools/call").length),
        at === 0 ? [1, 0] : [1, 1],
      );
    }
  },
);

const nowhere = [
  "/",
  "/mcp",
  "/mcp/",
  "/docs",
  "/docs/",
  "/docs/mcp/",
  "/docs//mcp",
  "//docs/mcp",
  "/DOCS/mcp",
  "/doc/mcp",
  "/%64ocs/mcp",
  "/docs%2fmcp",
  "/docs/%2e%2e/mcp",
  "/docs/../mcp",
  "/x%2f..%2fdocs/mcp",
  "/__proto__/mcp",
  "/constructor/mcp",
  "/docs/mcp/x",
  "/docs/mcp;x",
  "/http:%2f%2fevil.example/mcp",
];

scene("a path that is no endpoint leads nowhere", { named: ["docs"] }, async ({ others, connect }) => {
  const client = connect();
  for (const path of nowhere) {
    const response = await client.send("POST", { path, headers: TYPES, body: initialize });
    assert.equal(response.status, 404, path);
    await response.ended();
  }
  assert.deepEqual(others[0].log, []);
});

const elsewhere = [
  "http://127.0.0.1:9/m",
  "//127.0.0.1:9/m",
  "https://127.0.0.1/m",
  "http://169.254.169.254/m",
  "file:///etc/passwd",
  "javascript:0",
];
for (const endpoint of elsewhere) {
  scene(
    `an endpoint at ${endpoint} is refused`,
    { server: { endpoint: () => endpoint } },
    async ({ server, connect }) => {
      const error = await refused(connect());
      assert.equal(error.data.delivered, "no");
      assert.ok(
        server.log.every(({ method }) => method === "GET"),
        "nothing is sent",
      );
      await server.deserted();
    },
  );
}

/** Each with what is redirected, and how the error comes that a client gets then. */
const redirected = [
  ["stream", "GET /sse", ({ connect }) => refused(connect())],
  ["handshake", "POST /messages initialize", ({ connect }) => refused(connect())],
  ["messages", "POST /messages tools/call", async ({ join }) => (await (await join()).call("echo")).error],
];

for (const [what, label, provoke] of redirected) {
  scene(
    `a redirect of the ${what} is refused, wherever it leads`,
    { variables: { UPSTREAM_AUTHORIZATION: "Bearer secret" } },
    async ({ t, server, ...clients }) => {
      const other = await startSseServer();
      t.after(() => other.close());
      const places = { "a path": "/elsewhere", "our origin": `${server.origin}/elsewhere`, another: other.url };
      const ways = [301, 302, 303, 307, 308].flatMap((status) => Object.keys(places).map((place) => [status, place]));
      for (const [status, place] of ways) {
        await t.test(`${status} to ${place}`, async () => {
          server.once(label, (exchange) => exchange.reply(status, { location: places[place] }));
          const error = await provoke(clients);
          assert.match(error.message, new RegExp(`redirect|${status}`));
          assert.ok(!server.log.some(({ path }) => path === "/elsewhere"));
          assert.deepEqual(other.log, []);
        });
      }
    },
  );
}

const pem = (name) => readFileSync(new URL(`../../fixtures/tls/${name}`, import.meta.url), "utf8");
const tls = { key: pem("server.key"), cert: pem("server.pem"), protocol: "http/1.1" };

scene(
  "a server is reached over TLS",
  {
    server: { tls },
    variables: { ALLOW_HTTP: "0" },
    authority: pem("ca.pem"),
  },
  ({ server, connect }) => converse(server, connect()),
);

scene(
  "a server that cannot prove who it is gets nothing",
  {
    server: { tls },
    variables: { ALLOW_HTTP: "0" },
    // It has not signed the server's certificate.
    authority: pem("client.pem"),
  },
  async ({ server, connect }) => {
    assert.equal((await refused(connect())).data.delivered, "no");
    assert.deepEqual(server.log, []);
  },
);

/** The error that answers `initialize`; there is no session. */
async function refused(client) {
  const response = await client.send("POST", { headers: TYPES, body: initialize });
  assert.equal(response.headers["mcp-session-id"], undefined);
  const { id, error } = await response.json();
  assert.equal(id, 1);
  return error;
}
