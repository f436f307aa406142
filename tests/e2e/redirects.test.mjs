// Redirects: which are followed, with which method, and where the session goes on afterwards. What is not
// followed is an error that names the place, so that the user can give its URL.

import assert from "node:assert/strict";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { another, scenario } from "./scenario.mjs";

const REDIRECTS = [301, 302, 303, 307, 308];
const SECRET = "r3direct-s3cret";
const credentials = ["--header", `Authorization:Bearer ${SECRET}`];

const PARAMS = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
const initialize = (client) => client.request("initialize", PARAMS);

const sse = { start: startSseServer };

/** The same exchange, as if it had come to `path`. */
const at = (exchange, path) => Object.assign(Object.create(exchange), { entry: { ...exchange.entry, path } });

/** A server that is at every path. */
function everywhere(server) {
  const dispatch = server.dispatch.bind(server);
  server.dispatch = (exchange) => dispatch(at(exchange, "/mcp"));
}

/** Redirects what comes to `from` and leaves the rest to the server. */
const redirect = (server, status, from, to) => (exchange) =>
  exchange.entry.path === from ? exchange.reply(status, { location: to }) : server.dispatch(exchange);

const urls = (server, method) => server.log.filter((entry) => entry.method === method).map(({ url }) => url);

/** One error that says where to go, about a request that was not carried out. */
function assertNamed(error, target) {
  assert.equal(error.code, -32000);
  assert.ok(error.message.includes(target), error.message);
  assert.match(error.message, /\bURL\b/);
  assert.deepEqual([error.data.delivered, error.data.retrySafe], ["no", true]);
}

// ---- a GET ----------------------------------------------------------------------------------

for (const status of REDIRECTS) {
  scenario(`a listening GET follows a ${status}, and messages stay where they were`, {}, async ({ open, server }) => {
    everywhere(server);
    server.always("GET", redirect(server, status, "/mcp", "/listen?here=1"));
    const client = await open({ options: credentials });
    await server.listening();
    server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
    await client.message("what the stream brings", ({ method }) => method === "notifications/tools/list_changed");
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.deepEqual(urls(server, "GET"), ["/mcp", "/listen?here=1"]);
    assert.deepEqual(new Set(urls(server, "POST")), new Set(["/mcp"]));
    assert.deepEqual(urls(server, "DELETE"), ["/mcp"]);
    const [asked, listened] = server.requests("GET").map(({ headers }) => headers);
    for (const name of ["authorization", "mcp-session-id", "accept"]) assert.equal(listened[name], asked[name], name);
  });

  scenario(`the GET of an HTTP+SSE stream follows a ${status}`, sse, async ({ open, server }) => {
    server.always("GET /sse", (exchange) => exchange.reply(status, { location: "/events" }));
    server.always("GET /events", (exchange) => server.dispatch(at(exchange, "/sse")));
    const client = await open({ options: credentials });
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.deepEqual(server.labels().slice(0, 4), [
      "POST /sse initialize",
      "GET /sse",
      "GET /events",
      "POST /messages initialize",
    ]);
    assert.equal(server.requests("GET /events")[0].headers.authorization, `Bearer ${SECRET}`);
  });

  scenario(`a listening GET does not follow a ${status} to another origin`, {}, async ({ t, open, server }) => {
    const foreign = await another(t);
    server.always("GET", (exchange) => exchange.reply(status, { location: foreign.url }));
    const client = await open({ options: credentials });
    await server.seen("GET");
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.deepEqual(foreign.log, []);
  });

  scenario(
    `the GET of an HTTP+SSE stream does not follow a ${status} to another origin, which the error names`,
    sse,
    async ({ t, connect, server }) => {
      const foreign = await another(t, {}, startSseServer);
      server.always("GET /sse", (exchange) => exchange.reply(status, { location: foreign.url }));
      for (const options of [[], ["--transport", "sse"]]) {
        const client = connect({ options: ["--retries", "0", ...credentials, ...options] });
        assertNamed((await initialize(client)).error, foreign.url);
        await client.finish();
      }
      assert.deepEqual(foreign.log, []);
    },
  );
}

scenario("a listening GET that is redirected in a circle ends, and the session goes on", {}, async ({ open, server }) => {
  everywhere(server);
  server.always("GET", (exchange) => exchange.reply(302, { location: exchange.entry.path === "/a" ? "/b" : "/a" }));
  const client = await open();
  await server.seen("GET", 3);
  assert.ok((await client.call("echo")).result);
  await client.finish();
  assert.ok(server.requests("GET").length < 50);
});

scenario("an HTTP+SSE stream that is redirected in a circle is one error", sse, async ({ connect, server }) => {
  server.always("GET /sse", (exchange) => exchange.reply(302, { location: "/events" }));
  server.always("GET /events", (exchange) => exchange.reply(302, { location: "/sse" }));
  const client = connect({ options: ["--retries", "0"] });
  const { error } = await initialize(client);
  assert.equal(error.data.delivered, "no");
  await client.finish();
  assert.equal(client.lines.length, 1);
  assert.ok(server.log.length < 50);
});

// ---- a POST that is followed ----------------------------------------------------------------

/** The first message is sent on from one path to another; the session is at the second. */
async function assertMoved({ open, server }, status, from, to, location = to) {
  everywhere(server);
  server.always("POST initialize", redirect(server, status, new URL(from, server.origin).pathname, location));
  const client = await open({ url: `${server.origin}${from}`, options: credentials });
  await server.listening();
  for (let n = 0; n < 3; n += 1) assert.ok((await client.call("echo")).result);
  await client.finish();
  const posted = urls(server, "POST");
  assert.deepEqual(posted.slice(0, 2), [from, to]);
  assert.deepEqual(new Set(posted.slice(1)), new Set([to]), "later messages go there directly");
  assert.equal(posted.length, 6);
  const [asked, moved] = server.requests("POST initialize");
  assert.equal(moved.body, asked.body);
  for (const name of ["authorization", "content-type", "accept"]) assert.equal(moved.headers[name], asked.headers[name]);
}

for (const status of [307, 308]) {
  scenario(`a POST follows a ${status} within the origin, and the session is there`, {}, (scene) =>
    assertMoved(scene, status, "/mcp", "/elsewhere?v=2"),
  );
}

for (const status of [301, 302, 307, 308]) {
  for (const [from, to] of [
    ["/mcp", "/mcp/"],
    ["/mcp/", "/mcp"],
    ["/mcp?v=2", "/mcp/?v=2"],
  ]) {
    scenario(`a POST follows a ${status} from ${from} to ${to} and stays a POST`, {}, (scene) =>
      assertMoved(scene, status, from, to),
    );
  }

  scenario(`a POST follows a ${status} to its own URL with a slash, written in full`, {}, (scene) =>
    assertMoved(scene, status, "/mcp", "/mcp/", `${scene.server.origin}/mcp/`),
  );

  scenario(`a call in a session follows a ${status} to the same place with a slash`, {}, async ({ open, server }) => {
    everywhere(server);
    const client = await open();
    server.always("POST tools/call", redirect(server, status, "/mcp", "/mcp/"));
    for (const mark of [1, 2]) {
      const { result, error } = await client.call("echo", { mark });
      assert.deepEqual(result?.structuredContent, { mark }, error?.message);
    }
    await client.finish();
    const calls = server.requests("POST tools/call");
    assert.deepEqual(
      calls.map(({ url }) => url),
      ["/mcp", "/mcp/", "/mcp/"],
    );
    assert.equal(calls[1].body, calls[0].body);
    assert.equal(calls[1].headers["mcp-session-id"], calls[0].headers["mcp-session-id"]);
  });

  scenario(
    `an HTTP+SSE server that wants its slashes has its session (${status})`,
    { start: startSseServer, server: { postToStream: { status: 405, body: "Method Not Allowed" } } },
    async ({ open, server }) => {
      const slashed = (label, path) => {
        server.always(label, (exchange) => exchange.reply(status, { location: `${path}/${exchange.req.url.slice(path.length)}` }));
      };
      slashed("POST /sse initialize", "/sse");
      slashed("GET /sse", "/sse");
      for (const method of ["initialize", "notifications/initialized", "tools/call"]) {
        slashed(`POST /messages ${method}`, "/messages");
        server.always(`POST /messages/ ${method}`, (exchange) => server.dispatch(at(exchange, "/messages")));
      }
      server.always("POST /sse/ initialize", (exchange) => server.dispatch(at(exchange, "/sse")));
      server.always("GET /sse/", (exchange) => server.dispatch(at(exchange, "/sse")));
      const client = await open();
      assert.ok((await client.call("echo")).result);
      await client.finish();
      assert.equal(server.requests("POST /messages/ tools/call").length, 1);
    },
  );
}

// ---- a POST that is not ---------------------------------------------------------------------

for (const status of [301, 302, 303]) {
  scenario(`a first POST does not follow a ${status} to another path, which the error names`, {}, async (scene) => {
    const { connect, server } = scene;
    everywhere(server);
    server.always("POST initialize", redirect(server, status, "/mcp", "/elsewhere"));
    const client = connect();
    assertNamed((await initialize(client)).error, `${server.origin}/elsewhere`);
    await client.finish();
    assert.deepEqual(
      server.log.map(({ method, url }) => [method, url]),
      [["POST", "/mcp"]],
    );
    assert.equal(client.lines.length, 1);
  });

  scenario(`a call does not follow a ${status} to another path, and the session goes on`, {}, async (scene) => {
    const { open, server } = scene;
    everywhere(server);
    const client = await open();
    for (const path of ["/elsewhere", "/mcp/more", "/"]) {
      server.once("POST tools/call", (exchange) => exchange.reply(status, { location: path }));
      assertNamed((await client.call("echo")).error, `${server.origin}${path}`);
    }
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.deepEqual(new Set(urls(server, "POST")), new Set(["/mcp"]));
    assert.equal(server.requests("POST tools/call").length, 4);
  });
}

for (const status of REDIRECTS) {
  scenario(`a POST does not follow a ${status} to another origin, which the error names`, {}, async (scene) => {
    const { t, open, connect, server } = scene;
    const foreign = await another(t);
    const client = await open({ options: credentials });
    for (const target of [
      `${foreign.origin}/elsewhere/mcp`,
      `${foreign.origin}/mcp`,
      `${foreign.origin}/mcp/`,
      `https://127.0.0.1:${server.port}/mcp`,
    ]) {
      server.once("POST tools/call", (exchange) => exchange.reply(status, { location: target }));
      assertNamed((await client.call("echo")).error, target);
    }
    assert.ok((await client.call("echo")).result);
    await client.finish();
    server.once("POST initialize", (exchange) => exchange.reply(status, { location: `${foreign.origin}/first` }));
    const second = connect({ options: credentials });
    assertNamed((await initialize(second)).error, `${foreign.origin}/first`);
    await second.finish();
    assert.deepEqual(foreign.log, []);
  });
}

// ---- circles --------------------------------------------------------------------------------

for (const status of [301, 302, 307, 308]) {
  scenario(`a POST that a ${status} sends round in a circle is one error: not delivered`, {}, async ({ open, server }) => {
    everywhere(server);
    const client = await open();
    const stop = server.always("POST tools/call", (exchange) =>
      exchange.reply(status, { location: exchange.entry.path === "/mcp" ? "/mcp/" : "/mcp" }),
    );
    const { error } = await client.call("echo");
    assert.equal(error.code, -32000);
    assert.deepEqual([error.data.delivered, error.data.retrySafe], ["no", true], JSON.stringify(error));
    assert.ok(server.requests("POST tools/call").length < 50);
    stop();
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(server.log.at(-1).url, "/mcp", "a place that never answered is not remembered");
  });
}
