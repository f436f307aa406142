// Logins at a real authorization server (`oidc-provider`) for a real protected server (the SDK's own middleware): the
// first login, the stored token, its renewal and its end, and more scopes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import net from "node:net";
import { fileURLToPath } from "node:url";
import { assertServed, loginScenario } from "./auth/scene.mjs";

const LOGIN = "POST /token authorization_code";
const REFRESH = "POST /token refresh_token";
const REVOKE = "POST /token/revocation";

for (const format of ["opaque", "jwt"]) {
  loginScenario(
    `a person logs in once, and calls work with a token that is ${format}`,
    { as: { format } },
    async (scene) => {
      const { as, server, desk } = scene;
      const client = await scene.open();
      await assertServed(client);
      await client.finish();
      assert.equal(desk.visits.length, 1);
      const { status, text } = await desk.page();
      assert.equal(status, 200);
      assert.ok(text.includes("You are logged in") && text.includes(server.url), text);
      const [{ resource, code_verifier: verifier }, ...others] = as.parameters(LOGIN);
      assert.equal(resource, server.url);
      assert.ok(verifier);
      assert.deepEqual(others, []);
      assert.deepEqual([server.refusals(), server.tokens().length], [1, 1]);
      assert.equal(as.requests("POST /reg").length, 1);
    },
  );
}

loginScenario("a second process uses the stored token and asks the authorization server nothing", {}, async (scene) => {
  const { as, server, desk } = scene;
  await (await scene.open()).finish();
  const before = as.log.length;
  const client = await scene.open();
  await assertServed(client);
  await client.finish();
  assert.deepEqual(as.labels().slice(before), []);
  assert.deepEqual([desk.visits.length, server.refusals(), server.tokens().length], [1, 1, 1]);
});

loginScenario(
  "a token that the server no longer takes is renewed, and no refresh token is used twice",
  {},
  async (scene) => {
    const { as, server, desk } = scene;
    const client = await scene.open();
    for (const text of ["one", "two", "three"]) {
      await as.forget(server.tokens().at(-1));
      await assertServed(client, text);
    }
    await client.finish();
    const renewals = as.parameters(REFRESH);
    assert.equal(renewals.length, 3);
    assert.equal(new Set(renewals.map((parameters) => parameters.refresh_token)).size, 3);
    for (const { resource } of renewals) assert.equal(resource, server.url);
    assert.equal(desk.visits.length, 1);
    // The session outlives its tokens.
    assert.equal(server.requests("POST initialize").length, 1);
  },
);

loginScenario("a stored token that has expired is renewed before the first request", {}, async (scene) => {
  const { as, server, desk } = scene;
  await (await scene.open()).finish();
  for (const round of [1, 2]) {
    await scene.age();
    const client = await scene.open();
    await assertServed(client);
    await client.finish();
    assert.equal(as.requests(REFRESH).length, round);
  }
  const used = as.parameters(REFRESH).map((parameters) => parameters.refresh_token);
  assert.equal(new Set(used).size, 2);
  assert.ok(!used.includes(scene.stored().refresh));
  assert.deepEqual([desk.visits.length, server.refusals()], [1, 1]);
});

loginScenario("logout revokes the tokens at the authorization server and forgets them", {}, async (scene) => {
  const { as, server, desk } = scene;
  await (await scene.open()).finish();
  const { access, refresh } = scene.stored();
  const { code, stdout, stderr } = await scene.command(["logout"]);
  assert.deepEqual([code, stderr], [0, ""]);
  assert.ok(stdout.includes(`logged out of ${server.url}: its tokens are revoked`), stdout);
  assert.deepEqual(
    as.parameters(REVOKE).map(({ token }) => token),
    [refresh],
  );
  assert.equal(await as.verify(access, server.url), undefined);
  const again = await scene.command(["logout"]);
  assert.ok(again.stdout.includes("there was no login"), again.stdout);
  await (await scene.open()).finish();
  assert.equal(desk.visits.length, 2);
});

loginScenario("the commands log in, show the login without its secrets, and print the token", {}, async (scene) => {
  const { as, server, desk } = scene;
  const login = await scene.command(["login"]);
  assert.equal(login.code, 0, login.stderr);
  assert.ok(login.stdout.startsWith(`logged in to ${server.url}`), login.stdout);
  const { access, refresh } = scene.stored();
  const token = await scene.command(["auth", "token"]);
  assert.equal(token.stdout, `${access}\n`);
  assert.ok(await as.verify(access, server.url));
  const status = await scene.run(["auth", "status"]);
  assert.ok(status.stdout.includes(server.url) && status.stdout.includes(as.issuer), status.stdout);
  const [listed] = JSON.parse((await scene.run(["auth", "status", "--json"])).stdout);
  assert.deepEqual([listed.url, listed.issuer, listed.refreshes], [server.url, as.issuer, true]);
  for (const said of [login.stdout, login.stderr, token.stderr, status.stdout, JSON.stringify(listed)])
    for (const secret of [access, refresh]) assert.ok(!said.includes(secret), said);
  const client = await scene.open();
  await assertServed(client);
  await client.finish();
  assert.deepEqual([desk.visits.length, server.tokens()], [1, [access]]);
});

loginScenario("when everything was revoked, the next call of the client brings one new login", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  await as.forgetAll(server.tokens().at(-1));
  await assertServed(client);
  await client.finish();
  assert.deepEqual([as.requests(REFRESH).length, as.requests(LOGIN).length, desk.visits.length], [1, 2, 2]);
});

loginScenario("when everything was revoked and the person refuses, the error says so", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  await as.forgetAll(server.tokens().at(-1));
  desk.wait();
  const answer = client.call("echo", { text: "never" });
  (await desk.visit(2)).act("refuse");
  const { error } = await answer;
  assert.match(error.message, /the login failed: http\S+ says: access_denied/);
  assert.deepEqual([error.data.httpStatus, error.data.delivered], [401, "no"]);
  assert.equal((await desk.page(2)).status, 400);
  for (const text of ["again", "and again"]) assert.ok((await client.call("echo", { text })).error);
  await client.finish();
  assert.deepEqual([as.requests(REFRESH).length, desk.visits.length], [1, 2]);
});

for (const listed of [true, false]) {
  const how = listed ? "lists the scopes" : "does not list the scopes";
  loginScenario(
    `a call that needs more scopes brings one login for all of them, where the issuer ${how}`,
    { as: { listed } },
    async (scene) => {
      const { as, desk } = scene;
      const client = await scene.open();
      await assertServed(client);
      const { result } = await client.call("write", { text: "down" });
      assert.equal(result?.content[0].text, "down");
      await assertServed(client);
      await client.call("write", { text: "again" });
      await client.finish();
      assert.equal(desk.visits.length, 2);
      const asked = as.requests("GET /auth").map(({ query }) => query.get("scope").split(" ").sort());
      assert.deepEqual(asked, [
        ["mcp:read", "offline_access"],
        ["mcp:read", "mcp:write", "offline_access"],
      ]);
      // The next process has all of them.
      const next = await scene.open();
      assert.ok((await next.call("write", { text: "later" })).result);
      await next.finish();
      assert.equal(desk.visits.length, 2);
    },
  );
}

const tls = (name) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const secure = {
  tls: { key: readFileSync(tls("server.key")), cert: readFileSync(tls("server.pem")), protocol: "http/1.1" },
};

loginScenario(
  "both servers may be on https with a private authority",
  {
    as: secure,
    server: secure,
    options: ["--ca-cert", tls("ca.pem")],
    env: { NODE_EXTRA_CA_CERTS: tls("ca.pem") },
  },
  async (scene) => {
    const client = await scene.open();
    await scene.as.forget(scene.server.tokens().at(-1));
    await assertServed(client);
    await client.finish();
    assert.deepEqual([scene.desk.visits.length, scene.as.requests(REFRESH).length], [1, 1]);
  },
);

loginScenario("an authorization server that has forgotten the client gets to know another", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  const { id } = scene.stored().client;
  await as.forget(server.tokens().at(-1));
  await as.provider.Client.adapter.destroy(id);
  await assertServed(client);
  await client.finish();
  assert.notEqual(scene.stored().client.id, id);
  assert.deepEqual([desk.visits.length, as.requests("POST /reg").length], [2, 2]);
});

loginScenario("the next login uses the same client, and another one only if its port is taken", {}, async (scene) => {
  const { as, server, desk } = scene;
  const callbacks = () => as.requests("GET /auth").map(({ query }) => new URL(query.get("redirect_uri")).port);
  for (const visits of [1, 2]) {
    const client = await scene.open();
    await as.forgetAll(server.tokens().at(-1));
    // Nothing is left of the login but who we are.
    await client.finish();
    assert.equal(desk.visits.length, visits);
  }
  const [first, second] = callbacks();
  assert.equal(first, second);
  const squatter = net.createServer();
  await new Promise((resolve) => squatter.listen(Number(first), "127.0.0.1", resolve));
  scene.t.after(() => squatter.close());
  await (await scene.open()).finish();
  assert.equal(desk.visits.length, 3);
  assert.notEqual(callbacks()[2], first);
  assert.equal(as.requests("POST /reg").length, 2);
});
