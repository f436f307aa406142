// A client, or whoever runs the proxy, ends it in the middle of a call. The proxy answers what is open, ends the
// session at the server, and leaves before anybody loses patience; a second signal needs no reasons.

import assert from "node:assert/strict";
import { once } from "node:events";
import { scenario } from "./scenario.mjs";
import { connectClient } from "./sdk.mjs";

/** Longer than anybody waits here: what ends before has not waited for the drain. */
const PATIENT = ["--drain-timeout", "10m"];
const NUMBERS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };
const signals = Object.keys(NUMBERS);

/** Signals are the native runner's: of a stock wasmtime the component hears none. */
const ending = (name, options, body) =>
  scenario(name, { on: ["native"], skip: process.platform === "win32" && "no signals", ...options }, body);

ending("the SDK's client closes in the middle of a call, and needs no SIGKILL", {}, async ({ shell, server }) => {
  const { client, transport } = await connectClient(shell, server.url);
  const ended = once(transport._process, "close");
  const failed = assert.rejects(client.callTool({ name: "never", arguments: {} }));
  await server.seen("POST tools/call");
  await client.close();
  assert.deepEqual(await ended, [0, null]);
  await failed;
  assert.equal(server.requests("DELETE").length, 1);
});

for (const signal of signals) {
  ending(`${signal} during the drain answers the open call`, { options: PATIENT }, async ({ open, server }) => {
    const client = await open();
    const answer = client.call("never", {}, "open");
    await server.seen("POST tools/call");
    client.eof();
    await draining(client, server);
    client.child.kill(signal);
    assert.ok((await answer).error);
    await assertClosed(client, server);
  });

  ending(`${signal} answers the open call and says why`, { options: PATIENT }, async ({ open, server }) => {
    const client = await open();
    const answer = client.call("never", {}, "open");
    await server.seen("POST tools/call");
    client.child.kill(signal);
    const { error } = await answer;
    assert.match(error.message, /told to stop/);
    assert.doesNotMatch(error.message, /closed its side/);
    assert.equal(error.data.delivered, "maybe");
    await assertClosed(client, server);
  });

  ending(`${signal} with nothing open ends the session`, {}, async ({ open, server }) => {
    const client = await open();
    client.child.kill(signal);
    await assertClosed(client, server);
  });

  ending(`${signal} at a server that never confirms the end is the end all the same`, {}, async ({ open, server }) => {
    server.always("DELETE", () => {});
    const client = await open();
    client.child.kill(signal);
    await assertClosed(client, server);
  });

  ending(`a second ${signal} does not wait for the server`, {}, async ({ open, server }) => {
    server.always("DELETE", () => {});
    const client = await open();
    client.child.kill(signal);
    await server.seen("DELETE");
    client.child.kill(signal);
    assert.deepEqual(await client.exit(), { code: 128 + NUMBERS[signal], signal: null }, client.stderr);
    client.verify();
  });
}

ending("SIGTERM during the handshake answers it", {}, async ({ connect, server }) => {
  server.always("POST initialize", () => {});
  const client = connect();
  const answer = client.request("initialize", { protocolVersion: "2025-11-25", capabilities: {} });
  await server.seen("POST initialize");
  client.child.kill("SIGTERM");
  assert.match((await answer).error.message, /told to stop/);
  assert.deepEqual(await client.exit(), { code: 0, signal: null }, client.stderr);
  client.verify();
  assert.deepEqual(server.labels(), ["POST initialize"]);
});

ending("of two signals the second names the exit code", {}, async ({ open, server }) => {
  server.always("DELETE", () => {});
  const client = await open();
  client.child.kill("SIGTERM");
  await server.seen("DELETE");
  client.child.kill("SIGINT");
  assert.deepEqual(await client.exit(), { code: 130, signal: null }, client.stderr);
});

scenario("a server that never confirms the end keeps nobody after stdin has ended", {}, async ({ open, server }) => {
  server.always("DELETE", () => {});
  const client = await open();
  await client.finish();
  assert.equal(server.requests("DELETE").length, 1);
});

/** The process left by itself, everything was answered once, and the session was ended once. */
async function assertClosed(client, server) {
  assert.deepEqual(await client.exit(), { code: 0, signal: null }, client.stderr);
  client.verify();
  assert.equal(server.requests("DELETE").length, 1);
}

/** Resolves when the proxy has seen the end of stdin: from then on it answers the server in the client's place. */
async function draining(client, server) {
  await server.listening();
  for (let n = 1; n <= 1000; n += 1) {
    const asked = client.until(`question ${n}, or its answer`, () => questions(client) >= n).then(() => false);
    const answered = server.pushAsk("roots/list").then(({ error }) => error !== undefined);
    if (await Promise.race([asked, answered])) return;
  }
  throw new Error("the proxy does not see the end of stdin");
}

const questions = (client) => client.messages.filter(({ method }) => method === "roots/list").length;
