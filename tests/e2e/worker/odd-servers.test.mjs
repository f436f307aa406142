// Servers that answer with odd bodies, refuse the first POST, or restart while their client only listens. As with the
// stdio shells, a client of the Worker gets one valid answer to each request, and its session goes on.

import assert from "node:assert/strict";
import { startServer } from "../../fixtures/server.mjs";
import { startSdk } from "../processes.mjs";
import { scene } from "./scene.mjs";

const JSON_TYPE = { "content-type": "application/json" };
const TEXT = { "content-type": "text/plain; charset=utf-8" };
const PAGE = { "content-type": "text/html; charset=utf-8" };

const auto = { UPSTREAM_TRANSPORT: "auto" };

// ---- answers that are none of JSON-RPC, or only almost --------------------------------------

const STATUSES = [200, 400, 401, 403, 500];

/** Each as a text in which ID stands for the request's id, and what has to be in the answer. */
const bodies = [
  ['{"error":"invalid_token","error_description":"expired"}', assertQuoted],
  ['{"error":{"message":"no code"}}', assertQuoted],
  ['{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"both"}}', assertKept],
  ['{"jsonrpc":"2.0","id":ID}', assertQuoted],
];

for (const [body, assertTold] of bodies) {
  scene(
    `${body} to a call is one valid answer under every status`,
    { start: startServer, variables: auto },
    async ({ t, server, join }) => {
      const client = await join();
      for (const status of STATUSES) {
        await t.test(`status ${status}`, async () => {
          let sent;
          server.once("POST tools/call", (exchange) => {
            sent = body.replace("ID", JSON.stringify(exchange.message.id));
            exchange.reply(status, JSON_TYPE, sent);
          });
          const id = `odd-${status}`;
          const response = await client.startCall("echo", {}, { id });
          assert.equal(await response.ended(), "ended");
          assertTold(onlyError(response, id), sent);
          const text = `after ${status}`;
          assert.deepEqual((await client.call("echo", { text })).result?.structuredContent, { text });
        });
      }
      assert.equal(server.requests("POST initialize").length, 1, "sessions");
      assert.equal(server.requests("POST tools/call").length, 2 * STATUSES.length, "nothing is sent twice");
      client.verify();
      await client.leave();
    },
  );
}

/** The error in the one message of a response, which a client that checks its messages accepts. */
function onlyError(response, id) {
  assert.equal(response.messages.length, 1, response.text);
  const [answer] = response.messages;
  assert.deepEqual(Object.keys(answer).toSorted(), ["error", "id", "jsonrpc"], response.text);
  assert.deepEqual([answer.jsonrpc, answer.id], ["2.0", id]);
  assert.ok(Number.isInteger(answer.error.code), response.text);
  assert.equal(typeof answer.error.message, "string", response.text);
  return answer.error;
}

/** A person can read how the server's body began. */
function assertQuoted({ message }, sent) {
  assert.ok(message.includes(sent.slice(0, 20)), message);
}

/** The server's own error, although there was a result beside it. */
function assertKept({ code, message }) {
  assert.deepEqual([code, message], [1, "both"]);
}

// ---- refusals that lead to the stream -------------------------------------------------------

/** The Worker's own question about the server's era comes first, and is refused in the same way. */
const DISCOVERED = "POST /sse server/discover";
const POSTED = "POST /sse initialize";
const rpc = (code, message, id = null) => JSON.stringify({ jsonrpc: "2.0", error: { code, message }, id });

/** [who says so, status, headers, body]; a body may be made from the id of the refused request. */
const REFUSALS = [
  ["the TypeScript SDK's examples", 405, JSON_TYPE, rpc(-32000, "Method not allowed.")],
  ["a server that repeats the request's id", 405, JSON_TYPE, (id) => rpc(-32000, "Method not allowed.", id)],
  ["Starlette", 405, { ...TEXT, allow: "GET, HEAD" }, "Method Not Allowed"],
  ["a server with a page", 405, PAGE, "<h1>Method Not Allowed</h1>"],
  ["Express", 404, PAGE, "<pre>Cannot POST /sse</pre>"],
  ["a router that answers in JSON-RPC", 404, JSON_TYPE, rpc(-32000, "Not Found")],
  ["a router that repeats the request's id", 404, JSON_TYPE, (id) => rpc(-32601, "Not found", id)],
  ["a server without words", 404, {}, ""],
  ["a server that takes everything", 202, {}, ""],
];

for (const [who, status, headers, body] of REFUSALS) {
  scene(
    `a POST answered ${status} as by ${who} ends in a session of HTTP+SSE`,
    { variables: auto },
    async ({ server, connect }) => {
      const refuse = (exchange) =>
        exchange.reply(status, headers, typeof body === "function" ? body(exchange.message.id) : body);
      for (const label of [DISCOVERED, POSTED]) server.always(label, refuse);
      const client = connect();
      const opened = await client.open();
      assert.equal(opened.headers["mcp-proxy-upstream"], "http+sse");
      assert.deepEqual((await client.call("echo", { mark: 1 })).result?.structuredContent, { mark: 1 });
      client.verify();
      await client.leave();
      await server.deserted();
      assert.deepEqual(server.labels().slice(0, 4), [DISCOVERED, POSTED, "GET /sse", "POST /messages initialize"]);
      assert.equal(server.requests("POST /messages initialize")[0].body, server.requests(POSTED)[0].body);
      assert.equal(server.log.length, 6, "nothing is sent twice");
    },
  );
}

// ---- a restart while the client only listens ------------------------------------------------

const CHANGED = "notifications/tools/list_changed";
/** Real, and a process of its own: it tells whoever listens that its tools have changed. */
const real = ({ port }) => startSdk("express", port);

scene(
  "a client that only listens hears a server after its restart",
  { start: real, variables: auto },
  async ({ t, server, join }) => {
    const client = await join();
    const listening = await client.listen();
    // The Worker sends a `list_changed` of its own when it reopens a session. The server spells its own differently.
    const announced = await listening.until("the server's words", () =>
      listening.events.map(({ data }) => data).find((data) => data?.includes(CHANGED)),
    );
    await server.close();
    const restarted = await real(server);
    t.after(() => restarted.close());
    const again = () => listening.events.filter(({ data }) => data === announced).length >= 2;
    await listening.until("the server's own words after its restart", again);
    assert.equal((await client.call("echo", { text: "hi" })).result?.content[0].text, "hi");
    assert.equal(restarted.count("session "), 1, restarted.printed());
    assert.equal(listening.over, undefined);
    client.verify();
  },
);
