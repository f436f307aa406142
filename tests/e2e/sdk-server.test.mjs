// Real peers: the official SDK's stdio client, and a server on the SDK's second generation.

import assert from "node:assert/strict";
import { startSdkServer } from "../fixtures/sdk-server.mjs";
import { progressOf, textOf, peers } from "./sdk.mjs";

/** The session of the newest client. */
const newest = (server) => [...server.sessions.values()].at(-1);

const peer = peers("SDK v2 server", async () => {
  const server = await startSdkServer();
  return { ...server, nextListener: () => () => newest(server).listening };
});

peer("tools, resources and prompts", async ({ client }) => {
  const { tools } = await client.listTools();
  assert.ok(tools.some(({ name }) => name === "echo"));
  assert.equal(textOf(await client.callTool({ name: "echo", arguments: { text: "größer 👋" } })), "größer 👋");
  assert.equal((await client.listResources()).resources[0].uri, "test://motto");
  assert.equal((await client.readResource({ uri: "test://motto" })).contents[0].text, "as above, so below");
  assert.equal((await client.listResourceTemplates()).resourceTemplates[0].uriTemplate, "test://item/{n}");
  assert.equal((await client.readResource({ uri: "test://item/3" })).contents[0].text, "item 3");
  assert.equal((await client.listPrompts()).prompts[0].name, "visit");
  const { messages } = await client.getPrompt({ name: "visit", arguments: { city: "Rome" } });
  assert.equal(messages[0].content.text, "Visit Rome");
});

peer("completion and ping", async ({ client }) => {
  const { completion } = await client.complete({
    ref: { type: "ref/prompt", name: "visit" },
    argument: { name: "city", value: "P" },
  });
  assert.deepEqual(completion.values, ["Paris", "Prague"]);
  assert.deepEqual(await client.ping(), {});
});

peer("2025-11-25 is negotiated and sent on", async ({ client, server }) => {
  await client.ping();
  assert.ok(server.versions.has("2025-11-25"));
});

peer("progress, in order", async ({ client, received }) => {
  await client.callTool({ name: "progress", arguments: { steps: 20 } }, undefined, { onprogress: () => {} });
  assert.deepEqual(
    progressOf(received),
    Array.from({ length: 20 }, (_, n) => n + 1),
  );
});

peer("logging", async ({ client, seen }) => {
  await client.setLoggingLevel("info");
  await client.callTool({ name: "log", arguments: { text: "noted" } });
  assert.equal((await seen("notifications/message")).params.data, "noted");
});

peer("sampling over the GET stream during a call", async ({ client }) => {
  assert.equal(textOf(await client.callTool({ name: "sample", arguments: { prompt: "hi" } })), "sampled re: hi");
});

peer("elicitation inside a call", async ({ client }) => {
  assert.equal(textOf(await client.callTool({ name: "elicit", arguments: {} })), "accept Ada");
});

peer("an answer that has to be fetched after the stream was closed", async ({ client }) => {
  assert.equal(textOf(await client.callTool({ name: "poll", arguments: {} })), "after the pause");
});

peer("list_changed", async ({ client, seen }) => {
  await client.callTool({ name: "grow", arguments: { name: "sprout" } });
  await seen("notifications/tools/list_changed");
  assert.ok((await client.listTools()).tools.some(({ name }) => name === "sprout"));
  assert.equal(textOf(await client.callTool({ name: "sprout", arguments: {} })), "I am sprout");
});

peer("cancellation", async ({ client, seen, server }) => {
  const controller = new AbortController();
  const call = client.callTool({ name: "wait", arguments: {} }, undefined, { signal: controller.signal });
  await seen("notifications/message");
  controller.abort("enough");
  await assert.rejects(call);
  // The answer to a later ping proves nothing about the order of POSTs, so ask until it is there.
  while (newest(server).cancelled === 0) await client.ping();
  assert.equal(newest(server).cancelled, 1);
});

peer("fifty calls at once", async ({ client }) => {
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, n) => client.callTool({ name: "echo", arguments: { text: `call ${n}` } })),
  );
  assert.deepEqual(
    results.map(textOf),
    Array.from({ length: 50 }, (_, n) => `call ${n}`),
  );
});

peer("an error of the server", async ({ client }) => {
  await assert.rejects(client.readResource({ uri: "test://nowhere" }), ({ code }) => code < 0);
});

peer("the session is closed with the client", async ({ client, server }) => {
  const session = newest(server);
  await client.close();
  assert.ok(session.closed);
});
