// Logins that must not succeed: at authorization servers that misbehave, and for servers that lie about theirs. The
// client gets an error that names the cause, and no secret goes where it does not belong.

import assert from "node:assert/strict";
import { startHostileServer } from "./auth/hostile-server.mjs";
import { assertServed, loginScenario, refusal } from "./auth/scene.mjs";

const LOGIN = "POST /token authorization_code";
const EVIL = "https://evil.example";

/** A scenario at an authorization server that is made by hand. */
const hostile = (name, options, body) => loginScenario(name, { issuer: startHostileServer, ...options }, body);

/** Expects `initialize` to be refused with these words, and the session to survive that. */
async function refused(scene, words) {
  const client = scene.connect();
  const error = await refusal(client);
  assert.match(error.message, words);
  assert.match(error.message, /HTTP 401/);
  assert.deepEqual([error.data.httpStatus, error.data.delivered], [401, "no"]);
  await client.finish();
  assert.match(client.stderr, words);
  return client;
}

/** What is wrong before anybody is asked: no browser opens, and no client registers. */
const before = [
  [
    "metadata of another resource",
    { server: { metadata: { resource: "https://other.example/mcp" } } },
    /metadata is about another resource, https:\/\/other\.example\/mcp/,
  ],
  [
    "metadata that names no authorization server",
    { server: { metadata: { authorization_servers: [] } } },
    /names no authorization server/,
  ],
  [
    "an authorization server without https",
    { server: { metadata: { authorization_servers: ["http://as.example"] } } },
    /authorization server http:\/\/as\.example is not https/,
  ],
  [
    "a challenge that names metadata elsewhere without https",
    { server: { challenge: "http://metadata.example/mcp" } },
    /metadata at http:\/\/metadata\.example\/mcp, which is neither https nor at the server/,
  ],
  [
    "a challenge that names metadata that is not there",
    { server: (as) => ({ challenge: `${as.origin}/nothing` }) },
    /metadata is not at http\S+\/nothing/,
  ],
  [
    "metadata of another issuer",
    { as: { metadata: () => ({ issuer: EVIL }) } },
    /is of another issuer: https:\/\/evil\.example/,
  ],
  [
    "an issuer without metadata",
    { server: (as) => ({ metadata: { authorization_servers: [`${as.origin}/elsewhere`] } }) },
    /elsewhere publishes no metadata/,
  ],
  [
    "a token endpoint without https",
    { as: { metadata: () => ({ token_endpoint: "http://as.example/token" }) } },
    /token_endpoint http:\/\/as\.example\/token is not https/,
  ],
  [
    "an authorization endpoint without https",
    { as: { metadata: () => ({ authorization_endpoint: "http://as.example/auth" }) } },
    /authorization_endpoint http:\/\/as\.example\/auth is not https/,
  ],
  [
    "an authorization endpoint that is no place on the web",
    { as: { metadata: () => ({ authorization_endpoint: "file:///etc/passwd" }) } },
    /authorization_endpoint file:\/\/\/etc\/passwd is not https/,
  ],
  ["no PKCE", { as: { metadata: () => ({ code_challenge_methods_supported: ["plain"] }) } }, /PKCE with S256/],
  ["no registration", { as: { metadata: () => ({ registration_endpoint: undefined }) } }, /--oauth-client-id/],
];

for (const [what, options, words] of before) {
  hostile(`${what} is refused before a browser opens`, options, async (scene) => {
    await refused(scene, words);
    assert.equal(scene.desk.visits.length, 0);
    const asked = scene.as.labels().filter((label) => !label.startsWith("GET "));
    assert.deepEqual(asked, []);
  });
}

/** Answers of a login from which no code may be used. */
const answers = [
  ["another issuer", (answer) => ({ ...answer, iss: EVIL }), /answer is from another issuer: https:\/\/evil\.example/],
  [
    "an error of another issuer",
    ({ state }) => ({ state, error: "access_denied", error_description: "look at evil.example", iss: EVIL }),
    /answer is from another issuer/,
  ],
  [
    "an error",
    ({ state }) => ({ state, error: "access_denied", error_description: "not today" }),
    /says: access_denied: not today/,
  ],
  ["neither a code nor an error", ({ state }) => ({ state }), /neither a code nor an error/],
];

for (const [what, answer, words] of answers) {
  hostile(`an answer with ${what} gives no token, and the page says so too`, { as: { answer } }, async (scene) => {
    const client = await refused(scene, words);
    const { status, text } = await scene.desk.page();
    assert.equal(status, 400);
    assert.match(text, words);
    for (const said of [text, client.stderr]) assert.ok(!said.includes("look at evil"), said);
    assert.equal(scene.as.requests(LOGIN).length, 0);
  });
}

hostile(
  "an answer without its issuer is refused where the metadata promises one",
  { as: { metadata: () => ({ authorization_response_iss_parameter_supported: true }) } },
  async (scene) => {
    await refused(scene, /does not name its issuer/);
    assert.equal(scene.as.requests(LOGIN).length, 0);
  },
);

/** Answers of a token endpoint that bring no token. */
const tokens = [
  [
    "a web page",
    (exchange) => exchange.reply(200, { "content-type": "text/html" }, "<html>"),
    /answered with something else/,
  ],
  [
    "a token of another type",
    (exchange) => exchange.json({ access_token: "x", token_type: "mac" }),
    /not a Bearer token/,
  ],
  [
    "an error",
    (exchange) => exchange.reply(400, { "content-type": "application/json" }, '{"error":"invalid_grant"}'),
    /authorization server refused: invalid_grant/,
  ],
  [
    "a token that no header can carry",
    (exchange) => exchange.json({ access_token: "a\nb", token_type: "Bearer" }),
    /no header can carry/,
  ],
  [
    "more than a megabyte",
    (exchange) => exchange.reply(200, {}, "x".repeat(2 << 20)),
    /\/token: length limit exceeded/,
  ],
];

for (const [what, handler, words] of tokens) {
  hostile(`a token endpoint that answers with ${what} is an error that says so`, {}, async (scene) => {
    scene.as.once(LOGIN, handler);
    await refused(scene, words);
    assert.equal((await scene.desk.page()).status, 400);
  });
}

for (const status of [301, 302, 303, 307, 308]) {
  hostile(
    `a token endpoint that redirects with ${status} gets no second request, and neither does its target`,
    {},
    async (scene) => {
      const elsewhere = await startHostileServer();
      scene.t.after(() => elsewhere.close());
      scene.as.once(LOGIN, (exchange) => exchange.reply(status, { location: `${elsewhere.origin}/token` }));
      await refused(scene, /\/token redirects to http\S+\/token: secrets are not sent there/);
      assert.deepEqual(elsewhere.log, []);
      assert.equal(scene.as.requests(LOGIN).length, 1);
    },
  );
}

hostile("a server that always wants more scopes is given up after a few logins", {}, async (scene) => {
  const { server, desk } = scene;
  const client = await scene.open();
  let wanted = 0;
  server.always("POST tools/call", (exchange) => {
    wanted += 1;
    const challenge = `Bearer error="insufficient_scope", scope="scope-${wanted}"`;
    exchange.reply(403, { "www-authenticate": challenge });
  });
  for (let n = 0; n < 10; n += 1) {
    const { error } = await client.call("echo", { text: "never" });
    assert.equal(error.data.httpStatus, 403);
  }
  await client.finish();
  assert.equal(desk.visits.length, 4);
});

/** What servers answer that do not read the specification closely. */
for (const [what, members] of [
  ["a lifetime as text", { expires_in: "3600" }],
  ["a lifetime with a fraction", { expires_in: 3599.9 }],
  ["no lifetime", { expires_in: null }],
  ["a type in capitals", { token_type: "BEARER" }],
  ["nothing for a refresh token and for scopes", { refresh_token: null, scope: null }],
  ["empty scopes", { scope: "" }],
  ["members of its own", { ok: true, error: null, id_token: "x", scope: "mcp:read", extra: { deep: [1] } }],
]) {
  hostile(`a token with ${what} is a token`, {}, async (scene) => {
    const { as } = scene;
    as.once(LOGIN, (exchange) => exchange.json({ ...as.issue(), ...members }));
    const client = await scene.open();
    await assertServed(client);
    await client.finish();
  });
}

hostile("metadata that redirects to another origin is not followed", {}, async (scene) => {
  const elsewhere = await startHostileServer();
  scene.t.after(() => elsewhere.close());
  const place = "/.well-known/oauth-authorization-server";
  scene.as.always(`GET ${place}`, (exchange) => exchange.reply(302, { location: `${elsewhere.origin}${place}` }));
  await refused(scene, /publishes no metadata/);
  assert.deepEqual(elsewhere.log, []);
});

hostile("a callback with a foreign state changes nothing, and the real one afterwards counts", {}, async (scene) => {
  const { desk } = scene;
  desk.wait();
  const client = scene.connect();
  const hands = client.handshake();
  const visit = await desk.visit();
  const callback = new URL(new URL(visit.url).searchParams.get("redirect_uri"));
  for (const query of ["?code=stolen&state=foreign", "?code=stolen", "?error=access_denied&state=", ""]) {
    const response = await fetch(new URL(query, callback));
    assert.equal(response.status, 400, query);
    assert.match(await response.text(), /belongs to another login/);
  }
  assert.equal((await fetch(new URL("/favicon.ico", callback))).status, 404);
  assert.equal((await fetch(callback, { method: "POST" })).status, 404);
  visit.act("log in");
  await hands;
  await assertServed(client);
  await client.finish();
  assert.match(client.stderr, /ignored an answer to another login/);
  assert.equal(scene.as.requests(LOGIN).length, 1);
  assert.ok(!scene.as.requests(LOGIN)[0].body.includes("stolen"));
});

hostile(
  "a server that refuses the token just issued is no loop",
  { server: { verify: () => undefined } },
  async (scene) => {
    const { as, server, desk } = scene;
    const client = scene.connect();
    for (let n = 0; n < 5; n += 1) {
      const error = await refusal(client);
      assert.match(error.message, /refuses the token that http\S+ has just issued for it/);
      assert.equal(error.data.httpStatus, 401);
    }
    await client.finish();
    assert.deepEqual([desk.visits.length, as.requests(LOGIN).length, server.tokens().length], [1, 1, 1]);
  },
);
