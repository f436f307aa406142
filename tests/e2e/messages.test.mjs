// The words of errors. A client sees no stderr, and often shows its user nothing but `error.message`: so
// that says what happened, where, and what the server said about it.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { CONTROLS } from "../fixtures/attacks.mjs";
import { startServer } from "../fixtures/server.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { CONTROL } from "./hostile.mjs";
import { scenario } from "./scenario.mjs";
import { environment, shells } from "./shells.mjs";

const JSON_TYPE = { "content-type": "application/json" };
const HTML = { "content-type": "text/html; charset=utf-8" };
const TEXT = { "content-type": "text/plain; charset=utf-8" };
/** The longest message of an error, and the longest error. */
const MESSAGE_BYTES = 4096;
const ERROR_BYTES = 16 * 1024;
/** What turns the direction of a text, or stands in it unseen. */
const UNSEEN = /[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/;

const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };

/** An error that may be shown as it is, on one line. */
function assertPresentable(error) {
  const shown = JSON.stringify(error.message.slice(0, 500));
  assert.ok(!CONTROL.test(error.message) && !error.message.includes("\n") && !UNSEEN.test(error.message), shown);
  assert.ok(Buffer.byteLength(error.message) < MESSAGE_BYTES, `${error.message.length} characters: ${shown}`);
  assert.ok(JSON.stringify(error).length < ERROR_BYTES, `an error of ${JSON.stringify(error).length} characters`);
}

// ---- connections ----------------------------------------------------------------------------

/** Where nobody listens. */
async function deserted() {
  const server = await startServer();
  await server.close();
  return server;
}

for (const transport of ["auto", "streamable-http", "sse"]) {
  scenario(`a refused connection is told with host and port (${transport})`, {}, async ({ connect }) => {
    const { url, port } = await deserted();
    const client = connect({ url, options: ["--retries", "0", "--transport", transport] });
    const { error } = await client.request("initialize", PARAMS);
    assert.ok(error.message.includes(`127.0.0.1:${port}`), error.message);
    assert.match(error.message, /refused/);
    assert.deepEqual([error.data.delivered, error.data.retrySafe], ["no", true]);
    assertPresentable(error);
    await client.finish();
  });
}

/** Ways to leave after a request was read and before anything was said. */
const LOSSES = {
  "is destroyed": (exchange) => exchange.req.socket.destroy(),
  "is ended": (exchange) => exchange.req.socket.end(),
  "is reset": (exchange) => exchange.reset(),
};

function assertLost({ error }, port) {
  assert.match(error.message, /connection.*\blost\b/);
  assert.match(error.message, /may have been carried out/);
  assert.doesNotMatch(error.message, /could not be reached/);
  assert.ok(error.message.includes(`127.0.0.1:${port}`), error.message);
  assert.deepEqual([error.data.delivered, error.data.retrySafe], ["maybe", false]);
  assertPresentable(error);
}

for (const [what, leave] of Object.entries(LOSSES)) {
  scenario(`a connection that ${what} before the response was lost, not refused`, {}, async ({ open, server }) => {
    const client = await open();
    server.once("POST tools/call", leave);
    assertLost(await client.call("echo"), server.port);
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST tools/call").length, 2);
  });

  scenario(
    `a connection that ${what} while HTTP+SSE posts was lost, not refused`,
    { start: startSseServer },
    async ({ open, server }) => {
      const client = await open();
      server.once("POST /messages tools/call", leave);
      assertLost(await client.call("echo"), server.port);
      assert.ok((await client.call("echo")).result);
      await client.finish();
      assert.equal(server.requests("POST /messages tools/call").length, 2);
    },
  );
}

// ---- bodies ---------------------------------------------------------------------------------

const answerTo = ({ message }) => JSON.stringify({ jsonrpc: "2.0", id: message.id, result: { ok: true } });

for (const [what, respond] of Object.entries({
  "JSON body": (exchange) =>
    exchange.reply(200, { ...JSON_TYPE, "content-encoding": "gzip" }, gzipSync(answerTo(exchange))),
  "event stream": (exchange) => {
    const stream = exchange.stream({ "content-encoding": "gzip" });
    stream.raw(gzipSync(`data: ${answerTo(exchange)}\n\n`));
    stream.end();
  },
})) {
  scenario(`a compressed ${what} is told by the name of its encoding`, {}, async ({ open, server }) => {
    const client = await open();
    server.once("POST tools/call", respond);
    const { error } = await client.call("echo");
    assert.match(error.message, /content-encoding/i);
    assert.match(error.message, /gzip/);
    assertPresentable(error);
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.requests("POST tools/call").length, 2);
  });
}

const BOM = Buffer.of(0xef, 0xbb, 0xbf);

for (const [what, pieces] of Object.entries({
  "at once": (body) => [Buffer.concat([BOM, body])],
  "byte by byte": (body) => [...BOM, ...body].map((byte) => Buffer.of(byte)),
  "with blanks after it": (body) => [BOM, Buffer.from("\r\n  "), body],
})) {
  const sessionless = { server: { sessions: false } };
  scenario(`a JSON body behind a byte order mark is accepted (${what})`, sessionless, async ({ open, server }) => {
    for (const label of ["POST initialize", "POST tools/call"]) {
      server.once(label, async (exchange) => {
        const result = label === "POST initialize" ? server.welcome(exchange.message.params) : { ok: true };
        const body = exchange.stream(JSON_TYPE);
        exchange.res.socket.setNoDelay(true);
        const text = JSON.stringify({ jsonrpc: "2.0", id: exchange.message.id, result });
        for (const piece of pieces(Buffer.from(text))) await body.raw(piece);
        body.end();
      });
    }
    const client = await open();
    assert.deepEqual((await client.call("echo")).result, { ok: true });
    assert.ok(client.lines.every(({ text }) => !text.includes("\ufeff")));
    await client.finish();
  });
}

for (const status of [400, 500]) {
  for (const [what, headers, body] of [
    ["JSON", JSON_TYPE, '{"error":"nope"}'],
    ["HTML", HTML, "<h1>It is broken</h1>"],
    ["text", TEXT, "the database is away"],
    ["JSON of Spring", JSON_TYPE, `{"timestamp":"2025-06-01T12:00:00.000+00:00","status":${status},"path":"/mcp"}`],
  ]) {
    scenario(`the message of a ${status} has the beginning of its body (${what})`, {}, async ({ open, server }) => {
      const client = await open();
      const { error } = await client.call("status", { status, headers, body });
      assert.ok(error.message.includes(String(status)), error.message);
      assert.ok(error.message.includes(body.slice(0, 20)), error.message);
      assert.equal(error.data.httpStatus, status);
      assertPresentable(error);
      assert.ok((await client.call("echo")).result);
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 2);
    });
  }

  scenario(`the body of a ${status} is cut and escaped in the message`, {}, async ({ open }) => {
    const client = await open();
    for (const body of [`beginning ${CONTROLS}\u202e\u2066`, `beginning ${"x".repeat(100_000)}`, `beginning\n\n\tend`]) {
      const { error } = await client.call("status", { status, headers: TEXT, body });
      assert.match(error.message, /beginning/);
      assertPresentable(error);
    }
    await client.finish();
  });

  scenario(`the message of a ${status} without a body ends there`, {}, async ({ open }) => {
    const client = await open();
    const { error } = await client.call("status", { status });
    assert.ok(error.message.includes(String(status)), error.message);
    assert.doesNotMatch(error.message, /[:(]\s*\)?$|undefined|null|""/);
    await client.finish();
  });
}

// ---- credentials ----------------------------------------------------------------------------

const METADATA = "https://h/.well-known/oauth-protected-resource";
const EXPIRED =
  `Bearer realm="x", resource_metadata="${METADATA}", scope="a b", ` +
  'error="invalid_token", error_description="The token expired"';
const INSUFFICIENT = 'Bearer error="insufficient_scope", scope="files:write"';

/** Where a server may refuse: [what, its start, the label, options, the client's request]. */
const DOORS = [
  ["initialize", startServer, "POST initialize", [], (client) => client.request("initialize", PARAMS)],
  ["a call", startServer, "POST tools/call", [], (client) => client.call("echo")],
  ["a message of HTTP+SSE", startSseServer, "POST /messages tools/call", [], (client) => client.call("echo")],
  [
    "the stream of HTTP+SSE",
    startSseServer,
    "GET /sse",
    ["--transport", "sse", "--retries", "0"],
    (client) => client.request("initialize", PARAMS),
  ],
];

for (const [what, start, label, options, ask] of DOORS) {
  scenario(`a challenge to ${what} is in the error, in words and whole`, { start, options }, async (scene) => {
    const { connect, open, server } = scene;
    const client = label.endsWith("call") ? await open() : connect();
    server.once(label, (exchange) => exchange.reply(401, { "www-authenticate": EXPIRED, ...TEXT }, "go away"));
    const unknown = (await ask(client)).error;
    for (const words of ["401", "The token expired", METADATA])
      assert.ok(unknown.message.includes(words), `${words} in ${unknown.message}`);
    assert.equal(unknown.data.challenge, EXPIRED);
    assert.deepEqual([unknown.data.httpStatus, unknown.data.delivered], [401, "no"]);
    assertPresentable(unknown);

    server.once(label, (exchange) => exchange.reply(403, { "www-authenticate": INSUFFICIENT }));
    const forbidden = (await ask(client)).error;
    for (const words of ["403", "files:write"])
      assert.ok(forbidden.message.includes(words), `${words} in ${forbidden.message}`);
    assert.equal(forbidden.data.challenge, INSUFFICIENT);
    assert.deepEqual([forbidden.data.httpStatus, forbidden.data.delivered], [403, "no"]);
    assertPresentable(forbidden);

    assert.ok((await ask(client)).result);
    await client.finish();
  });
}

for (const status of [401, 403]) {
  scenario(`a ${status} without a challenge has none in its error`, {}, async ({ open }) => {
    const client = await open();
    const { error } = await client.call("status", { status });
    assert.ok(error.message.includes(String(status)), error.message);
    assert.equal(Object.hasOwn(error.data, "challenge"), false);
    assertPresentable(error);
    await client.finish();
  });

  // The bytes that no parser of HTTP takes in a head are left out.
  scenario(`a challenge with a ${status} that would steer a terminal is escaped`, {}, async ({ open, server }) => {
    const client = await open();
    server.once("POST tools/call", async (exchange) => {
      const challenge = 'Bearer error="invalid_token", error_description="turned \u202e\u2066\u2028\u0085\u009b2J\taround"';
      const head = `HTTP/1.1 ${status} No\r\nwww-authenticate: ${challenge}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`;
      await exchange.wire(Buffer.from(head));
      exchange.req.socket.end();
    });
    const { error } = await client.call("echo");
    assert.ok(error.message.includes(String(status)) && error.message.includes("turned"), error.message);
    assertPresentable(error);
    assert.ok(!CONTROL.test(error.data.challenge) && !UNSEEN.test(error.data.challenge), error.data.challenge);
    assert.ok((await client.call("echo")).result);
    await client.finish();
  });

  scenario(`a challenge of 100 kB with a ${status} is cut`, {}, async ({ open, server }) => {
    const client = await open();
    for (const challenge of [
      `Bearer error="invalid_token", error_description="begun ${"x".repeat(100_000)}"`,
      `Bearer error="insufficient_scope", error_description="begun", scope="${"files:write ".repeat(9000)}"`,
      `Bearer error="invalid_token", error_description="begun", ${"a=b, ".repeat(20_000)}c=d`,
      `Bearer error_description="begun", resource_metadata="https://h/${"x".repeat(100_000)}`,
    ]) {
      server.once("POST tools/call", (exchange) => exchange.reply(status, { "www-authenticate": challenge }));
      const { error } = await client.call("echo");
      assert.ok(error.message.includes(String(status)) && error.message.includes("begun"), error.message.slice(0, 500));
      assertPresentable(error);
      assert.ok(challenge.startsWith(error.data.challenge.slice(0, 50)), error.data.challenge.slice(0, 200));
    }
    assert.ok((await client.call("echo")).result);
    await client.finish();
  });
}

// ---- the command line -----------------------------------------------------------------------

for (const port of ["99999", "65536", "123456789012"]) {
  test(`port ${port} is a usage error that names it, in the same words on every shell`, { timeout: 90_000 }, () => {
    const words = shells.map((shell) => {
      const { status, stdout, stderr } = spawnSync(shell.command, shell.args(`http://127.0.0.1:${port}/mcp`), {
        env: environment(),
        stdio: ["ignore", "pipe", "pipe"],
        encoding: "utf8",
      });
      assert.equal(status, shell.usageError, stderr);
      assert.equal(stdout, "");
      assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
      assert.match(stderr, new RegExp(`\\bport\\b.*${port}|${port}.*\\bport\\b`));
      return stderr;
    });
    assert.equal(new Set(words).size, 1, words.join(""));
  });
}
