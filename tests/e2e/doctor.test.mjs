// `mcp-proxy doctor`: what it says about servers that work and about broken ones. Each text is compared with
// a file in golden/doctor; `UPDATE_GOLDEN=1` writes them anew. Ports, times and paths are masked.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { startBearerServer } from "../fixtures/bearer-server.mjs";
import { startModernFixture } from "../fixtures/modern-fixture.mjs";
import { startServer } from "../fixtures/server.mjs";
import { endpoints, startSseServer } from "../fixtures/sse-server.mjs";
import { loginScenario } from "./auth/scene.mjs";
import { startEverything, startPython2, startSdk, withoutPython2 } from "./processes.mjs";
import { environment, shells } from "./shells.mjs";

const [native] = shells;
const HUNG_MS = 60_000;
const JSON_TYPE = { "content-type": "application/json" };
const fixture = (name) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const tls = {
  key: readFileSync(fixture("server.key")),
  cert: readFileSync(fixture("server.pem")),
  protocol: "http/1.1",
};

/** Runs the doctor; resolves with its exit code and what it printed. */
function examine(url, options = [], env = {}) {
  return new Promise((resolve) => {
    execFile(native.command, ["doctor", ...options, url], { env: environment(env) }, (error, stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stdout, stderr }),
    );
  });
}

const masked = (text) =>
  text
    .replaceAll(native.command, "PROGRAM")
    .replaceAll(fixture(""), "TLS/")
    .replaceAll(/(?<=127\.0\.0\.1:|localhost:)\d+/g, "PORT")
    .replaceAll(/\b\d+(\.\d+)? (ms|s)\b/g, "TIME")
    .replaceAll(/(?<=failed to lookup address information: ).*/g, "REASON")
    .replaceAll(/ \(os error \d+\)/g, "")
    .replaceAll(/--keep-alive \d+s/g, "--keep-alive TIME")
    .replaceAll(/ +$/gm, "");

function assertGolden(name, text) {
  const path = fileURLToPath(new URL(`golden/doctor/${name.replaceAll(/[^a-z0-9]+/gi, "-")}.txt`, import.meta.url));
  if (process.env.UPDATE_GOLDEN) writeFileSync(path, masked(text));
  assert.equal(masked(text), readFileSync(path, "utf8"));
}

/** A server on plain node:http that answers each request with `answer`. */
async function plain(answer) {
  const server = http.createServer((req, res) => {
    req.resume();
    req.once("end", () => answer(req, res, `http://127.0.0.1:${server.address().port}`));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, close };
}

const json = (res, status, body, headers = {}) =>
  res.writeHead(status, { ...JSON_TYPE, ...headers }).end(JSON.stringify(body));

/** A protected server; `documents` maps paths to metadata, made from the origin. */
const protectedServer = (documents, challenge = "Bearer") =>
  plain((req, res, origin) => {
    const document = documents[req.url]?.(origin);
    if (document) return json(res, 200, document);
    if (!req.url.startsWith("/mcp")) return json(res, 404, {});
    return json(res, 401, { error: "invalid_token" }, { "www-authenticate": challenge.replaceAll("ORIGIN", origin) });
  });

const RESOURCE = "/.well-known/oauth-protected-resource/mcp";
const ISSUER = "/.well-known/oauth-authorization-server";
const resource = (origin) => ({
  resource: `${origin}/mcp`,
  authorization_servers: [origin],
  scopes_supported: ["mcp:read", "mcp:write"],
});
const issuer = (origin) => ({
  issuer: origin,
  authorization_endpoint: `${origin}/authorize`,
  token_endpoint: `${origin}/token`,
  registration_endpoint: `${origin}/register`,
  code_challenge_methods_supported: ["S256"],
});

/** Does everything that a server should not do and the proxy can live with. */
async function startSloppy() {
  const server = await startServer();
  const id = "not-checked";
  const zipped = (exchange, status, body, headers = {}) =>
    exchange.reply(status, { ...JSON_TYPE, "mcp-session-id": id, ...headers }, body);
  server.always("POST initialize", (exchange) =>
    zipped(
      exchange,
      200,
      JSON.stringify({
        jsonrpc: "2.0",
        id: exchange.message.id,
        result: {
          protocolVersion: "2025-03-26",
          capabilities: { tools: {} },
          serverInfo: { name: "sloppy", version: "0" },
        },
      }),
    ),
  );
  server.always("POST notifications/initialized", (exchange) => exchange.reply(200, JSON_TYPE, "{}"));
  server.always("GET", (exchange) => exchange.reply(404, {}, "nothing here"));
  server.always("POST tools/list", (exchange) =>
    zipped(
      exchange,
      200,
      JSON.stringify({ jsonrpc: "2.0", id: exchange.message.id, error: { code: -32603, message: "out of tools" } }),
    ),
  );
  server.always("POST ping", (exchange) =>
    zipped(exchange, 200, gzipSync(JSON.stringify({ jsonrpc: "2.0", id: exchange.message.id, result: {} })), {
      "content-encoding": "gzip",
    }),
  );
  server.always("DELETE", (exchange) => exchange.reply(500, {}, "oops"));
  return server;
}

const at = (server, url) => ({ url, close: () => server.close() });

/** name, exit code, how to start the server, options */
const CASES = [
  ["the reference server over Streamable HTTP", 0, () => startEverything("streamableHttp")],
  ["the reference server over HTTP+SSE", 0, () => startEverything("sse")],
  ["a server of the TypeScript SDK v1", 0, () => startSdk("express")],
  ["a server of the TypeScript SDK v2", 0, () => startSdk("web")],
  ["a FastMCP server", 0, () => startPython2("fastmcp", "streamableHttp"), { skip: withoutPython2 }],
  ["a Streamable HTTP server", 0, () => startServer()],
  ["a server without sessions and without a stream", 0, () => startServer({ sessions: false, get: 405 })],
  ["an HTTP+SSE server", 0, () => startSseServer()],
  ["a modern server", 0, () => startModernFixture()],
  ["a server with TLS", 0, () => startServer({ tls }), { options: ["--ca-cert", fixture("ca.pem")] }],
  ["a server that cuts idle streams", 0, () => startSseServer({ cutWhenIdle: 1500 }), { options: ["--deep"] }],
  ["a server that makes every mistake that one can live with", 0, startSloppy],
  ["a protected server", 3, () => protectedServer({ [RESOURCE]: resource, [ISSUER]: issuer })],

  ["a port where nobody listens", 1, async () => at({ close() {} }, "http://127.0.0.1:9/mcp")],
  ["a name that does not exist", 1, async () => at({ close() {} }, "https://mcp.invalid/mcp")],
  ["a certificate that nobody trusts", 1, () => startServer({ tls })],
  [
    "https where there is only http",
    1,
    async () => {
      const server = await startServer();
      return at(server, server.url.replace("http:", "https:"));
    },
  ],
  [
    "the wrong path of a server",
    1,
    async () => {
      const server = await startEverything("streamableHttp");
      return at(server, new URL("/", server.url).href);
    },
  ],
  [
    "a redirect to another origin",
    1,
    () => plain((_req, res) => res.writeHead(307, { location: "https://mcp.invalid/elsewhere" }).end()),
  ],
  [
    "a web site",
    1,
    () => plain((_req, res) => res.writeHead(200, { "content-type": "text/html" }).end("<h1>Welcome</h1>")),
  ],
  ["a server that fails", 1, () => plain((_req, res) => json(res, 500, { message: "Internal server error" }))],
  ["a server that never answers", 1, () => plain(() => {}), { options: ["--request-timeout", "500ms"] }],
  [
    "an HTTP+SSE server that names no endpoint",
    1,
    () => startSseServer({ endpoint: endpoints.never }),
    {
      options: ["--endpoint-timeout", "500ms"],
    },
  ],
  ["JSON that is not JSON-RPC", 1, () => plain((_req, res) => json(res, 200, { hello: "world" }))],
  ["a lock without metadata", 1, () => startBearerServer()],
  [
    "metadata about another resource",
    1,
    () => protectedServer({ [RESOURCE]: (origin) => ({ ...resource(origin), resource: "https://other.example/mcp" }) }),
  ],
  [
    "metadata of another issuer",
    1,
    () =>
      protectedServer({
        [RESOURCE]: resource,
        [ISSUER]: (origin) => ({ ...issuer(origin), issuer: `${origin}/other` }),
      }),
  ],
  [
    "an authorization server without PKCE",
    1,
    () =>
      protectedServer({
        [RESOURCE]: resource,
        [ISSUER]: (origin) => ({ ...issuer(origin), code_challenge_methods_supported: ["plain"] }),
      }),
  ],
  [
    "credentials that the server refuses",
    1,
    () => protectedServer({}, 'Bearer error="invalid_token", error_description="The token has expired"'),
    {
      options: ["--header", "Authorization: Bearer old"],
    },
  ],
];

for (const [name, expected, start, { options = [], skip } = {}] of CASES)
  test(`doctor: ${name}`, { timeout: HUNG_MS, skip }, async (t) => {
    const server = await start();
    t.after(() => server.close());
    const { code, stdout, stderr } = await examine(server.url, options);
    assert.equal(stderr, "");
    assertGolden(name, stdout);
    assert.equal(code, expected);
  });

test("doctor --json prints one object with the same findings", { timeout: HUNG_MS }, async (t) => {
  const server = await startServer();
  t.after(() => server.close());
  const { code, stdout } = await examine(server.url, ["--json"]);
  const report = JSON.parse(stdout);
  assert.equal(code, 0);
  assert.equal(report.verdict, "works");
  assert.equal(report.url, server.url);
  const { stdout: text } = await examine(server.url);
  for (const finding of report.findings) {
    assert.match(finding.level, /^(ok|note|warning|error)$/);
    assert.ok(text.includes(finding.check), finding.check);
  }
  assert.deepEqual(Object.keys(report.config.mcpServers), ["127-0-0-1"]);
});

loginScenario("doctor at a real authorization server: first log in, then it works", {}, async (scene) => {
  const before = await scene.command(["doctor"]);
  assert.equal(before.code, 3);
  assert.match(
    before.stdout,
    new RegExp(`note +authorization +the server is protected \\(401\\): ${scene.as.issuer} `),
  );
  assert.ok(before.stdout.includes(`mcp-proxy login ${scene.server.url}`), before.stdout);
  assert.equal(scene.desk.visits.length, 0);
  assert.equal((await scene.command(["login"])).code, 0);
  const after = await scene.command(["doctor"]);
  assert.equal(after.code, 0);
  assert.match(after.stdout, new RegExp(`ok +authorization +the server accepts your login at ${scene.as.issuer}\n`));
});

test("doctor says which proxy is in the way", { timeout: HUNG_MS }, async (t) => {
  const server = await startServer();
  const forward = await plain((_req, res) => res.writeHead(502).end("no way"));
  t.after(() => Promise.all([server.close(), forward.close()]));
  const address = new URL(forward.url).origin;
  const { code, stdout } = await examine("http://mcp.invalid/mcp", [], { HTTP_PROXY: address });
  assert.equal(code, 1);
  assert.match(stdout, new RegExp(`note +proxy +requests go through the proxy ${address}`));
});

test(
  "doctor leaves no session behind, and its own requests carry the user's headers",
  { timeout: HUNG_MS },
  async (t) => {
    const server = await startServer();
    t.after(() => server.close());
    await examine(server.url, ["--header", "X-Key: k"]);
    assert.equal(server.requests("DELETE").length, server.requests("POST initialize").length);
    for (const { headers, label } of server.log) assert.equal(headers["x-key"], "k", label);
  },
);

test("doctor prints no colours and no credentials where nobody sees them", { timeout: HUNG_MS }, async (t) => {
  const server = await startServer();
  t.after(() => server.close());
  const { stdout, stderr } = await examine(server.url, ["--bearer-token-env", "SECRET"], { SECRET: "s3cr3t-v4lue" });
  assert.ok(!(stdout + stderr).includes("s3cr3t-v4lue"));
  assert.ok(!stdout.includes("\x1b"));
  assert.ok(stdout.includes('"--bearer-token-env"'));
});
