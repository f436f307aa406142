// Servers of Streamable HTTP behind the Worker: found out or named by the operator, they serve the same
// clients in the same way.

import assert from "node:assert/strict";
import { startServer } from "../../fixtures/server.mjs";
import { scene } from "./scene.mjs";

const CALL = "POST tools/call";

for (const transport of ["auto", "streamable-http"]) {
  scene(
    `${transport}: a session with a server of Streamable HTTP`,
    { start: startServer, variables: { UPSTREAM_TRANSPORT: transport } },
    async ({ server, connect }) => {
      const client = connect();
      const opened = await client.open();
      assert.equal(opened.headers["mcp-proxy-upstream"], "streamable-http");
      const { result } = await client.call("echo", { text: "hello" });
      assert.equal(result.structuredContent.text, "hello");
      await makesProgress(client);
      await isAsked(client);
      await listens(client, server);
      client.verify();
      assert.equal(server.requests("POST initialize").length, 1);
      await leaves(client, server);
    },
  );
}

async function makesProgress(client) {
  const call = await client.startCall("progress", { steps: 4 }, { id: "slow", token: "t" });
  assert.equal((await call.answer("slow")).result.content[0].text, "4 steps");
  const told = call.messages.filter(({ method }) => method === "notifications/progress");
  assert.deepEqual(
    told.map(({ params }) => [params.progressToken, params.progress]),
    [1, 2, 3, 4].map((step) => ["t", step]),
  );
}

/** The server asks inside a call, and gets the client's answer. */
async function isAsked(client) {
  const requests = [{ method: "sampling/createMessage", params: { about: "why" } }];
  const call = await client.startCall("ask", { requests }, { id: "asking" });
  const question = await call.message("a question", ({ method }) => method === "sampling/createMessage");
  assert.deepEqual(question.params, { about: "why" });
  assert.equal((await client.post({ id: question.id, result: { because: "so" } })).status, 202);
  const { result } = await call.answer("asking");
  assert.deepEqual(result.structuredContent.answers[0].result, { because: "so" });
}

/** What the server says unasked reaches the client, too. */
async function listens(client, server) {
  const listening = await client.listen();
  await server.listening();
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  await listening.notification("notifications/tools/list_changed");
}

/** With the client's session ends the one of the server. */
async function leaves(client, server) {
  const session = server.requests(CALL)[0].headers["mcp-session-id"];
  assert.notEqual(session, client.session);
  await client.leave();
  const { headers } = await server.seen("DELETE");
  assert.equal(headers["mcp-session-id"], session);
  assert.equal((await client.startCall("echo")).status, 404);
  const { status } = await fetch(server.url, { headers: { "mcp-session-id": session } });
  assert.equal(status, 404, "the server has forgotten it");
}
