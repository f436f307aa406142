// One scenario, every shell: runs the same body against the native binary and against the
// component on stock wasmtime, each with a fixture server and clients of its own.

import { test } from "node:test";
import { startServer } from "../fixtures/server.mjs";
import { StdioClient } from "./client.mjs";
import { shells } from "./shells.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 90_000;

/**
 * Options: `start` (the fixture server to start), `server` (its options), `options` and `env` (of the proxy),
 * `on` (the names of the shells it makes sense for), `skip` (a reason), and `login` (false: a proxy that could log in
 * does not, so that all see the server's 401).
 * The body gets {shell, server, connect, open}: `connect` starts a proxy, `open` also shakes hands.
 */
export function scenario(name, options, body) {
  for (const shell of shells.filter(({ name: shellName }) => (options.on ?? [shellName]).includes(shellName))) {
    test(`${name} [${shell.name}]`, { timeout: HUNG_MS, skip: options.skip }, async (t) => {
      const server = await (options.start ?? startServer)(options.server);
      const clients = [];
      t.after(async () => {
        for (const client of clients) client.kill();
        await server.close();
      });
      const login = options.login === false && shell.name === "native" ? ["--oauth-grant", "off"] : [];
      const connect = (extra = {}) => {
        const url = extra.url === undefined ? server.url : extra.url;
        const client = new StdioClient(shell, url, {
          options: [...login, ...(options.options ?? []), ...(extra.options ?? [])],
          env: { ...options.env, ...extra.env },
        });
        clients.push(client);
        return client;
      };
      const open = async (extra = {}) => {
        const client = connect(extra);
        await client.handshake(extra.handshake);
        return client;
      };
      await body({ t, shell, server, connect, open });
    });
  }
}

/** Starts another fixture server, which ends with the test. */
export async function another(t, options, start = startServer) {
  const server = await start(options);
  t.after(() => server.close());
  return server;
}
