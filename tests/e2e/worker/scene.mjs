// What most tests of the Worker begin with: a server, of HTTP+SSE unless the test says otherwise, the
// Worker before it, and clients. All of it ends with the test.

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
 * servers, for UPSTREAMS), `query` (of UPSTREAM_URL), `variables`, `bundle` and `most` (of the Worker),
 * `lasts` (milliseconds that the test takes by its nature, beside what any test may take).
 * The body gets {t, server, others, worker, connect, join}: `connect` makes a client, `join` also shakes hands.
 */
export function scene(name, options, body) {
  const { start = startSseServer, query = "", lasts = 0 } = options;
  test(name, { timeout: HUNG_MS + lasts }, async (t) => {
    const names = options.named ?? [];
    const launch = () => start({ lasts, ...options.server });
    const [server, ...others] = await Promise.all(["", ...names].map(launch));
    t.after(() => Promise.all([server, ...others].map((each) => each.close())));
    const urls = Object.fromEntries(names.map((name, at) => [name, others[at].url]));
    const upstream = options.named ? { UPSTREAMS: JSON.stringify(urls) } : { UPSTREAM_URL: server.url + query };
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
