// Both eras through the proxy, with real software at both ends: the official SDK's clients of both
// generations before a server that speaks only 2026-07-28, and the newer client before the
// reference server "everything", which speaks only earlier revisions.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { steps as everythingSteps } from "./everything.mjs";
import { connect, inPlaceKind, kinds, modernKind } from "./modern-clients.mjs";
import { startModernServer } from "./modern-server.mjs";
import { assertEra, steps } from "./modern-steps.mjs";
import { startEverything } from "./processes.mjs";
import { textOf } from "./sdk.mjs";
import { shells } from "./shells.mjs";

const HUNG_MS = 30_000;

/** Registers a test on every shell. At its end the client is closed, and the proxy must have left. */
function peer(name, { kind, start, capabilities }, body) {
  for (const shell of shells) {
    test(`${kind.name}: ${name} [${shell.name}]`, { timeout: HUNG_MS }, async (t) => {
      const server = await start(t);
      const connected = await connect(kind, shell, server.url, capabilities);
      t.after(() => connected.close());
      const { pid } = connected.transport;
      await body({ ...connected, server });
      assertEra(connected);
      await connected.close();
      assert.throws(() => process.kill(pid, 0), { code: "ESRCH" }, "the proxy outlived its client");
    });
  }
}

// ---- before a modern server -------------------------------------------------------------------

async function startModern(t) {
  const server = await startModernServer();
  t.after(() => server.close());
  return server;
}

for (const kind of kinds)
  for (const { name, body, on = kind.era, capabilities } of steps)
    if (on === kind.era) peer(name, { kind, start: startModern, capabilities }, body);

peer("the process that was probed serves", { kind: inPlaceKind, start: startModern }, async ({ client, server }) => {
  assert.equal(client.getProtocolEra(), "modern");
  assert.equal(textOf(await client.callTool({ name: "two_rounds" })), "Ada from London");
  assert.equal(server.requests("POST server/discover").length, 1);
});

// ---- before a legacy server -------------------------------------------------------------------

/** What a modern client can do with a legacy server; the others need what its era does not have. */
const TRANSLATED = [
  "tools",
  "resources",
  "subscriptions",
  "prompts and completion",
  "progress",
  "sampling inside a call",
  "elicitation inside a call",
  "fifty calls at once",
];

for (const transport of ["streamableHttp", "sse"]) {
  let started;
  after(async () => (await started)?.close());
  const start = () => {
    started ??= startEverything(transport);
    return started;
  };
  const translated = (name, body) =>
    peer(`everything over ${transport}: ${name}`, { kind: modernKind, start }, body);

  for (const name of TRANSLATED) {
    const [, body] = everythingSteps.find(([known]) => known === name) ?? assert.fail(`no step ${name}`);
    translated(name, body);
  }

  translated("the server introduces itself", async ({ client }) => {
    assert.equal(client.getServerVersion().name, "mcp-servers/everything");
    assert.ok(client.getServerCapabilities().tools);
    assert.equal(client.getServerCapabilities().tasks, undefined);
  });

  translated("cancellation, and life after it", async ({ client }) => {
    const controller = new AbortController();
    const call = { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 5 } };
    const options = { signal: controller.signal, onprogress: () => controller.abort("enough") };
    await assert.rejects(client.callTool(call, undefined, options));
    assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
  });
}
