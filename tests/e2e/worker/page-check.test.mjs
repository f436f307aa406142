// The page's check against answers that are right in every form, and wrong in every way. The page
// is served by a fixture that is also its MCP endpoint, so that every byte can be chosen.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { inChromium, startChromium } from "../../fixtures/chromium.mjs";
import { openPage, openServed, source } from "./page-driver.mjs";

/** A name that is this machine, but not one whose pages may use the clipboard. */
const PLAIN_HOST = "worker.test";
const JSON_TYPE = { "content-type": "application/json" };
const EVENTS = { "content-type": "Text/Event-Stream; charset=utf-8" };

test("the page is small", () => {
  const size = ["page.html", "page.css", "page.js"].reduce((sum, name) => sum + Buffer.byteLength(source(name)), 0);
  assert.ok(size < 31_000, `${size} bytes`);
});

describe("a check", { skip: inChromium.skip }, () => {
  let chrome;
  before(async () => (chrome = await startChromium(chromium, [`--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`])));
  after(() => chrome?.close());

  const open = (t, options) => openServed(t, chrome.browser, options);

  test("speaks the protocol", inChromium, async (t) => {
    const { server, opened } = await open(t);
    const { state, facts } = await opened.check();
    assert.equal(state, "Reachable. The server answers.");
    assert.equal(facts.Transport, "unknown");
    const calls = server.log.filter(({ label }) => label !== "GET");
    assert.deepEqual(
      calls.map(({ label }) => label),
      ["POST initialize", "POST notifications/initialized", "POST ping", "POST tools/list", "DELETE"],
    );
    const [{ headers, message }, ...others] = calls;
    assert.equal(headers.accept, "application/json, text/event-stream");
    assert.equal(headers["mcp-session-id"], undefined);
    assert.equal(message.params.protocolVersion, "2025-11-25");
    const [id] = new Set(others.map((call) => call.headers["mcp-session-id"]));
    assert.ok(id);
    for (const call of others) {
      assert.equal(call.headers["mcp-session-id"], id);
      assert.equal(call.headers["mcp-protocol-version"], "2025-11-25");
    }
  });

  // A comment, an event without data, one of another type, and the answer over two lines.
  const odd = (result, id) => {
    const [head, tail] = JSON.stringify({ jsonrpc: "2.0", id, result }).split(/(?<=^\{)/);
    const lines = [": hello", "id: 1", "data:", "", "event: other", `data: {"id":${id},"result":{}}`, ""];
    return [...lines, "event", "retry: 5", `data:${head}`, ":", `data: ${tail}`, "unknown: x", "", ""];
  };

  for (const [label, end] of Object.entries({ LF: "\n", CR: "\r", CRLF: "\r\n" })) {
    test(`reads events byte by byte, with lines that end in ${label}`, inChromium, async (t) => {
      const { server, opened } = await open(t, { prepare: (page) => page.addInitScript(cutToBytes) });
      const names = ["żółw", "🐢", "plain"];
      const answer = (result) => (exchange) =>
        exchange.reply(200, EVENTS, `\ufeff${odd(result, exchange.message.id).join(end)}`);
      server.once("POST ping", answer({}));
      server.once("POST tools/list", answer({ tools: names.map((name) => ({ name })) }));
      const { state, facts } = await opened.check();
      assert.equal(state, "Reachable. The server answers.");
      assert.equal(facts.Tools, "3");
      assert.deepEqual(await opened.card().locator(".tools li").allTextContents(), names);
    });
  }

  test("follows the list of tools over its pages", inChromium, async (t) => {
    const pages = { first: [{ name: "a" }, { name: "b" }], "": [{ name: "c" }], last: [{ name: "d" }] };
    const next = { first: "", "": "last" };
    const list = ({ cursor = "first" }) => ({ tools: pages[cursor], nextCursor: next[cursor] });
    const { opened } = await open(t, { methods: { "tools/list": list } });
    assert.equal((await opened.check()).facts.Tools, "4");
  });

  test("ends with a list of tools that has no end", inChromium, async (t) => {
    const { server, opened } = await open(t, { methods: { "tools/list": () => ({ tools: [], nextCursor: "more" }) } });
    assert.match((await opened.check()).state, /The list of tools has no end/);
    await server.seen("DELETE");
  });

  test("asks a server without tools for none", inChromium, async (t) => {
    const { server, opened } = await open(t, { capabilities: { tools: undefined } });
    assert.equal((await opened.check()).facts.Tools, "0");
    assert.deepEqual(server.requests("POST tools/list"), []);
  });

  test("answers what the server asks", inChromium, async (t) => {
    const { server, opened } = await open(t);
    const answers = [];
    server.once("POST ping", async (exchange) => {
      const stream = exchange.stream();
      answers.push(await stream.ask("ping"), await stream.ask("roots/list"));
      stream.result({});
    });
    assert.match((await opened.check()).state, /^Reachable\. /);
    assert.deepEqual(answers[0].result, {});
    assert.equal(answers[1].error.code, -32601);
  });

  test("shows what a server says as text", inChromium, async (t) => {
    const name = '<img src="/x" onerror="document.title=1">';
    const { server, opened } = await open(t, { methods: { "tools/list": () => ({ tools: [{ name }] }) } });
    server.once("POST initialize", (exchange) => {
      const serverInfo = { name, version: name };
      exchange.result({ protocolVersion: name, capabilities: { tools: {} }, serverInfo });
    });
    assert.equal((await opened.check()).facts.Server, name);
    assert.equal(await opened.page.locator("img").count(), 0);
  });

  // What the server does at `initialize`, the words that are shown, and what else is shown.
  const refused = {
    "a token that is missing": [json(401, "no token"), /^No access\. A token is needed \(401\)/, /no token[^]*HTTP 401/],
    "a page that is not allowed": [json(403, "origin not allowed"), /^No access\..*\(403\)/, /origin not allowed/],
    "too many requests": [json(429, "slow down"), /^No access\..*\(429\)/, /slow down/],
    "a gateway that fails": [text(502, "no route"), /^Not reachable\..*\(502\)/, /no route[^]*initialize · HTTP 502/],
    "a Worker that is not ready": [json(503, "no upstream"), /^Not reachable\..*\(503\)/, /no upstream/],
    "a page instead of an answer": [html(500), /^Not reachable\..*HTTP 500/, /^initialize · HTTP 500$/],
    "an error of JSON-RPC": [
      (exchange) => exchange.json({ jsonrpc: "2.0", id: 1, error: { code: -32099, message: "dead", data: { phase: 3 } } }),
      /^Not reachable\. The answer is an error\./,
      /dead[^]*initialize · code -32099 · {"phase":3}/,
    ],
    "an answer that is none": [(exchange) => exchange.json("nonsense"), /not JSON-RPC/, /nonsense/],
    "an answer that is null": [(exchange) => exchange.json("null"), /not JSON-RPC/, /null/],
    "an answer without a result": [(exchange) => exchange.json("{}"), /has no result/, /initialize/],
    "a connection that breaks": [breakOff, /^Not reachable\. The connection.* failed/, /initialize/],
  };

  for (const [what, [handler, state, trouble]] of Object.entries(refused)) {
    test(`tells of ${what}`, inChromium, async (t) => {
      const { server, opened } = await open(t);
      server.once("POST initialize", handler);
      const shown = await opened.check();
      assert.match(shown.state, state);
      assert.match(shown.trouble, trouble);
      assert.deepEqual(shown.facts, {});
      assert.match((await opened.check()).state, /^Reachable\. /);
    });
  }

  test("tells of a Worker that is gone", inChromium, async (t) => {
    const { server, opened } = await open(t);
    await server.close();
    const { state, trouble } = await opened.check();
    assert.equal(state, "Not reachable. The connection to the Worker failed.");
    assert.match(trouble, /fetch[^]*initialize/);
  });

  const broken = {
    "an HTTP error": ["POST tools/list", json(500, "out of order"), /answered with HTTP 500/],
    "an error of JSON-RPC": ["POST tools/list", (exchange) => exchange.error(-32603, "broken"), /answer is an error/],
    "a stream without the answer": ["POST ping", (exchange) => exchange.stream().end(), /stream ended before/],
    "a lost connection": ["POST ping", breakOff, /connection to the Worker failed/],
    "a refused notification": ["POST notifications/initialized", json(400, "not now"), /answered with HTTP 400/],
    "a list that is no list": ["POST tools/list", (exchange) => exchange.json("[]"), /has no result/],
  };

  for (const [what, [label, handler, state]] of Object.entries(broken)) {
    test(`ends the session after ${what}`, inChromium, async (t) => {
      const { server, opened } = await open(t);
      server.once(label, handler);
      const shown = await opened.check();
      assert.match(shown.state, /^Reachable, but not all went well\. /);
      assert.match(shown.state, state);
      assert.equal(shown.facts.Server, "fixture");
      const { headers } = await server.seen("DELETE");
      assert.equal(headers["mcp-session-id"], server.requests(label)[0].headers["mcp-session-id"]);
    });
  }

  test("ends the session of an initialize that failed", inChromium, async (t) => {
    const { server, opened } = await open(t);
    server.once("POST initialize", (exchange) => exchange.error(-32000, "half open", { "mcp-session-id": "half" }));
    await opened.check();
    assert.equal((await server.seen("DELETE")).headers["mcp-session-id"], "half");
  });

  for (const status of [404, 405]) {
    test(`does not mind a session that cannot be ended (${status})`, inChromium, async (t) => {
      const { server, opened } = await open(t);
      server.once("DELETE", (exchange) => exchange.reply(status));
      assert.equal((await opened.check()).state, "Reachable. The server answers.");
    });
  }

  test("tells of a session that could not be ended", inChromium, async (t) => {
    const { server, opened } = await open(t);
    server.once("DELETE", json(500, "stuck"));
    const { state, trouble } = await opened.check();
    assert.match(state, /^Reachable, but not all went well\./);
    assert.match(trouble, /stuck[^]*end of the session · HTTP 500/);
  });

  test("ends the session when the person leaves", inChromium, async (t) => {
    const { server, opened } = await open(t);
    server.once("POST ping", () => {});
    await opened.card().locator(".check").click();
    await server.seen("POST ping");
    await opened.page.goto("about:blank");
    await server.seen("DELETE");
  });

  test("refuses a token that no header can carry", inChromium, async (t) => {
    const { server, opened } = await open(t, { config: { auth: "forwarded" } });
    await opened.page.getByLabel("Your token").fill("schlüssel");
    assert.match((await opened.check()).state, /a character that no token can have/);
    assert.deepEqual(server.requests("POST initialize"), []);
    await opened.page.getByLabel("Your token").fill(" key ");
    await opened.check();
    assert.equal((await server.seen("POST initialize")).headers.authorization, "Bearer key");
  });

  test("copies where a page may not use the clipboard", inChromium, async (t) => {
    const { server, opened } = await open(t, { host: PLAIN_HOST });
    assert.equal(await opened.page.evaluate(() => typeof navigator.clipboard), "undefined");
    const button = opened.page.getByRole("button", { name: "Copy the URL" });
    await button.click();
    await button.getByText("Copied").waitFor();
    assert.ok(await button.evaluate((element) => element === document.activeElement));
    await chrome.browser.grantPermissions(["clipboard-read"], { origin: server.origin });
    const other = await openPage(t, chrome.browser, server.origin);
    const copied = await other.page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, `http://${PLAIN_HOST}:${server.port}/mcp`);
  });

  test("shows problems as text, and nothing to check", inChromium, async (t) => {
    const problems = ["UPSTREAM_URL is not a URL: </script><b>x</b>", "FRONT_TOKEN or PUBLIC=1 is missing"];
    const { opened } = await open(t, { config: { endpoints: [], problems } });
    assert.deepEqual(await opened.page.locator("#problems li").allTextContents(), problems);
    assert.equal(await opened.page.locator(".check:visible").count(), 0);
  });
});

function json(status, message) {
  const body = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: -32000, message } });
  return (exchange) => exchange.reply(status, JSON_TYPE, body);
}

function text(status, body) {
  return (exchange) => exchange.reply(status, { "content-type": "text/plain" }, body);
}

function html(status) {
  return (exchange) => exchange.reply(status, { "content-type": "text/html" }, "<p>a page</p>");
}

/** Ends the connection within the body. Before the head it would not do: browsers then send a request again. */
function breakOff({ res }) {
  res.writeHead(200, { ...JSON_TYPE, "content-length": "100" });
  res.write("{");
  res.socket.end();
}

/** Runs in the page: every event stream arrives in pieces of one byte. */
function cutToBytes() {
  const whole = window.fetch;
  window.fetch = async (...request) => {
    const response = await whole(...request);
    if (!response.headers.get("content-type")?.toLowerCase().startsWith("text/event-stream")) return response;
    const bytes = new Uint8Array(await response.arrayBuffer());
    const body = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    return new Response(body, response);
  };
}
