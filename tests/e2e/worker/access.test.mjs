// Who may come in, and whose a session is.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import net from "node:net";
import { test } from "node:test";
import { scene } from "./scene.mjs";
import { TYPES, initialize } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

const HUNG_MS = 60_000;
const TOKEN = "correct-horse-battery";
const bearer = (token) => ({ authorization: `Bearer ${token}` });

// ---- the token ------------------------------------------------------------------------------

scene(
  "whoever has the token comes in",
  {
    variables: { PUBLIC: "0", FRONT_TOKEN: TOKEN },
  },
  async ({ server, worker, join }) => {
    for (const scheme of ["Bearer", "bearer", "BEARER"]) {
      const client = await join({ headers: { authorization: `${scheme} ${TOKEN}` } });
      assert.ok((await client.call("echo")).result);
      assert.ok(!worker.stderr().includes(client.session));
    }
    assert.ok(
      server.log.every(({ headers }) => headers.authorization === undefined),
      "it is not for the server",
    );
    assert.ok(!worker.stderr().includes(TOKEN));
  },
);

scene(
  "whoever has another does not",
  {
    variables: { PUBLIC: "0", FRONT_TOKEN: TOKEN },
  },
  async ({ server, worker, connect, join }) => {
    const client = await join({ headers: bearer(TOKEN) });
    await server.seen("POST /messages notifications/initialized");
    const seen = server.log.length;
    const wrong = [
      undefined,
      "",
      TOKEN,
      "Bearer",
      "Bearer ",
      `Bearer ${TOKEN}x`,
      `Bearer ${TOKEN.slice(1)}`,
      `Basic ${TOKEN}`,
    ];
    for (const authorization of wrong) {
      for (const [method, body] of [["POST", initialize], ["GET"], ["DELETE"], ["PUT", "{}"]]) {
        const headers = { ...client.named(), authorization };
        const response = await connect().send(method, { headers, body });
        assert.equal(response.status, 401, `${method} ${authorization}`);
        const metadata = `${worker.url}/.well-known/oauth-protected-resource/mcp`;
        assert.equal(response.headers["www-authenticate"], `Bearer resource_metadata="${metadata}"`);
        assert.ok((await response.json()).error.message);
      }
    }
    assert.equal(server.log.length, seen);
    assert.ok((await client.call("echo")).result);
  },
);

// ---- whose a session is ---------------------------------------------------------------------

const forwarding = { PUBLIC: "0", FORWARD_AUTHORIZATION: "1" };

scene(
  "a session belongs to whoever opened it",
  { variables: forwarding },
  async ({ server, worker, join, connect }) => {
    const ada = await join({ headers: bearer("ada") });
    assert.ok((await ada.call("echo")).result);
    assert.ok(server.log.every(({ headers }) => headers.authorization === "Bearer ada"));
    const intrude = async () => {
      const seen = server.log.length;
      for (const [authorization, status] of [
        ["Bearer eve", 404],
        ["Bearer ADA", 404],
        ["Basic ada", 404],
        [undefined, 401],
      ]) {
        for (const [method, body] of [
          ["POST", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'],
          ["GET"],
          ["DELETE"],
        ]) {
          const response = await connect().send(method, { headers: { ...ada.named(), authorization }, body });
          assert.equal(response.status, status, `${method} ${authorization}`);
        }
      }
      assert.equal(server.log.length, seen, "nothing reaches the server");
    };
    await intrude();
    assert.ok((await ada.call("echo")).result);
    await worker.restart();
    await server.deserted();
    await intrude();
    assert.ok((await ada.call("echo")).result);
    assert.ok(server.log.every(({ headers }) => headers.authorization === "Bearer ada"));
    assert.ok(!worker.stderr().includes("ada"));
  },
);

scene(
  "without credentials only where everybody may try",
  {
    variables: { ...forwarding, PUBLIC: "1" },
  },
  async ({ server, join, connect }) => {
    const nobody = await join();
    assert.ok((await nobody.call("echo")).result);
    assert.ok(server.log.every(({ headers }) => headers.authorization === undefined));
    const ada = await join({ headers: bearer("ada") });
    for (const [client, headers] of [
      [nobody, bearer("ada")],
      [ada, {}],
    ])
      assert.equal((await connect({ headers }).send("GET", { headers: client.named() })).status, 404);
  },
);

/** What the edge tells a session, and nobody else may: here that ada asks. */
const forged = {
  "mcp-proxy-principal": createHash("sha256").update("Bearer ada").digest("hex"),
  "mcp-proxy-upstream": "",
  "mcp-proxy-length": "1",
};

scene(
  "nobody becomes somebody else by saying what the edge would say",
  { variables: forwarding },
  async ({ server, join, connect }) => {
    const ada = await join({ headers: bearer("ada") });
    await server.seen("POST /messages notifications/initialized");
    const seen = server.log.length;
    const each = Object.entries(forged).map(([name, value]) => ({ [name]: value }));
    for (const headers of [...each, forged]) {
      const eve = connect({ headers: { ...bearer("eve"), ...headers } });
      for (const [method, body] of [["POST", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'], ["GET"], ["DELETE"]])
        assert.equal((await eve.send(method, { headers: ada.named(), body })).status, 404, JSON.stringify(headers));
    }
    assert.equal(server.log.length, seen, "nothing reaches the server");
    const eve = await join({ headers: { ...bearer("eve"), ...forged } });
    assert.equal((await connect({ headers: bearer("ada") }).send("GET", { headers: eve.named() })).status, 404);
    assert.ok((await ada.call("echo")).result);
  },
);

scene("nobody gets to another server by saying so", { named: ["docs", "other"] }, async ({ others, join }) => {
  const client = await join({ path: "/docs/mcp", headers: { "mcp-proxy-upstream": "other" } });
  assert.ok((await client.call("echo")).result);
  assert.deepEqual(others[1].log, []);
});

scene(
  "nobody gets more in by saying that it is less",
  {
    variables: { MAX_BODY_BYTES: "1000" },
  },
  async ({ server, join }) => {
    const client = await join({ headers: { "mcp-proxy-length": "1" } });
    const params = { name: "echo", arguments: { text: "x".repeat(2000) } };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/call", params });
    const response = await client.send("POST", { headers: client.named(), body, chunked: true });
    assert.equal(response.status, 413);
    assert.deepEqual(server.requests("POST /messages tools/call"), []);
  },
);

scene("nobody is a page by saying so", {}, async ({ join }) => {
  const client = await join({ headers: { "mcp-proxy-origin": "https://evil.example" } });
  assert.ok((await client.call("echo")).result);
  for (const { headers } of client.responses) assert.equal(headers["access-control-allow-origin"], undefined);
});

scene("a session id that was made up leads nowhere", {}, async ({ server, worker, join, connect }) => {
  const { session } = await join();
  await server.seen("POST /messages notifications/initialized");
  const [object, secret] = session.split(".");
  const invented = [
    "x",
    "..",
    object,
    `${object}.`,
    `${object}.${"0".repeat(secret.length)}`,
    `${object}.${secret.slice(1)}`,
    `${object}.${secret}0`,
    `${object}.${secret.toUpperCase()}x`,
    `${"0".repeat(object.length)}.${secret}`,
    `${object.replace(/.$/, (last) => (last === "0" ? "1" : "0"))}.${secret}`,
    "0".repeat(8000),
  ];
  const attempt = async () => {
    const seen = server.log.length;
    for (const id of invented) {
      const headers = { ...TYPES, "mcp-session-id": id };
      for (const [method, body] of [
        ["POST", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'],
        ["POST", initialize],
        ["GET"],
        ["DELETE"],
      ])
        assert.equal((await connect().send(method, { headers, body })).status, 404, `${method} ${id}`);
    }
    assert.equal(server.log.length, seen, "nothing reaches the server");
  };
  await attempt();
  await worker.restart();
  await server.deserted();
  await attempt();
});

/** Sends these lines as they are; resolves with all that comes back. */
function sendRaw(port, lines) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, "127.0.0.1", () => socket.write(`${lines.join("\r\n")}\r\n\r\n`, "latin1"));
    let heard = "";
    socket.setEncoding("utf8").on("data", (text) => (heard += text));
    socket.once("error", reject).once("close", () => resolve(heard));
  });
}

scene(
  "credentials with control characters in them are refused by name",
  { variables: forwarding },
  async ({ server, worker, join }) => {
    const client = await join({ headers: bearer("ada") });
    await server.seen("POST /messages notifications/initialized");
    const seen = server.log.length;
    for (const given of ["Bearer a\x01da", "Bearer ada\x7f", "Bearer a\tda", "Bearer a\x1bda", "\x02", "Bearer \xe9"]) {
      for (const named of [[], [`mcp-session-id: ${client.session}`]]) {
        const types = Object.entries(TYPES).map(([name, value]) => `${name}: ${value}`);
        const length = `content-length: ${initialize.length}`;
        const lines = [
          "POST /mcp HTTP/1.1",
          "host: x",
          "connection: close",
          `authorization: ${given}`,
          ...types,
          ...named,
          length,
        ];
        const heard = await sendRaw(worker.port, [...lines, "", initialize]);
        assert.match(heard, /^HTTP\/1\.1 400 /, JSON.stringify(given));
        assert.match(heard, /the Authorization header has control characters in it/);
      }
    }
    assert.equal(server.log.length, seen, "nothing reaches the server");
    assert.ok((await client.call("echo")).result);
  },
);

// ---- how many -------------------------------------------------------------------------------

/** How often something is tried that takes a moment and tells nobody when. */
const MOST_TRIES = 5000;
const at = (address, more = {}) => ({ headers: { ...more, "cf-connecting-ip": address } });
const open = (client) => client.send("POST", { headers: TYPES, body: initialize });

async function assertFull(response) {
  assert.equal(response.status, 429);
  assert.match((await response.json()).error.message, /too many sessions of this client are open \(MAX_SESSIONS\)/);
}

/** Tries until the answer is no longer that there are too many; resolves with it. */
async function admitted(ask) {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const response = await ask();
    if (response.status !== 429) return response;
    await assertFull(response);
  }
  return assert.fail("never admitted");
}

for (const [what, variables, ada, eve] of [
  ["the same credentials", { ...forwarding }, at("192.0.2.1", bearer("ada")), at("192.0.2.1", bearer("eve"))],
  ["the same address", {}, at("2001:db8:1:2::3"), at("192.0.2.2")],
]) {
  scene(
    `${what} may have so many sessions open, and others have theirs`,
    { variables: { ...variables, MAX_SESSIONS: "2" } },
    async ({ server, join, connect }) => {
      const clients = [await join(ada), await join(ada)];
      await assertFull(await open(connect(ada)));
      assert.equal(server.sessions.size, 2, "the server hears nothing of it");
      clients.push(await join(eve));
      await clients[0].leave();
      const opened = await admitted(() => open(connect(ada)));
      assert.equal(opened.status, 200);
      for (const client of clients.slice(1)) assert.ok((await client.call("echo")).result);
      await assertFull(await open(connect(ada)));
    },
  );
}

scene(
  "made-up credentials are no clients of their own before the server has admitted them",
  { variables: { ...forwarding, MAX_SESSIONS: "2" } },
  async ({ server, join, connect }) => {
    const as = (name) => at("192.0.2.1", bearer(name));
    server.always("GET /sse", () => {});
    for (const n of [1, 2]) open(connect(as(`made-up-${n}`))).catch(() => {});
    await server.seen("GET /sse", 2);
    for (const n of [3, 4]) await assertFull(await open(connect(as(`made-up-${n}`))));
    assert.equal(server.requests("GET /sse").length, 2);
  },
);

scene(
  "clients behind one address have their own places once the server has admitted them",
  { variables: { ...forwarding, MAX_SESSIONS: "1" } },
  async ({ join, connect }) => {
    const as = (name) => at("192.0.2.1", bearer(name));
    const clients = [];
    for (const name of ["ada", "eve", "bob"]) clients.push(await join(as(name)));
    for (const name of ["ada", "eve", "bob"]) await assertFull(await open(connect(as(name))));
    for (const client of clients) assert.ok((await client.call("echo")).result);
  },
);

scene("a client has 256 sessions at most, unless told otherwise", { lasts: 60_000 }, async ({ join, connect }) => {
  const clients = [];
  for (let count = 0; count < 256; count += 32)
    clients.push(...(await Promise.all(Array.from({ length: 32 }, () => join(at("192.0.2.1"))))));
  await assertFull(await open(connect(at("192.0.2.1"))));
  assert.ok((await (await join(at("192.0.2.2"))).call("echo")).result);
  for (const client of clients.slice(0, 3)) assert.ok((await client.call("echo")).result);
});

scene("where the operator sets no limit, there is none", { variables: { MAX_SESSIONS: "0" } }, async ({ join }) => {
  const clients = await Promise.all(Array.from({ length: 10 }, () => join(at("192.0.2.1"))));
  for (const client of clients) assert.ok((await client.call("echo")).result);
});

scene(
  "a session that was refused by the server takes no place",
  { variables: { MAX_SESSIONS: "1" } },
  async ({ server, connect, join }) => {
    server.once("GET /sse", (exchange) => exchange.reply(403, {}, "no"));
    const refused = await open(connect(at("192.0.2.1")));
    assert.ok((await refused.json()).error.message);
    const opened = await admitted(() => open(connect(at("192.0.2.1"))));
    assert.ok((await opened.json()).result);
  },
);

scene(
  "a session that died gives up its place in time, and one that comes back has its own",
  { variables: { MAX_SESSIONS: "1", ALARM_SECONDS: "1" } },
  async ({ server, worker, join, connect }) => {
    const client = await join(at("192.0.2.1"));
    await worker.restart();
    await server.deserted();
    await assertFull(await open(connect(at("192.0.2.1"))));
    assert.ok((await client.call("echo")).result, "its place is still its own");
    await worker.restart();
    await server.deserted();
    const opened = await admitted(() => open(connect(at("192.0.2.1"))));
    assert.ok((await opened.json()).result);
    await assertFull(await client.startCall("echo"));
  },
);

scene(
  "an idle session takes no place, and has to find one to come back",
  { variables: { MAX_SESSIONS: "1", ALARM_SECONDS: "1", IDLE_SECONDS: "1" } },
  async ({ server, join, connect }) => {
    const client = await join(at("192.0.2.1"));
    await server.deserted();
    const other = connect(at("192.0.2.1"));
    const opened = await admitted(() => open(other));
    other.session = opened.headers["mcp-session-id"];
    other.version = (await opened.json()).result.protocolVersion;
    await other.listen();
    await assertFull(await client.startCall("echo", {}, { id: "refused" }));
    await other.leave();
    const back = await admitted(() => client.startCall("echo", {}, { id: "back" }));
    assert.ok((await back.answer("back")).result);
  },
);

scene(
  "whoever comes with wrong tokens too often has to wait, and the others do not",
  { variables: { PUBLIC: "0", FRONT_TOKEN: TOKEN }, most: 3 },
  async ({ server, join, connect }) => {
    const client = await join(at("192.0.2.1", bearer(TOKEN)));
    await server.seen("POST /messages notifications/initialized");
    const seen = server.log.length;
    const wrong = (n) => connect(at("192.0.2.1", bearer(`wrong-${n}`)));
    assert.equal((await open(wrong(1))).status, 401);
    assert.equal((await wrong(2).send("GET", { headers: client.named() })).status, 401);
    for (const [method, body] of [["POST", initialize], ["GET"], ["DELETE"]]) {
      const refused = await wrong(3).send(method, { headers: client.named(), body });
      assert.equal(refused.status, 429);
      assert.match((await refused.json()).error.message, /too many requests without the credentials/);
    }
    assert.equal((await open(connect(at("192.0.2.1", bearer(TOKEN))))).status, 429, "nor may it open sessions");
    assert.equal((await open(connect(at("192.0.2.2", bearer("wrong"))))).status, 401);
    assert.equal(server.log.length, seen);
    assert.ok((await client.call("echo")).result, "an open session is served all the same");
    assert.ok((await (await join(at("192.0.2.3", bearer(TOKEN)))).call("echo")).result);
  },
);

scene(
  "whoever opens too many sessions has to wait, and the others do not",
  {
    variables: forwarding,
    most: 2,
  },
  async ({ server, join, connect }) => {
    const from = (address, token = "ada") => at(address, bearer(token));
    const clients = [];
    for (const [address, neighbour] of [
      ["192.0.2.1", "192.0.2.1"],
      ["2001:db8:1:2::3", "2001:db8:1:2:4::"],
    ]) {
      clients.push(await join(from(address)), await join(from(neighbour)));
      // Other credentials cost nothing, so they make no difference.
      const eager = connect(from(address, "another"));
      const refused = await eager.send("POST", { headers: TYPES, body: initialize });
      assert.equal(refused.status, 429);
      assert.match((await refused.json()).error.message, /too many sessions/);
    }
    clients.push(await join(from("192.0.2.2")), await join(from("2001:db8:1:3::3")));
    for (const client of clients) assert.ok((await client.call("echo")).result);
    assert.equal(server.sessions.size, clients.length);
  },
);

// ---- pages ----------------------------------------------------------------------------------

const APP = "https://app.example";

scene(
  "pages of allowed origins may call",
  {
    variables: { ALLOWED_ORIGINS: `https://other.example, ${APP}/` },
  },
  async ({ worker, join, connect }) => {
    for (const origin of [APP, "https://other.example", worker.url]) {
      const asked = await connect().send("OPTIONS", {
        headers: {
          origin,
          "access-control-request-method": "POST",
          "access-control-request-headers": "mcp-session-id",
        },
      });
      assert.equal(asked.status, 204);
      assert.equal(asked.headers["access-control-allow-origin"], origin);
      assert.match(asked.headers["access-control-allow-methods"], /GET, POST, DELETE/);
      for (const name of ["authorization", "content-type", "last-event-id", "mcp-protocol-version", "mcp-session-id"])
        assert.match(asked.headers["access-control-allow-headers"], new RegExp(name));
      const client = await join({ headers: { origin } });
      await client.call("echo");
      await client.startCall("echo", {}, { id: client.nextId() });
      // Refusals too, by the edge and by the session: a page has to see why.
      await client.send("GET", { headers: TYPES });
      await client.send("POST", { headers: client.named({ "content-type": "text/plain" }), body: "{}" });
      await client.send("POST", { headers: { ...TYPES, "mcp-session-id": "x" }, body: "{}" });
      for (const { headers } of client.responses) {
        assert.equal(headers["access-control-allow-origin"], origin);
        assert.match(headers["access-control-expose-headers"], /mcp-session-id/);
        assert.match(headers.vary, /origin/i);
      }
    }
  },
);

scene(
  "each response is for the page that asked, whoever asked in this session before",
  {
    variables: { ALLOWED_ORIGINS: `${APP}, https://other.example` },
  },
  async ({ join }) => {
    const client = await join();
    const pages = [
      undefined,
      APP,
      "https://other.example",
      APP,
      undefined,
      APP,
      APP,
      "https://other.example",
      undefined,
    ];
    for (const origin of pages) {
      const headers = origin === undefined ? {} : { origin };
      const ask = async (_meta) => {
        const [id, params] = [client.nextId(), { name: "echo", arguments: {}, _meta }];
        const response = await client.post({ id, method: "tools/call", params }, headers);
        assert.ok((await response.answer(id)).result);
        return response;
      };
      const [whole, streamed] = [await ask(), await ask({ progressToken: client.nextId() })];
      const taken = await client.post({ method: "notifications/roots/list_changed" }, headers);
      assert.match(whole.headers["content-type"], /json/);
      assert.match(streamed.headers["content-type"], /event-stream/);
      assert.equal(taken.status, 202);
      for (const response of [whole, streamed, taken]) {
        assert.equal(response.headers["access-control-allow-origin"], origin);
        assert.equal(response.headers["mcp-session-id"], undefined);
      }
    }
  },
);

scene(
  "a browser asks before it has a token to show, and is told when it needs one",
  {
    variables: { PUBLIC: "0", FRONT_TOKEN: TOKEN, ALLOWED_ORIGINS: APP },
  },
  async ({ server, connect, join }) => {
    const page = connect({ headers: { origin: APP } });
    const wish = { "access-control-request-method": "POST", "access-control-request-headers": "authorization" };
    const asked = await page.send("OPTIONS", { headers: wish });
    assert.equal(asked.status, 204);
    assert.match(asked.headers["access-control-allow-headers"], /\bauthorization\b/);
    const refused = await page.send("POST", { headers: TYPES, body: initialize });
    assert.equal(refused.status, 401);
    assert.match(refused.headers["access-control-expose-headers"], /\bwww-authenticate\b/);
    for (const { headers } of page.responses) assert.equal(headers["access-control-allow-origin"], APP);
    assert.deepEqual(server.log, []);
    const client = await join({ headers: { origin: APP, ...bearer(TOKEN) } });
    assert.ok((await client.call("echo")).result);
  },
);

scene("pages of other origins may not", { variables: { ALLOWED_ORIGINS: APP } }, async ({ server, connect }) => {
  for (const origin of ["https://evil.example", "null", `${APP}.evil.example`, "http://app.example", `${APP}:444`]) {
    for (const [method, body] of [["OPTIONS"], ["POST", initialize], ["GET"], ["DELETE"]]) {
      const response = await connect().send(method, { headers: { ...TYPES, origin }, body });
      assert.equal(response.status, 403, `${method} ${origin}`);
      assert.equal(response.headers["access-control-allow-origin"], undefined);
    }
  }
  assert.deepEqual(server.log, []);
});

scene(
  "only the names that the operator has set are answered to",
  {
    variables: { ALLOWED_HOSTS: "mcp.example" },
  },
  async ({ server, connect, join }) => {
    const client = await join({ headers: { host: "mcp.example" } });
    assert.ok((await client.call("echo")).result);
    const seen = server.log.length;
    const response = await connect().send("POST", { headers: { ...TYPES, host: "evil.example" }, body: initialize });
    assert.equal(response.status, 403);
    assert.equal(server.log.length, seen);
  },
);

// ---- configurations that cannot work --------------------------------------------------------

const fine = { UPSTREAM_URL: "https://host.example/sse", PUBLIC: "1" };
const secret = "Bearer secret-of-the-operator";

/** Each with what the operator is told. */
const unworkable = [
  [{ PUBLIC: "" }, /Nobody may come in: set the secret FRONT_TOKEN, or PUBLIC=1/],
  [{ FRONT_TOKEN: TOKEN }, /FRONT_TOKEN and PUBLIC=1 exclude each other/],
  [{ PUBLIC: "", FRONT_TOKEN: TOKEN, FORWARD_AUTHORIZATION: "1" }, /FORWARD_AUTHORIZATION and FRONT_TOKEN exclude/],
  [{ FORWARD_AUTHORIZATION: "1", UPSTREAM_AUTHORIZATION: secret }, /FORWARD_AUTHORIZATION and UPSTREAM_AUTHORIZATION/],
  [
    { UPSTREAM_URL: "", UPSTREAMS: '{"a":"https://a.example/","b":"https://a.example/b"}', FORWARD_AUTHORIZATION: "1" },
    /FORWARD_AUTHORIZATION is for one server/,
  ],
  [
    {
      UPSTREAM_URL: "",
      UPSTREAMS: '{"a":"https://a.example/"}',
      FORWARD_AUTHORIZATION: "1",
      UPSTREAM_AUTHORIZATION_A: secret,
    },
    /FORWARD_AUTHORIZATION and UPSTREAM_AUTHORIZATION_A exclude each other/,
  ],
  [{ AUTHORIZATION_SERVERS: "https://login.example" }, /AUTHORIZATION_SERVERS needs FRONT_TOKEN or FORWARD_AUTHORIZATION/],
  ...["login.example", "http://login.example", "https://login.example, https://login.example?x=y"].map((list) => [
    { PUBLIC: "", FRONT_TOKEN: TOKEN, AUTHORIZATION_SERVERS: list },
    /AUTHORIZATION_SERVERS must be a list, with commas, of what looks like https:\/\/login.example\./,
  ]),
  [{ UPSTREAM_AUTHORIZATION: `${secret}\nx: y` }, /UPSTREAM_AUTHORIZATION cannot stand in a header/],
  [{ UPSTREAM_URL: "" }, /No server is set: UPSTREAM_URL/],
  [{ UPSTREAM_URL: "host.example/sse" }, /UPSTREAM_URL is not an https URL/],
  [{ UPSTREAM_URL: "ftp://host.example/sse" }, /UPSTREAM_URL is not an https URL/],
  [{ UPSTREAM_URL: "http://host.example/sse" }, /UPSTREAM_URL must be an https URL; ALLOW_HTTP=1/],
  [{ UPSTREAM_URL: "HTTP://host.example/sse" }, /UPSTREAM_URL must be an https URL; ALLOW_HTTP=1/],
  [{ UPSTREAM_URL: "http:host.example/sse" }, /UPSTREAM_URL must be an https URL; ALLOW_HTTP=1/],
  [{ UPSTREAMS: '{"a":"https://a.example/"}' }, /UPSTREAM_URL and UPSTREAMS exclude each other/],
  [
    { UPSTREAM_URL: "", UPSTREAMS: '{"a":"https://a.example/"}', UPSTREAM_AUTHORIZATION: secret },
    /UPSTREAM_AUTHORIZATION is for UPSTREAM_URL; each of UPSTREAMS has its own, UPSTREAM_AUTHORIZATION_<NAME>/,
  ],
  [{ UPSTREAM_URL: "", UPSTREAMS: "docs" }, /UPSTREAMS must be a JSON object/],
  [{ UPSTREAM_URL: "", UPSTREAMS: "{}" }, /UPSTREAMS must be a JSON object/],
  [{ UPSTREAM_URL: "", UPSTREAMS: '{"a":1}' }, /UPSTREAMS must be a JSON object/],
  [{ UPSTREAM_URL: "", UPSTREAMS: '{"a/b":"https://a.example/"}' }, /A name in UPSTREAMS must be of letters/],
  [{ UPSTREAM_URL: "", UPSTREAMS: '{"a":"http://a.example/"}' }, /UPSTREAMS "a" must be an https URL/],
  [{ UPSTREAM_URL: "", UPSTREAMS: { a: "nonsense" } }, /UPSTREAMS "a" is not an https URL/],
  [{ UPSTREAM_TRANSPORT: "stdio" }, /UPSTREAM_TRANSPORT must be auto, sse or streamable-http\./],
  [{ UPSTREAM_ERA: "stone" }, /UPSTREAM_ERA must be auto, legacy or modern\./],
  [{ PUBLIC: "yes" }, /PUBLIC must be 1 or 0, on or off\./],
  [{ SESSION_RECOVERY: "never" }, /SESSION_RECOVERY must be 1 or 0/],
  ...["MAX_BODY_BYTES", "MAX_EVENT_BYTES", "MAX_PENDING", "IDLE_SECONDS", "REQUEST_TIMEOUT_SECONDS"].map((name) => [
    { [name]: "lots" },
    new RegExp(`${name} must be a whole number\\.`),
  ]),
  ...["MAX_BODY_BYTES", "MAX_EVENT_BYTES", "MAX_PENDING", "HEARTBEAT_SECONDS", "STALL_SECONDS"].map((name) => [
    { [name]: "0" },
    new RegExp(`${name} must be at least 1`),
  ]),
  ...["*", "app.example", "https://*.example", "https://app.example/path"].map((item) => [
    { ALLOWED_ORIGINS: `https://fine.example, ${item}` },
    /ALLOWED_ORIGINS must be a list, with commas, of what looks like https:\/\/app.example\./,
  ]),
  [
    { ALLOWED_HOSTS: "https://mcp.example" },
    /ALLOWED_HOSTS must be a list, with commas, of what looks like mcp.example/,
  ],
  [{ UPSTREAM_URL: "https://me:word@host.example/sse" }, /UPSTREAM_URL contains credentials.* UPSTREAM_AUTHORIZATION/],
  [
    { UPSTREAM_URL: "", UPSTREAMS: '{"a-b":"https://a.example/","A_b":"https://b.example/"}' },
    /"A_b" and "a-b" in UPSTREAMS would share the secret UPSTREAM_AUTHORIZATION_A_B/,
  ],
  [{ REPLAY_BYTES: "-1" }, /REPLAY_BYTES must be a whole number/],
  [{ ALARM_SECONDS: "0" }, /ALARM_SECONDS must be 1 to 60/],
];

test("a configuration that cannot work is refused by name", { timeout: HUNG_MS }, async (t) => {
  for (const [variables, problem] of unworkable) {
    await t.test(JSON.stringify(variables), async (t) => {
      const worker = await startWorker({ ...fine, ...variables });
      t.after(() => worker.stop());
      const health = await fetch(`${worker.url}/health`);
      assert.equal(health.status, 503);
      const { status, problems } = await health.json();
      assert.equal(status, "misconfigured");
      assert.match(problems.join("\n"), problem);
      for (const path of ["/mcp", "/a/mcp"]) {
        const response = await fetch(`${worker.url}${path}`, { method: "POST", headers: TYPES, body: initialize });
        assert.equal(response.status, 503);
        assert.match((await response.json()).error.message, problem);
      }
      const page = await (await fetch(worker.url)).text();
      for (const shown of [page, JSON.stringify(problems), worker.stderr()])
        assert.ok(!shown.includes(TOKEN) && !shown.includes("secret-of-the-operator"));
    });
  }
});

/** What could be put into the wrong setting. */
const MISSET = "Bearer sk-0123456789";
const numbers = ["BODY_BYTES", "EVENT_BYTES", "PENDING", "QUEUE_BYTES", "SESSIONS"].map((name) => `MAX_${name}`);
numbers.push("REPLAY_EVENTS", "REPLAY_BYTES", "STREAM_AFTER_MS", "HEARTBEAT_SECONDS", "IDLE_SECONDS", "ALARM_SECONDS");
numbers.push("STALL_SECONDS", "REQUEST_TIMEOUT_SECONDS", "SESSION_TTL_SECONDS");
const switches = ["PUBLIC", "FORWARD_AUTHORIZATION", "ALLOW_HTTP", "SESSION_RECOVERY", "VERBOSE"];
const lists = ["ALLOWED_ORIGINS", "ALLOWED_HOSTS", "AUTHORIZATION_SERVERS"];

for (const servers of [
  ["UPSTREAM_URL", MISSET],
  ["UPSTREAMS", MISSET],
  ["UPSTREAMS", { [MISSET]: MISSET }],
  ["UPSTREAMS", { fine: MISSET }],
]) {
  test(
    `a secret in the wrong setting is shown to nobody: ${JSON.stringify(servers)}`,
    { timeout: HUNG_MS },
    async (t) => {
      const misset = [...numbers, ...switches, ...lists, "UPSTREAM_TRANSPORT", "UPSTREAM_ERA"];
      const variables = Object.fromEntries([...misset.map((name) => [name, MISSET]), servers]);
      const worker = await startWorker(variables);
      t.after(() => worker.stop());
      const health = await (await fetch(`${worker.url}/health`)).text();
      for (const name of [...misset, servers[0]]) assert.ok(health.includes(name), `${name} is named`);
      const page = await (await fetch(worker.url)).text();
      const refused = await fetch(`${worker.url}/mcp`, { method: "POST", headers: TYPES, body: initialize });
      for (const shown of [health, page, await refused.text(), worker.stderr()])
        assert.ok(!shown.includes("0123456789"), shown);
    },
  );
}

test("several problems are told at once", { timeout: HUNG_MS }, async (t) => {
  const worker = await startWorker({ MAX_PENDING: "x", UPSTREAM_URL: "http://h.example/" });
  t.after(() => worker.stop());
  const { problems } = await (await fetch(`${worker.url}/health`)).json();
  assert.equal(problems.length, 3, problems.join("\n"));
});
