// The official SDKs' clients log in at a real authorization server, for a server behind the Worker that
// decides about tokens itself. All that they know is the Worker's URL, and that is what their tokens are
// for.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";
import * as second from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startAuthorizationServer } from "../auth/authorization-server.mjs";
import { logIn } from "../auth/person.mjs";
import { startProtectedServer } from "../auth/protected-server.mjs";
import { textOf } from "../sdk.mjs";
import { HUNG_MS } from "./peers.mjs";
import { startWorker } from "./workerd.mjs";

const METADATA = "/.well-known/oauth-protected-resource/mcp";
const echo = { name: "echo", arguments: { text: "hi" } };

/** Each client: what it reads at the end of a login, and whether its session ends with its token. */
const v1 = { Client, Http: StreamableHTTPClientTransport, read: (params) => params.get("code"), hasSession: true };
const v2 = { Client: second.Client, Http: second.StreamableHTTPClientTransport, read: (params) => params, hasSession: true };
const search = { versionNegotiation: { mode: "auto" } };
const kinds = [
  { name: "v1", ...v1 },
  { name: "v2", ...v2 },
  { name: "v2 of 2026-07-28", ...v2, options: search, hasSession: false },
];
/** Without the second, nobody gets a refresh token. */
const SCOPES = ["mcp:read", "offline_access"];

/** What a client keeps of its login, as an application would. */
class Keeper {
  authorizationUrl;
  #kept = {};

  constructor(redirectUrl) {
    this.redirectUrl = redirectUrl;
    this.clientMetadata = {
      client_name: "e2e",
      redirect_uris: [redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }

  clientInformation = () => this.#kept.client;
  saveClientInformation = (client) => void (this.#kept.client = client);
  tokens = () => this.#kept.tokens;
  saveTokens = (tokens) => void (this.#kept.tokens = tokens);
  codeVerifier = () => this.#kept.verifier;
  saveCodeVerifier = (verifier) => void (this.#kept.verifier = verifier);
  redirectToAuthorization = (url) => void (this.authorizationUrl = url);
}

/** An authorization server, the server that trusts it, the Worker before that one, and an application. */
async function set(t, { variables, verified, scopes = SCOPES } = {}) {
  const authority = await startAuthorizationServer();
  t.after(() => authority.close());
  let worker;
  // The server and the Worker are one resource: it takes tokens for the Worker's URL, and no others.
  const verify = (token, url) => authority.verify(token, verified?.(url) ?? `${worker.url}/mcp`);
  const metadata = { scopes_supported: scopes };
  const server = await startProtectedServer({ issuer: authority.issuer, verify, metadata });
  t.after(() => server.close());
  const access = { FORWARD_AUTHORIZATION: "1", ALLOW_HTTP: "1", UPSTREAM_URL: server.url };
  worker = await startWorker({ ...access, ...variables });
  t.after(() => worker.stop());
  const application = http.createServer((_, res) => res.end("you may go back"));
  await new Promise((resolve) => application.listen(0, "127.0.0.1", resolve));
  t.after(() => new Promise((resolve) => application.close(resolve).closeAllConnections()));
  const keeper = new Keeper(`http://127.0.0.1:${application.address().port}/callback`);
  return { authority, server, worker, keeper };
}

/** A client of this kind; `asked` has every URL that it asks. */
function connector(t, { Client, Http, read, options }, { worker, keeper }) {
  const asked = [];
  const watched = (input, init) => {
    asked.push(String(input.url ?? input));
    return fetch(input, init);
  };
  const make = () => {
    const transport = new Http(new URL(`${worker.url}/mcp`), { authProvider: keeper, fetch: watched });
    const client = new Client({ name: "e2e", version: "1" }, options);
    t.after(() => client.close());
    return { client, transport };
  };
  return { asked, make, read };
}

/** Logs in and connects: what the application does once the person has agreed. */
async function loggedIn({ make, read }, { keeper }) {
  const first = make();
  await assert.rejects(first.client.connect(first.transport), /Unauthorized/);
  const { url } = await logIn(keeper.authorizationUrl.href);
  await first.transport.finishAuth(read(new URL(url).searchParams));
  const next = make();
  await next.client.connect(next.transport);
  return next;
}

for (const kind of kinds) {
  test(`the ${kind.name} client logs in for the Worker's URL`, { timeout: HUNG_MS }, async (t) => {
    const scene = await set(t);
    const { authority, server, worker, keeper } = scene;
    const connecting = connector(t, kind, scene);
    const { client } = await loggedIn(connecting, scene);
    assert.equal(textOf(await client.callTool(echo)), "hi");

    const resource = `${worker.url}/mcp`;
    assert.equal(keeper.authorizationUrl.searchParams.get("resource"), resource);
    assert.deepEqual(keeper.authorizationUrl.searchParams.get("scope").split(" "), SCOPES);
    for (const asked of authority.parameters("POST /token authorization_code")) assert.equal(asked.resource, resource);
    assert.deepEqual(server.tokens(), [keeper.tokens().access_token], "the server gets the client's token, and no other");
    const origins = new Set(connecting.asked.map((url) => new URL(url).origin));
    assert.deepEqual(origins, new Set([worker.url, authority.origin]), "the client never hears of the server");
    assert.ok(connecting.asked.includes(worker.url + METADATA));
    assert.ok(!worker.stderr().includes(keeper.tokens().access_token));
  });

  test(`the ${kind.name} client has its token refreshed`, { timeout: HUNG_MS }, async (t) => {
    const scene = await set(t);
    const { authority, server, keeper } = scene;
    const connecting = connector(t, kind, scene);
    const { client } = await loggedIn(connecting, scene);
    const old = keeper.tokens().access_token;
    await authority.forget(old);
    if (kind.hasSession) {
      // A session belongs to the token that opened it. The client has to open another one.
      await assert.rejects(client.callTool(echo), /there is no such session/);
      const next = connecting.make();
      await next.client.connect(next.transport);
      assert.equal(textOf(await next.client.callTool(echo)), "hi");
    } else assert.equal(textOf(await client.callTool(echo)), "hi");
    const fresh = keeper.tokens().access_token;
    assert.notEqual(fresh, old);
    assert.deepEqual(server.tokens(), [old, fresh]);
    assert.equal(authority.requests("POST /token refresh_token").length, 1);
    assert.equal(authority.requests("POST /token authorization_code").length, 1, "nobody had to log in again");
  });

  test(`the ${kind.name} client is told which scope it lacks`, { timeout: HUNG_MS }, async (t) => {
    // With a refresh token, the first generation refreshes its token in the old scope, and gives up.
    const scene = await set(t, { scopes: ["mcp:read"] });
    const { client } = await loggedIn(connector(t, kind, scene), scene);
    const call = client.callTool({ name: "write", arguments: { text: "hi" } });
    await assert.rejects(call);
    assert.match(scene.keeper.authorizationUrl.searchParams.get("scope"), /\bmcp:write\b/);
  });

  test(`the ${kind.name} client cannot use its token at a server that wants its own`, { timeout: HUNG_MS }, async (t) => {
    // Such a server is another resource than the Worker, and must not be behind it in this mode.
    const scene = await set(t, { verified: (url) => url });
    await assert.rejects(loggedIn(connector(t, kind, scene), scene), /Unauthorized|401/);
    assert.equal(scene.server.log.filter(({ token, status }) => token && status !== 401).length, 0);
  });

  test(`the ${kind.name} client that can log in finds nobody who issues the operator's token`, { timeout: HUNG_MS }, async (t) => {
    const scene = await set(t, { variables: { FORWARD_AUTHORIZATION: "0", FRONT_TOKEN: "correct-horse-battery" } });
    const { asked, make } = connector(t, kind, scene);
    const { client, transport } = make();
    await assert.rejects(client.connect(transport));
    assert.equal(scene.keeper.authorizationUrl, undefined, "nobody is asked to log in");
    assert.deepEqual(new Set(asked.map((url) => new URL(url).origin)), new Set([scene.worker.url]));
    assert.ok(asked.includes(scene.worker.url + METADATA));
    assert.deepEqual(scene.server.log, []);
  });
}
