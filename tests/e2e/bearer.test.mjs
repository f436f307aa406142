// A server that wants a bearer token: the SDK's own middleware in front of a server on the SDK. Whoever comes without
// the right one is told what the server said, and where it says how to get one. The process lives on.

import assert from "node:assert/strict";
import { Client as ClientV2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioV2 } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { startBearerServer } from "../fixtures/bearer-server.mjs";
import { scenario } from "./scenario.mjs";

const METADATA = "https://auth.example/.well-known/oauth-protected-resource/mcp";
const TOKEN = "hush-7f3a";
const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };

/** A scenario behind the lock; `token` is what the proxy is given, `lock` has options of the middleware. */
const locked = (name, { token, lock = { resourceMetadataUrl: METADATA } }, body) =>
  scenario(
    name,
    {
      start: () => startBearerServer(lock),
      ...(token && { options: ["--bearer-token-env", "E2E_TOKEN"], env: { E2E_TOKEN: token } }),
    },
    body,
  );

const refused = [
  ["no token", undefined, "Missing Authorization header"],
  ["a wrong token", TOKEN, "The token is unknown here"],
];

for (const [what, token, reason] of refused) {
  locked(`with ${what}, initialize fails with what the server said and where to go`, { token }, async ({ connect }) => {
    const client = connect();
    const { error } = await client.request("initialize", INITIALIZE);
    assertRefusal(error, 401, reason);
    assert.ok(error.message.includes(METADATA), error.message);
    const challenge = `Bearer error="invalid_token", error_description="${reason}", resource_metadata="${METADATA}"`;
    assert.equal(error.data.challenge, challenge);
    await client.finish();
    assertSecret(client);
  });

  locked(`with ${what}, a lock without metadata fails it in the same way`, { token, lock: {} }, async ({ connect }) => {
    const client = connect();
    const { error } = await client.request("initialize", INITIALIZE);
    assertRefusal(error, 401, reason);
    assert.equal(error.data.challenge, `Bearer error="invalid_token", error_description="${reason}"`);
    await client.finish();
    assertSecret(client);
  });
}

locked("the process lives on, and a token that is accepted later opens the lock", { token: TOKEN }, async (scene) => {
  const { connect, server } = scene;
  const client = connect();
  for (let n = 1; n <= 3; n += 1) {
    assertRefusal((await client.request("initialize", INITIALIZE)).error, 401, "The token is unknown here");
    assert.equal(server.refusals, n);
  }
  server.accepted.add(TOKEN);
  await client.handshake();
  assert.equal((await client.call("echo", { text: "in" })).result.content[0].text, "in");
  await client.finish();
});

locked("the right token works", { token: TOKEN }, async ({ connect, server }) => {
  server.accepted.add(TOKEN);
  const client = connect();
  await client.handshake();
  assert.equal((await client.call("echo", { text: "in" })).result.content[0].text, "in");
  await client.finish();
  assert.equal(server.refusals, 0);
  assertSecret(client);
});

locked("a token that expires fails the call, and the session outlives it", { token: TOKEN }, async (scene) => {
  const { connect, server } = scene;
  server.accepted.add(TOKEN);
  const client = connect();
  await client.handshake();
  // Whoever listens hears this: from here on no request is under way.
  await client.message("list_changed", ({ method }) => method === "notifications/tools/list_changed");
  server.accepted.delete(TOKEN);
  const { error } = await client.call("echo", { text: "out" });
  assertRefusal(error, 401, "The token is unknown here");
  assert.equal(error.data.delivered, "no");
  server.accepted.add(TOKEN);
  assert.equal((await client.call("echo", { text: "in" })).result.content[0].text, "in");
  await client.finish();
});

locked(
  "a token without the scope is an error that names the scope",
  { token: TOKEN, lock: { resourceMetadataUrl: METADATA, requiredScopes: ["mcp:write"] } },
  async ({ connect, server }) => {
    server.accepted.add(TOKEN);
    const client = connect();
    const { error } = await client.request("initialize", INITIALIZE);
    assertRefusal(error, 403, "Insufficient scope");
    assert.match(error.data.challenge, /^Bearer error="insufficient_scope", .*scope="mcp:write"/);
    await client.finish();
  },
);

const clients = [
  ["SDK v1", ClientV1, StdioV1],
  ["SDK v2", ClientV2, StdioV2],
];

for (const [name, Client, Stdio] of clients) {
  locked(`connect() of the ${name} client fails with what the server said`, {}, async ({ t, shell, server }) => {
    const client = new Client({ name: "e2e", version: "1" }, { capabilities: {} });
    t.after(() => client.close());
    const transport = new Stdio({ command: shell.command, args: shell.args(server.url), stderr: "ignore" });
    await assert.rejects(client.connect(transport), ({ message }) => {
      const told = ["401", "Missing Authorization header", METADATA];
      for (const words of told) assert.ok(message.includes(words), message);
      return true;
    });
  });
}

/** A valid error of JSON-RPC that says what the server said. */
function assertRefusal(error, status, reason) {
  assert.ok(Number.isInteger(error.code), JSON.stringify(error));
  assert.equal(typeof error.message, "string");
  assert.ok(error.message.includes(String(status)), error.message);
  assert.ok(error.message.includes(reason), error.message);
  assert.equal(error.data.httpStatus, status);
}

/** The token is nowhere in what the proxy says. */
function assertSecret({ lines, stderr }) {
  for (const text of [stderr, ...lines.map(({ text }) => text)]) assert.ok(!text.includes(TOKEN), text);
}
