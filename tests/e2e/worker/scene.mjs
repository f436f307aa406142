// What most tests of the Worker begin with: a server, of HTTP+SSE unless the test says otherwise, the
// Worker before it, and clients. All of it ends with the test.

import assert from "node:assert/strict";
import { test } from "node:test";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { WireClient } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 90_000;

/** Whatever is called does not matter to these tests, so everybody may come in. */
export const open = { PUBLIC: "1", ALLOW_HTTP: "1", UPSTREAM_TRANSPORT: "sse" };

/**
 * Options: `start` (the fixture server to start), `server` (its options), `named` (the names of more
 * servers, for UPSTREAMS, which is a table with `isTable`, else text), `query` (of UPSTREAM_URL), `lasts`
 * (milliseconds that the test takes by its nature, beside what any test may take), `variables`, and
 * those of the Worker.
 * The body gets {t, server, others, worker, connect, join}: `connect` makes a client, `join` also shakes hands.
 */
export function scene(name, options, body) {
  const { start = startSseServer, server: settings, named: names = [], isTable = false, ...more } = options;
  const { query = "", lasts = 0, variables, ...own } = more;
  test(name, { timeout: HUNG_MS + lasts }, async (t) => {
    const [server, ...others] = await Promise.all(["", ...names].map(() => start({ lasts, ...settings })));
    t.after(() => Promise.all([server, ...others].map((each) => each.close())));
    const urls = Object.fromEntries(names.map((name, at) => [name, others[at].url]));
    const several = { UPSTREAMS: isTable ? urls : JSON.stringify(urls) };
    const upstream = names.length > 0 ? several : { UPSTREAM_URL: server.url + query };
    const worker = await startWorker({ ...upstream, ...open, ...variables }, own);
    t.after(() => worker.stop());
    const clients = [];
    t.after(() => clients.forEach((client) => client.responses.forEach((response) => response.drop())));
    const connect = (extra = {}) => {
      const client = new WireClient(worker, extra);
      clients.push(client);
      return client;
    };
    const join = async (extra = {}) => {
      const client = connect(extra);
      await client.open(extra.handshake);
      return client;
    };
    await body({ t, server, others, worker, connect, join });
  });
}

/** A session with a little of everything, from its beginning to its end. */
export async function converse(server, client) {
  await client.open();
  const listening = await client.listen();
  assert.deepEqual((await client.call("echo", { text: "größer 👋" })).result.structuredContent, { text: "größer 👋" });
  const slow = await client.startCall("progress", { steps: 3 }, { token: "t" });
  assert.equal(await slow.ended(), "ended");
  const steps = slow.messages.filter(({ method }) => method === "notifications/progress");
  assert.deepEqual(
    steps.map(({ params }) => params.progress),
    [1, 2, 3],
  );
  const asking = await client.startCall("ask", { requests: [{ method: "ping" }] });
  const { id } = await asking.message("a question", ({ method }) => method === "ping");
  assert.equal((await client.post({ id, result: {} })).status, 202);
  assert.equal(await asking.ended(), "ended");
  server.push({ jsonrpc: "2.0", method: "notifications/tools/list_changed" });
  await listening.notification("notifications/tools/list_changed");
  client.verify();
  await client.leave();
  assert.equal(await listening.ended(), "ended");
  await server.deserted();
}
