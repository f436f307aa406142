// Servers of HTTP+SSE refuse a POST to the URL of their stream in many ways: each framework has its own.
// Whatever the words, the client has a session. A refusal that says nothing about the transport is the answer.

import assert from "node:assert/strict";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { scenario } from "./scenario.mjs";

const JSON_TYPE = { "content-type": "application/json" };
const TEXT = { "content-type": "text/plain; charset=utf-8" };
const PAGE = { "content-type": "text/html; charset=utf-8" };
const PROBLEM = { "content-type": "application/problem+json" };

const POSTED = "POST /sse initialize";
const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
const initialize = (client, id = client.nextId()) => client.request("initialize", PARAMS, id);

const sse = { start: startSseServer };

/** A JSON-RPC error as a body. */
const rpc = (code, message, id = null) => JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id });

const express = (path) =>
  `<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Error</title>\n</head>\n<body>\n` +
  `<pre>Cannot POST ${path}</pre>\n</body>\n</html>\n`;

const spring = (status, error) =>
  JSON.stringify({ timestamp: "2025-06-01T12:00:00.000+00:00", status, error, path: "/sse" });

const python =
  "<!DOCTYPE HTML>\n<html>\n  <head><title>Error response</title></head>\n  <body>\n" +
  "    <h1>Error response</h1>\n    <p>Error code: 501</p>\n    <p>Message: Unsupported method ('POST').</p>\n" +
  "  </body>\n</html>\n";

// ---- refusals that lead to the stream -------------------------------------------------------

/** [who says so, status, headers, body]; a body may be made from the id of the refused request. */
const REFUSALS = [
  // The method or the place is wrong: that is said of the POST, whatever the body is.
  ["the TypeScript SDK's examples", 405, JSON_TYPE, rpc(-32000, "Method not allowed.")],
  ["a server that names the method", 405, JSON_TYPE, rpc(-32601, "Method not found")],
  ["a server that repeats the request's id", 405, JSON_TYPE, (id) => rpc(-32000, "Method not allowed.", id)],
  ["Starlette", 405, { ...TEXT, allow: "GET, HEAD" }, "Method Not Allowed"],
  ["FastAPI", 405, { ...JSON_TYPE, allow: "GET" }, '{"detail":"Method Not Allowed"}'],
  ["Go", 405, TEXT, "405 method not allowed\n"],
  ["Spring", 405, { ...JSON_TYPE, allow: "GET" }, spring(405, "Method Not Allowed")],
  ["ASP.NET", 405, { allow: "GET" }, ""],
  ["Express", 404, PAGE, express("/sse")],
  ["a router that answers in JSON-RPC", 404, JSON_TYPE, rpc(-32000, "Not Found")],
  ["a server that looks for a session", 404, JSON_TYPE, rpc(-32001, "Session not found")],
  ["a router that repeats the request's id", 404, JSON_TYPE, (id) => rpc(-32601, "Not found", id)],
  ["FastAPI without a route", 404, JSON_TYPE, '{"detail":"Not Found"}'],
  ["Go without a route", 404, TEXT, "404 page not found\n"],
  ["Spring without a route", 404, JSON_TYPE, spring(404, "Not Found")],
  ["a server without words", 404, {}, ""],
  // The POST was taken for one of an HTTP+SSE session, and that has no name.
  ["a server that looks for sessionId", 400, JSON_TYPE, rpc(-32000, "Bad Request: No sessionId")],
  ["a server that looks for a valid session", 400, JSON_TYPE, rpc(-32000, "Bad Request: No valid session ID provided")],
  ["a server that finds the request invalid", 400, JSON_TYPE, rpc(-32600, "Bad Request: Missing session ID")],
  ["a server that misses a parameter", 400, TEXT, "Missing sessionId parameter"],
  ["a server that says what is required", 400, TEXT, "sessionId is required"],
  ["a server with JSON of its own", 400, JSON_TYPE, '{"error":"Missing sessionId"}'],
  ["a server that says nothing", 400, {}, ""],
  // What the POST brought, or wanted, is not known there.
  ["a server that only has streams", 406, TEXT, "Not Acceptable: only text/event-stream is supported"],
  ["a server that has no such form", 406, JSON_TYPE, '{"detail":"Not Acceptable"}'],
  ["Spring that takes no JSON", 415, JSON_TYPE, spring(415, "Unsupported Media Type")],
  ["ASP.NET that takes no JSON", 415, PROBLEM, '{"title":"Unsupported Media Type","status":415,"traceId":"00-1"}'],
  ["Python's http.server", 501, PAGE, python],
  // Success, and nothing in it.
  ["a server that takes everything", 202, {}, ""],
  ["a server that takes everything in JSON", 200, JSON_TYPE, ""],
  ["a server that is content with anything", 200, {}, ""],
  ["a server that has no content", 204, {}, ""],
];

for (const [who, status, headers, body] of REFUSALS) {
  scenario(`a POST answered ${status} as by ${who} ends in a session of HTTP+SSE`, sse, async ({ open, server }) => {
    server.always(POSTED, (exchange) =>
      exchange.reply(status, headers, typeof body === "function" ? body(exchange.message.id) : body),
    );
    const client = await open();
    assert.deepEqual((await client.call("echo", { mark: 1 })).result.structuredContent, { mark: 1 });
    await client.finish();
    assert.deepEqual(server.labels().slice(0, 3), [POSTED, "GET /sse", "POST /messages initialize"]);
    assert.equal(server.requests("POST /messages initialize")[0].body, server.requests(POSTED)[0].body);
    assert.equal(server.log.length, 5, "nothing is sent twice");
    assert.equal(client.lines.length, 2, "the client does not notice the refusal");
  });
}

// ---- refusals that are the answer -----------------------------------------------------------

for (const [what, respond] of [
  ["says that the version is not supported", (id) => rpc(-32602, "Unsupported protocol version", id)],
  ["names what is wrong with the parameters", (id) => rpc(-32602, "Invalid params: clientInfo.name", id)],
]) {
  scenario(`a 400 that ${what} is the answer: the server has understood`, sse, async ({ connect, server }) => {
    server.always(POSTED, (exchange) => exchange.reply(400, JSON_TYPE, respond(exchange.message.id)));
    const client = connect();
    const { error } = await initialize(client, 7);
    assert.deepEqual(error, JSON.parse(respond(7)).error);
    await client.finish();
    assert.deepEqual(server.labels(), [POSTED]);
    assert.equal(client.lines.length, 1);
  });
}

for (const [status, headers, body] of [
  [401, { "www-authenticate": "Bearer", ...JSON_TYPE }, '{"error":"invalid_token"}'],
  [403, TEXT, "Forbidden"],
  [403, JSON_TYPE, rpc(-32000, "Forbidden: Origin not allowed")],
  [429, TEXT, "Too Many Requests"],
  [500, PAGE, "<h1>Internal Server Error</h1>"],
  [500, JSON_TYPE, rpc(-32603, "Internal server error")],
  [502, PAGE, "<center><h1>502 Bad Gateway</h1></center>"],
]) {
  const kind = body.includes("jsonrpc") ? "in JSON-RPC" : "in other words";
  const options = { ...sse, login: false };
  scenario(`a POST answered ${status} ${kind} is one error and leads to no GET`, options, async ({ connect, server }) => {
    server.always(POSTED, (exchange) => exchange.reply(status, headers, body));
    const client = connect({ options: ["--retries", "0"] });
    assert.ok((await initialize(client)).error);
    await client.finish();
    assert.deepEqual(server.labels(), [POSTED]);
    assert.equal(client.lines.length, 1);
  });
}

// ---- nothing there --------------------------------------------------------------------------

for (const [what, post, get] of [
  ["405 and 405, in text", [405, TEXT, "Method Not Allowed: nobody posts here"], [405, TEXT, "nor is there a stream"]],
  ["405 and 405, in JSON-RPC", [405, JSON_TYPE, rpc(-32000, "Nobody posts")], [405, JSON_TYPE, rpc(-32000, "No stream")]],
  ["400 in JSON-RPC and 404", [400, JSON_TYPE, rpc(-32600, "No session")], [404, PAGE, "<h1>nobody home</h1>"]],
]) {
  scenario(`a POST and a GET that are both refused are told together: ${what}`, sse, async ({ connect, server }) => {
    server.always(POSTED, (exchange) => exchange.reply(...post));
    server.always("GET /sse", (exchange) => exchange.reply(...get));
    const client = connect({ options: ["--retries", "0"] });
    const { error } = await initialize(client);
    const [[posted, , postBody], [got, , getBody]] = [post, get];
    assert.deepEqual(
      error.data.attempts.map(({ method, httpStatus, body }) => [method, httpStatus, body.slice(0, 20)]),
      [
        ["POST", posted, postBody.slice(0, 20)],
        ["GET", got, getBody.slice(0, 20)],
      ],
    );
    assert.equal(error.data.delivered, "no");
    assert.match(error.message, new RegExp(`POST.*${posted}.*GET.*${got}`));
    for (const words of [postBody, getBody]) {
      const [said] = words.match(/Nobody posts|nobody posts|No stream|nor is there|No session|nobody home/);
      assert.ok(error.message.includes(said), error.message);
    }
    await client.finish();
    assert.equal(client.lines.length, 1);
  });
}

scenario("a POST that is taken where there is no stream is told with both attempts", sse, async ({ connect, server }) => {
  server.always(POSTED, (exchange) => exchange.reply(202));
  server.always("GET /sse", (exchange) => exchange.reply(405, TEXT, "no stream here"));
  const client = connect({ options: ["--retries", "0"] });
  const { error } = await initialize(client);
  assert.deepEqual(
    error.data.attempts.map(({ method, httpStatus }) => [method, httpStatus]),
    [
      ["POST", 202],
      ["GET", 405],
    ],
  );
  assert.match(error.message, /POST.*202.*GET.*405.*no stream here/);
  await client.finish();
  assert.equal(client.lines.length, 1);
});
