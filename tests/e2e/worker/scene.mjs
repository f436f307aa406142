// What most tests of the Worker begin with: a server of HTTP+SSE, the Worker before it, and clients.
// All of it ends with the test.

import { test } from "node:test";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { WireClient } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 90_000;

/** Whatever is called does not matter to these tests, so everybody may come in. */
export const open = { PUBLIC: "1", ALLOW_HTTP: "1", UPSTREAM_TRANSPORT: "sse" };

/**
 * Options: `server` (of the fixture server), `named` (the names of more servers, for UPSTREAMS),
 * `variables`, `bundle` and `most` (of the Worker).
 * The body gets {t, server, others, worker, connect, join}: `connect` makes a client, `join` also shakes hands.
 */
export function scene(name, options, body) {
  test(name, { timeout: HUNG_MS }, async (t) => {
    const names = options.named ?? [];
    const [server, ...others] = await Promise.all(["", ...names].map(() => startSseServer(options.server)));
    t.after(() => Promise.all([server, ...others].map((each) => each.close())));
    const urls = Object.fromEntries(names.map((name, at) => [name, others[at].url]));
    const upstream = options.named ? { UPSTREAMS: JSON.stringify(urls) } : { UPSTREAM_URL: server.url };
    const variables = { ...upstream, ...open, ...options.variables };
    const worker = await startWorker(variables, { bundle: options.bundle, most: options.most });
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
