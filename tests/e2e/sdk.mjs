// The official SDK's client over its own stdio transport, with a proxy of the given shell as its
// server process: exactly what a desktop application does.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { shells } from "./shells.mjs";

const HUNG_MS = 30_000;

const handlers = [
  [
    CreateMessageRequestSchema,
    ({ params }) => ({
      role: "assistant",
      model: "test",
      content: { type: "text", text: `re: ${params.messages[0].content.text}` },
    }),
  ],
  [ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ada" } })],
  [ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] })],
];

/** Starts a proxy of this shell and connects the SDK's client to it. */
export const connectClient = (shell, url) =>
  connectOver(new StdioClientTransport({ command: shell.command, args: shell.args(url), stderr: "pipe" }));

/**
 * Connects the SDK's client over this transport. `received` has every message as the transport
 * delivered it; `seen` resolves with the first notification of a method that fits.
 */
export async function connectOver(transport) {
  const client = new Client(
    { name: "e2e", version: "1" },
    { capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } } },
  );
  for (const [schema, handle] of handlers) client.setRequestHandler(schema, handle);
  const notifications = collect(client);
  await client.connect(transport);
  const received = [];
  const { onmessage } = transport;
  transport.onmessage = (message) => {
    received.push(message);
    onmessage(message);
  };
  return { client, transport, received, seen: notifications.seen };
}

function collect(client) {
  const past = [];
  const watchers = new Set();
  for (const schema of [
    LoggingMessageNotificationSchema,
    ResourceListChangedNotificationSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema,
  ]) {
    client.setNotificationHandler(schema, (notification) => {
      past.push(notification);
      for (const watcher of [...watchers]) watcher();
    });
  }
  const seen = (method, fits = () => true) =>
    new Promise((resolve) => {
      const attempt = () => {
        const found = past.find((notification) => notification.method === method && fits(notification));
        if (!found) return;
        watchers.delete(attempt);
        resolve(found);
      };
      watchers.add(attempt);
      attempt();
    });
  return { seen };
}

/**
 * A function that registers tests against one server, which is started by the first that runs.
 * Each runs on every shell with a connected client whose GET stream is open; at its end the client
 * is closed and the proxy must have left. `nextListener` of the server says when a GET stream opens.
 */
export function peers(prefix, start) {
  let started;
  after(async () => (await started)?.close());
  return (name, body) => {
    for (const shell of shells) {
      test(`${prefix}: ${name} [${shell.name}]`, { timeout: HUNG_MS }, async (t) => {
        started ??= start();
        const server = await started;
        const listening = server.nextListener();
        const connected = await connectClient(shell, server.url);
        t.after(() => connected.client.close());
        await listening();
        const { pid } = connected.transport;
        await body({ ...connected, server });
        await connected.client.close();
        assert.throws(() => process.kill(pid, 0), { code: "ESRCH" }, "the proxy outlived its client");
      });
    }
  };
}

export const textOf = (result) => result.content[0].text;

/** The progress figures that came in, in order. (The SDK's own callback may miss the last one.) */
export const progressOf = (received) =>
  received.filter(({ method }) => method === "notifications/progress").map(({ params }) => params.progress);
