// Pages of other origins, in a real browser, which is the judge of what they may ask for and see.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { inChromium, startChromium } from "../../fixtures/chromium.mjs";
import { envelope } from "../../fixtures/modern-fixture.mjs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { open } from "./scene.mjs";
import { TYPES } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

const TOKEN = "correct-horse-battery";

test("a page of an allowed origin has a whole session, and any other page has nothing", inChromium, async (t) => {
  const [allowed, other] = await Promise.all([serveEmptyPage(t), serveEmptyPage(t)]);
  const server = await startSseServer();
  t.after(() => server.close());
  const access = { PUBLIC: "0", FRONT_TOKEN: TOKEN, ALLOWED_ORIGINS: allowed, STREAM_AFTER_MS: "60000" };
  const worker = await startWorker({ ...open, UPSTREAM_URL: server.url, ...access });
  t.after(() => worker.stop());
  const chrome = await startChromium(chromium);
  t.after(() => chrome.close());
  const sessionFrom = async (origin) => {
    const page = await chrome.browser.newPage();
    await page.goto(origin);
    return page.evaluate(SESSION, { url: `${worker.url}/mcp`, types: TYPES, token: TOKEN });
  };

  assert.deepEqual(await sessionFrom(other), { failure: "Failed to fetch" });
  assert.deepEqual(server.log, []);
  const { session, answer, upstream, status, refusal } = await sessionFrom(allowed);
  assert.match(session, /^[0-9a-f.]{97}$/);
  assert.equal(upstream, "http+sse");
  assert.deepEqual(answer.result.structuredContent, { text: "from a page" });
  assert.equal(status, 204);
  const metadata = { resource: `${worker.url}/mcp`, bearer_methods_supported: ["header"] };
  assert.deepEqual(refusal, [401, metadata]);
  await server.deserted();
});

test("a page of an allowed origin may be a client of 2026-07-28", inChromium, async (t) => {
  const allowed = await serveEmptyPage(t);
  const server = await startSseServer();
  t.after(() => server.close());
  const worker = await startWorker({ ...open, UPSTREAM_URL: server.url, ALLOWED_ORIGINS: allowed });
  t.after(() => worker.stop());
  const chrome = await startChromium(chromium);
  t.after(() => chrome.close());
  const page = await chrome.browser.newPage();
  await page.goto(allowed);
  const call = { name: "echo", arguments: { region: "eu" }, _meta: envelope() };
  const headers = {
    ...TYPES,
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "echo",
    "Mcp-Param-Region": "eu",
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: call });
  const answer = await page.evaluate(POST, { url: `${worker.url}/mcp`, headers, body });
  assert.deepEqual(answer.result?.structuredContent, { region: "eu" }, JSON.stringify(answer));
});

/** Runs in the page: one request, and what the page may read of its answer. */
const POST = ({ url, headers, body }) =>
  fetch(url, { method: "POST", headers, body }).then(
    (response) => response.json(),
    (error) => ({ failure: error.message }),
  );

/** Serves an empty page until the test ends; resolves with its origin. */
async function serveEmptyPage(t) {
  const server = http.createServer((_, res) =>
    res.writeHead(200, { "content-type": "text/html" }).end("<!doctype html>"),
  );
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** Runs in the page: a session from its beginning to its end, with what a page gets to see of it. */
const SESSION = async ({ url, types, token }) => {
  let session;
  const send = (method, fields, authorization = `Bearer ${token}`) => {
    const own = session === undefined ? {} : { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" };
    const body = fields && JSON.stringify({ jsonrpc: "2.0", ...fields });
    return fetch(url, { method, headers: { ...types, authorization, ...own }, body });
  };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "page", version: "1" } };
  try {
    const welcome = await send("POST", { id: 1, method: "initialize", params });
    await welcome.json();
    session = welcome.headers.get("mcp-session-id");
    await send("POST", { method: "notifications/initialized" });
    const call = { name: "echo", arguments: { text: "from a page" } };
    const answer = await (await send("POST", { id: 2, method: "tools/call", params: call })).json();
    const { status } = await send("DELETE");
    const refused = await send("GET", undefined, "Bearer wrong");
    const [, place] = /resource_metadata="(.*)"/.exec(refused.headers.get("www-authenticate"));
    const asks = { headers: { "mcp-protocol-version": "2025-11-25" } };
    const refusal = [refused.status, await (await fetch(place, asks)).json()];
    return { session, upstream: welcome.headers.get("mcp-proxy-upstream"), answer, status, refusal };
  } catch (error) {
    return { failure: error.message };
  }
};
