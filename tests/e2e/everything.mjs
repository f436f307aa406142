// What the official SDK's client does with the reference server "everything", however it reaches it.

import assert from "node:assert/strict";
import { progressOf, textOf } from "./sdk.mjs";

/** Each as [name, body]; a body gets what `connectClient` resolves with. */
export const steps = [];

const step = (name, body) => steps.push([name, body]);

step("tools", async ({ client }) => {
  const { tools } = await client.listTools();
  assert.ok(tools.length > 10);
  assert.equal(textOf(await client.callTool({ name: "echo", arguments: { message: "hi" } })), "Echo: hi");
  assert.match(textOf(await client.callTool({ name: "get-sum", arguments: { a: 2, b: 40 } })), /42/);
  const image = await client.callTool({ name: "get-tiny-image", arguments: {} });
  assert.ok(image.content.some(({ type }) => type === "image"));
});

const RESOURCE = "demo://resource/dynamic/text/1";

step("resources", async ({ client }) => {
  assert.ok((await client.listResources()).resources.length > 0);
  assert.ok((await client.listResourceTemplates()).resourceTemplates.length > 0);
  assert.match((await client.readResource({ uri: RESOURCE })).contents[0].text, /^Resource 1/);
});

step("subscriptions", async ({ client, seen }) => {
  const uri = RESOURCE;
  await client.subscribeResource({ uri });
  await client.callTool({ name: "toggle-subscriber-updates", arguments: {} });
  assert.equal((await seen("notifications/resources/updated")).params.uri, uri);
  await client.callTool({ name: "toggle-subscriber-updates", arguments: {} });
  await client.unsubscribeResource({ uri });
});

step("prompts and completion", async ({ client }) => {
  assert.ok((await client.listPrompts()).prompts.length > 0);
  const { messages } = await client.getPrompt({
    name: "completable-prompt",
    arguments: { department: "Sales", name: "Eve" },
  });
  assert.match(messages[0].content.text, /Eve/);
  const { completion } = await client.complete({
    ref: { type: "ref/prompt", name: "completable-prompt" },
    argument: { name: "department", value: "S" },
  });
  assert.deepEqual(completion.values, ["Sales", "Support"]);
});

step("progress", async ({ client, received }) => {
  const call = { name: "trigger-long-running-operation", arguments: { duration: 0.2, steps: 4 } };
  await client.callTool(call, undefined, { onprogress: () => {} });
  assert.deepEqual(progressOf(received), [1, 2, 3, 4]);
});

step("logging", async ({ client, seen }) => {
  await client.setLoggingLevel("debug");
  await client.callTool({ name: "toggle-simulated-logging", arguments: {} });
  await seen("notifications/message");
  await client.callTool({ name: "toggle-simulated-logging", arguments: {} });
});

step("sampling inside a call", async ({ client }) => {
  const result = await client.callTool({
    name: "trigger-sampling-request",
    arguments: { prompt: "why?", maxTokens: 5 },
  });
  assert.match(textOf(result), /re: Resource trigger-sampling-request context: why\?/);
});

step("elicitation inside a call", async ({ client }) => {
  const result = await client.callTool({ name: "trigger-elicitation-request", arguments: {} });
  assert.match(JSON.stringify(result), /Name: Ada/);
});

step("roots", async ({ client }) => {
  assert.match(textOf(await client.callTool({ name: "get-roots-list", arguments: {} })), /file:\/\/\/home\/ada/);
});

step("cancellation, and life after it", async ({ client }) => {
  const controller = new AbortController();
  const call = { name: "trigger-long-running-operation", arguments: { duration: 1, steps: 5 } };
  const options = { signal: controller.signal, onprogress: () => controller.abort("enough") };
  await assert.rejects(client.callTool(call, undefined, options));
  assert.deepEqual(await client.ping(), {});
});

step("fifty calls at once", async ({ client }) => {
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, n) => client.callTool({ name: "echo", arguments: { message: `m${n}` } })),
  );
  assert.deepEqual(
    results.map(textOf),
    Array.from({ length: 50 }, (_, n) => `Echo: m${n}`),
  );
});
