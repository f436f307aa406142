// The other ways to a token at a real authorization server (`oidc-provider`): at another device, by a URL on stderr,
// with a client that the server knows, and as the client itself with a secret or a private key.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import net from "node:net";
import { delimiter, join } from "node:path";
import { logIn } from "./auth/person.mjs";
import { assertServed, loginScenario, refusal } from "./auth/scene.mjs";

const OWN = "POST /token client_credentials";
const DEVICE = "POST /token device_code";
const SECRET = "s3cret of%the+robot:1";
const DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code";

/** A client that the server knows and that logs in as itself. */
const robot = (more) => ({
  client_id: "robot",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
  ...more,
});

/** Renews without anybody's help: once the first token is gone, the client asks for another. */
async function assertRobot(scene, client) {
  const { as, server, desk } = scene;
  await assertServed(client);
  await as.forget(server.tokens().at(-1));
  await assertServed(client, "again");
  await client.finish();
  for (const { resource } of as.parameters(OWN)) assert.equal(resource, server.url);
  assert.deepEqual([as.requests(OWN).length, server.tokens().length, desk.visits.length], [2, 2, 0]);
}

const asItself = ["--oauth-grant", "client-credentials", "--oauth-client-id", "robot"];

for (const method of ["client_secret_basic", "client_secret_post"]) {
  loginScenario(
    `a client logs in as itself with its secret (${method})`,
    {
      as: {
        clients: [robot({ client_secret: SECRET, token_endpoint_auth_method: method })],
        methods: [method],
      },
      options: [...asItself, "--oauth-client-secret-env", "ROBOT"],
      env: { ROBOT: SECRET },
    },
    async (scene) => {
      const client = await scene.open();
      await assertRobot(scene, client);
      assert.ok(!client.stderr.includes(SECRET));
      const inBody = scene.as
        .requests(OWN)
        .every(({ body }) => new URLSearchParams(body).get("client_secret") === SECRET);
      assert.equal(inBody, method === "client_secret_post");
    },
  );
}

loginScenario(
  "a client that logs in as itself gets more scopes by itself",
  {
    as: { clients: [robot({ client_secret: SECRET })] },
    options: [...asItself, "--oauth-client-secret-env", "ROBOT"],
    env: { ROBOT: SECRET },
  },
  async (scene) => {
    const client = await scene.open();
    assert.equal((await client.call("write", { text: "down" })).result?.content[0].text, "down");
    await assertServed(client);
    await client.finish();
    const asked = scene.as.parameters(OWN).map(({ scope }) => scope.split(" "));
    assert.deepEqual(asked, [["mcp:read"], ["mcp:read", "mcp:write"]]);
    assert.equal(scene.desk.visits.length, 0);
  },
);

const keys = {
  RS256: ["rsa", { modulusLength: 2048 }],
  ES256: ["ec", { namedCurve: "P-256" }],
  ES384: ["ec", { namedCurve: "P-384" }],
  EdDSA: ["ed25519"],
};

for (const [algorithm, kind] of Object.entries(keys)) {
  const { publicKey, privateKey } = generateKeyPairSync(...kind);
  const known = robot({
    token_endpoint_auth_method: "private_key_jwt",
    jwks: { keys: [{ ...publicKey.export({ format: "jwk" }), use: "sig" }] },
  });
  loginScenario(
    `a client logs in as itself with its private key (${algorithm})`,
    { as: { clients: [known] } },
    async (scene) => {
      const file = join(scene.folder, "key.pem");
      writeFileSync(file, privateKey.export({ type: "pkcs8", format: "pem" }));
      await assertRobot(scene, await scene.open({ options: [...asItself, "--oauth-key", file] }));
      const used = scene.as
        .parameters(OWN)
        .map(({ client_assertion: assertion }) => JSON.parse(atob(assertion.split(".")[0])));
      assert.deepEqual([...new Set(used.map(({ alg }) => alg))], [algorithm]);
    },
  );
}

loginScenario(
  "a wrong secret is an error in the server's words, without the secret",
  {
    as: { clients: [robot({ client_secret: SECRET })] },
    options: [...asItself, "--oauth-client-secret-env", "ROBOT"],
    env: { ROBOT: "wr0ng-secret" },
  },
  async (scene) => {
    const client = scene.connect();
    const { message } = await refusal(client);
    assert.match(message, /the authorization server refused: invalid_client/);
    await client.finish();
    for (const said of [message, client.stderr]) assert.ok(!said.includes("wr0ng-secret"), said);
  },
);

const people = {
  redirect_uris: ["http://127.0.0.1/callback"],
  token_endpoint_auth_method: "none",
  application_type: "native",
};

loginScenario(
  "a person logs in with a client that the server knows",
  {
    as: { clients: [{ ...people, client_id: "known", grant_types: ["authorization_code", "refresh_token"] }] },
    options: ["--oauth-client-id", "known"],
  },
  async (scene) => {
    const client = await scene.open();
    await assertServed(client);
    await client.finish();
    assert.deepEqual(scene.as.requests("POST /reg"), []);
    assert.equal(scene.stored().client.id, "known");
  },
);

loginScenario("a person opens the URL that stderr shows", { options: ["--no-browser"] }, async (scene) => {
  const client = scene.connect();
  const hands = client.handshake();
  const url = await client.until("the URL", () => client.stderr.match(/wants you to log in: open (\S+)/)?.[1]);
  assert.equal((await logIn(url)).status, 200);
  await hands;
  await assertServed(client);
  await client.finish();
});

for (const [what, browser, words] of [
  ["is not there", "/no/such/browser", /mcp-proxy: \/no\/such\/browser: \S.*\n.*wants you to log in: open/],
  ["fails", `${process.execPath} --no-such-option`, /did not open the URL \(.*9\)/],
]) {
  loginScenario(`a browser command that ${what} is named, and the URL does without it`, {}, async (scene) => {
    const client = scene.connect({ browser });
    const hands = client.handshake();
    await client.until("the trouble", () => words.test(client.stderr));
    const url = client.stderr.match(/open (http\S+)/)[1];
    assert.equal((await logIn(url)).status, 200);
    await hands;
    await client.finish();
  });
}

loginScenario(
  "without any option, the desktop's own program opens the URL, and sees no secret",
  {
    as: { clients: [{ ...people, client_id: "known", client_secret: SECRET, token_endpoint_auth_method: undefined }] },
    options: ["--oauth-client-id", "known", "--oauth-client-secret-env", "ROBOT"],
    env: { ROBOT: SECRET },
    skip: process.platform !== "linux" && "other systems have other programs",
  },
  async (scene) => {
    const folder = join(scene.folder, "bin");
    mkdirSync(folder);
    writeFileSync(join(folder, "xdg-open"), `#!/bin/sh\nexec ${scene.desk.command} "$1"\n`);
    chmodSync(join(folder, "xdg-open"), 0o700);
    const client = scene.connect({ browser: null, env: { PATH: `${folder}${delimiter}${process.env.PATH}` } });
    await client.handshake();
    await assertServed(client);
    await client.finish();
    const [{ environment }] = scene.desk.visits;
    assert.ok(environment.includes("E2E_DESK") && !environment.includes(SECRET), environment);
  },
);

loginScenario("a callback port that is taken is an error that names the option", {}, async (scene) => {
  const squatter = net.createServer();
  await new Promise((resolve) => squatter.listen(0, "127.0.0.1", resolve));
  scene.t.after(() => squatter.close());
  const port = String(squatter.address().port);
  const client = scene.connect({ options: ["--oauth-callback-port", port] });
  const { message } = await refusal(client);
  assert.ok(message.includes(`--oauth-callback-port ${port}`), message);
  await client.finish();
  assert.equal(scene.desk.visits.length, 0);
});

/** The device waits five seconds before it asks again: the server names no shorter time. */
for (const [who, clients, options] of [
  ["a client that registers itself", undefined, []],
  [
    "a client that the server knows",
    [
      {
        ...people,
        client_id: "tv",
        grant_types: [DEVICE_GRANT, "refresh_token"],
        redirect_uris: [],
        response_types: [],
      },
    ],
    ["--oauth-client-id", "tv"],
  ],
]) {
  loginScenario(
    `a person logs in at another device for ${who}`,
    { as: { clients }, options: ["--oauth-grant", "device", ...options] },
    async (scene) => {
      const { as, server, desk } = scene;
      const client = scene.connect();
      const hands = client.handshake();
      const url = await client.until("the URL", () => client.stderr.match(/open (\S+) and enter \S+/)?.[1]);
      const { status, text } = await logIn(url);
      assert.ok(status === 200 && text.includes("successful"), text);
      await hands;
      await assertServed(client);
      // Its refresh token does for later.
      await as.forget(server.tokens().at(-1));
      await assertServed(client);
      await client.finish();
      for (const { resource } of as.parameters("POST /device/auth")) assert.equal(resource, server.url);
      assert.equal(desk.visits.length, 0);
    },
  );
}
