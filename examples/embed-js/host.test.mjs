// The example with real peers: the official SDK's stdio client starts `node host.mjs URL`, and
// behind the URL is the reference server "everything", on either transport, or a server of
// 2026-07-28. The clients are of both eras too.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { StdioClient } from "../../tests/e2e/client.mjs";
import * as modern from "../../tests/e2e/modern-clients.mjs";
import { startModernServer } from "../../tests/e2e/modern-server.mjs";
import { assertEra } from "../../tests/e2e/modern-steps.mjs";
import { startEverything } from "../../tests/e2e/processes.mjs";
import { connectClient, progressOf, textOf } from "../../tests/e2e/sdk.mjs";
import { startServer } from "../../tests/fixtures/server.mjs";

const host = fileURLToPath(new URL("host.mjs", import.meta.url));
/** The reader's own Node.js, whatever runs the tests. */
const shell = { command: "node", args: (url) => [host, url] };
const patience = { timeout: 30_000 };

/** A client at the level of lines; what it started does not outlive the test. */
function lines(t, url) {
  const client = new StdioClient(shell, url);
  t.after(() => client.kill());
  return client;
}

for (const transport of ["streamableHttp", "sse"]) {
  let started;
  const everything = () => (started ??= startEverything(transport));
  after(async () => (await started)?.close());

  test(`${transport}: a session of the SDK's client`, patience, async (t) => {
    const { client, received } = await connectClient(shell, (await everything()).url);
    t.after(() => client.close());
    assert.ok((await client.listTools()).tools.length > 10);
    assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
    const slow = { name: "trigger-long-running-operation", arguments: { duration: 0.4, steps: 4 } };
    await client.callTool(slow, undefined, { onprogress: () => {} });
    assert.deepEqual(progressOf(received), [1, 2, 3, 4]);
  });

  test(`${transport}: a cancelled call, and life after it`, patience, async (t) => {
    const { client } = await connectClient(shell, (await everything()).url);
    t.after(() => client.close());
    const controller = new AbortController();
    const slow = { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 5 } };
    const options = { signal: controller.signal, onprogress: () => controller.abort("enough") };
    await assert.rejects(client.callTool(slow, undefined, options));
    assert.deepEqual(await client.ping(), {});
  });

  test(`${transport}: what is open when the client closes its side is answered first`, patience, async (t) => {
    const client = lines(t, (await everything()).url);
    await client.handshake();
    const answer = client.call("trigger-long-running-operation", { duration: 0.5, steps: 1 });
    await client.finish();
    assert.match(textOf((await answer).result), /completed/);
  });
}

for (const kind of modern.kinds)
  test(`a modern server: a session of a ${kind.name}`, patience, async (t) => {
    const server = await startModernServer();
    t.after(() => server.close());
    const connected = await modern.connect(kind, shell, server.url);
    const { client, received } = connected;
    t.after(() => connected.close());
    assert.ok((await client.listTools()).tools.some(({ name }) => name === "echo"));
    const slow = { name: "slow", arguments: { steps: 3 } };
    assert.equal(textOf(await client.callTool(slow, undefined, { onprogress: () => {} })), "3 steps");
    assert.deepEqual(progressOf(received), [1, 2, 3]);
    assert.equal(textOf(await client.callTool({ name: "two_rounds", arguments: {} })), "Ada from London");
    assertEra(connected);
  });

for (const transport of ["streamableHttp", "sse"])
  test(`${transport}: a session of a modern client`, patience, async (t) => {
    const server = await startEverything(transport);
    t.after(() => server.close());
    const connected = await modern.connect(modern.modernKind, shell, server.url);
    const { client } = connected;
    t.after(() => connected.close());
    assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
    const asked = await client.callTool({ name: "trigger-elicitation-request", arguments: {} });
    assert.match(JSON.stringify(asked), /Name: Ada/);
    assertEra(connected);
  });

test("a server that is not there: an answer, and exit 0", patience, async (t) => {
  const server = await startServer();
  await server.close();
  const client = lines(t, server.url);
  const { error } = await client.request("initialize", {});
  assert.match(error.message, /refused/);
  assert.equal(error.data.delivered, "no");
  await client.finish();
});

test("a redirect is the machine's business", patience, async (t) => {
  const server = await startServer();
  t.after(() => server.close());
  server.once("POST initialize", (exchange) => exchange.reply(307, { location: `${server.url}?moved` }));
  const client = lines(t, server.url);
  await client.handshake();
  assert.deepEqual(server.requests("POST initialize").map(({ url }) => url), ["/mcp", "/mcp?moved"]);
  await client.finish();
});

test("a wrong URL is a usage error", patience, async (t) => {
  const client = lines(t, "ftp://nowhere");
  assert.deepEqual(await client.exited, { code: 2, signal: null });
  assert.match(client.stderr, /usage/);
});
