// Real peers on both sides of the Worker: the official SDKs' clients over Streamable HTTP, as they are
// installed, and whatever server a test wants.

import { execFile } from "node:child_process";
import { after } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { python } from "../processes.mjs";
import { connectOver } from "../sdk.mjs";
import { startWorker } from "./workerd.mjs";

/** A hung test is a failed test; nothing here measures speed. */
export const HUNG_MS = 60_000;
const MIB = 1024 * 1024;

/** Room for the biggest messages of the scenario, which are over the Worker's own limits. */
const variables = {
  PUBLIC: "1",
  ALLOW_HTTP: "1",
  MAX_BODY_BYTES: String(16 * MIB),
  MAX_EVENT_BYTES: String(16 * MIB),
};

/** A server and the Worker before it, started by the first test that asks. */
export function front(start) {
  let started;
  after(async () => {
    const { worker, server } = (await started) ?? {};
    await worker?.stop();
    await server?.close();
  });
  const launch = async () => {
    const server = await start();
    return { server, worker: await startWorker({ UPSTREAM_URL: server.url, ...variables }) };
  };
  return () => (started ??= launch());
}

/** The same for one test: nobody else is there, and both end with it. */
export async function alone(t, start = startSseServer, more = {}) {
  const server = await start();
  t.after(() => server.close());
  const worker = await startWorker({ UPSTREAM_URL: server.url, ...variables, ...more });
  t.after(() => worker.stop());
  return { server, worker };
}

/**
 * Connects the TypeScript SDK's client. `exchanges` has its HTTP requests, each with the message that it has sent
 * and with the status of the response once there is one; `exchanged` resolves with the first that fits.
 */
export async function connect(t, url) {
  const { fetch, exchanges, exchanged } = watchedFetch();
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { fetch });
  const connected = await connectOver(transport);
  t.after(() => connected.client.close());
  return { ...connected, exchanges, exchanged };
}

/** What a client may use in place of `fetch`, so that a test sees what it asks for. */
export function watchedFetch() {
  const exchanges = [];
  const watchers = new Set();
  const watch = async (input, init) => {
    const last = new Headers(init.headers).get("last-event-id");
    const exchange = { method: init.method, last, message: init.body && JSON.parse(init.body) };
    exchanges.push(exchange);
    const response = await fetch(input, init);
    exchange.status = response.status;
    for (const watcher of [...watchers]) watcher();
    return response;
  };
  const exchanged = (fits) =>
    new Promise((resolve) => {
      const attempt = () => exchanges.some(fits) && resolve(watchers.delete(attempt));
      watchers.add(attempt);
      attempt();
    });
  return { fetch: watch, exchanges, exchanged };
}

/** The Python SDK's client plays this part (see client.py); resolves with what it has seen. */
export async function playPython(t, part, url) {
  const script = fileURLToPath(new URL("../../fixtures/python/client.py", import.meta.url));
  const { stdout } = await promisify(execFile)(python, [script, part, `${url}/mcp`], { signal: t.signal });
  return JSON.parse(stdout);
}
