// The scene of a test of logins: an authorization server, a server that it protects, a desk where browsers report, a
// folder for the tokens, and proxies. Only the native program logs in.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { StdioClient } from "../client.mjs";
import { environment, shells } from "../shells.mjs";
import { startAuthorizationServer } from "./authorization-server.mjs";
import { startDesk } from "./desk.mjs";
import { startProtectedServer } from "./protected-server.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 60_000;

const native = shells.find(({ name }) => name === "native");
const INITIALIZE = {
  protocolVersion: "2025-11-25",
  capabilities: {},
  clientInfo: { name: "line-client", version: "1" },
};

/**
 * Options: those of `setScene`, and those of the test itself. The body gets the scene.
 */
export function loginScenario(name, { issuer, as, server, options, env, ...ofTest }, body) {
  test(name, { timeout: HUNG_MS, ...ofTest }, async (t) =>
    body(await setScene(t, { issuer, as, server, options, env })),
  );
}

/**
 * Options: `issuer` (starts the authorization server; default: the real one) and `as` (its options), `server` (those
 * of the protected server, or a function from the authorization server to them), `options` and `env` of the proxies.
 */
export async function setScene(t, { issuer = startAuthorizationServer, as, server, options = [], env = {} } = {}) {
  const ends = [() => scene?.clear()];
  const started = async (starting) => {
    const one = await starting;
    ends.push(() => one.close());
    return one;
  };
  let scene;
  // The proxies go last: their servers and browsers must not keep them.
  t.after(async () => {
    for (const end of ends.reverse()) await end();
  });
  const authority = await started(issuer(as));
  const given = typeof server === "function" ? server(authority) : server;
  const verify = (token, resource) => authority.verify(token, resource);
  const resource = await started(startProtectedServer({ issuer: authority.issuer, verify, ...given }));
  const desk = await started(startDesk());
  scene = new Scene(t, { as: authority, server: resource, desk, options, env });
  return scene;
}

class Scene {
  #clients = [];

  constructor(t, { as, server, desk, options, env }) {
    Object.assign(this, { t, as, server, desk });
    this.folder = mkdtempSync(join(tmpdir(), "mcp-proxy-login-"));
    this.options = ["--token-store", "file", ...options];
    this.env = { MCP_PROXY_CONFIG_DIR: this.folder, E2E_DESK: desk.origin, ...env };
  }

  async clear() {
    for (const client of this.#clients) client.kill();
    for (const client of this.#clients) await client.exited.catch(() => {});
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  // ---- proxies ----------------------------------------------------------------------------

  /** Starts a proxy, which opens browsers at the desk unless `browser` or its options say otherwise. */
  connect({ options = [], env = {}, url = this.server.url, browser = this.desk.command } = {}) {
    const all = [...this.#browser(options, browser), ...this.options, ...options];
    const client = new StdioClient(native, url, { options: all, env: { ...this.env, ...env } });
    this.#clients.push(client);
    return client;
  }

  /** Starts a proxy and shakes hands. */
  async open(extra) {
    const client = this.connect(extra);
    await client.handshake();
    return client;
  }

  /** Runs a command such as ["login"] for the server; resolves with {code, stdout, stderr}. */
  command(words, options = []) {
    const all = [...words, ...this.#browser(options, this.desk.command), ...this.options, ...options, this.server.url];
    return this.run(all);
  }

  /** Runs the program with these arguments. */
  run(all) {
    return new Promise((resolve) => {
      const child = execFile(native.command, all, { env: environment(this.env) }, (_error, stdout, stderr) =>
        resolve({ code: child.exitCode, stdout, stderr }),
      );
    });
  }

  #browser(options, command) {
    const says = (name) => [...this.options, ...options].includes(name);
    const isNone = command === null || says("--no-browser") || says("client-credentials");
    return isNone ? [] : ["--browser-command", command];
  }

  // ---- tokens -----------------------------------------------------------------------------

  /** What is stored of the latest login. */
  stored() {
    return this.#entry().logins[0];
  }

  /** Makes the stored token one that has expired, for the proxy and for the server. */
  async age() {
    const entry = this.#entry();
    const [login] = entry.logins;
    await this.as.forget(login.access);
    Object.assign(login, { obtained: login.obtained - 7200, expires: login.obtained - 3600 });
    writeFileSync(this.#file(), JSON.stringify(entry));
  }

  #entry() {
    return JSON.parse(readFileSync(this.#file(), "utf8"));
  }

  #file() {
    const folder = join(this.folder, "auth");
    return join(
      folder,
      readdirSync(folder).find((name) => name.endsWith(".json")),
    );
  }
}

/** Calls "echo" and expects its answer. */
export async function assertServed(client, text = "in") {
  const { result } = await client.call("echo", { text });
  assert.equal(result?.content[0].text, text);
}

/** Sends `initialize` and resolves with the error that answers it. */
export async function refusal(client) {
  const { error } = await client.request("initialize", INITIALIZE);
  assert.ok(error, "initialize was refused");
  return error;
}
