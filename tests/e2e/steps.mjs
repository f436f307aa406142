// The steps of a session of the official SDK's client, in the words of books.mjs. How the client has
// reached the server does not matter to them.

import assert from "node:assert/strict";
import { bigText } from "../fixtures/tools.mjs";
import { progressOf, textOf } from "./sdk.mjs";

const HUNG_MS = 60_000;

/** Runs each step that the book has words for, and at the end counts the answers. */
export async function runSteps(t, connected, book) {
  const session = { ...connected, book, cancelled: new Set() };
  for (const [name, [needs, step]] of Object.entries(steps)) {
    const skip = typeof book[needs] === "string" && book[needs];
    await t.test(name, { skip, timeout: HUNG_MS }, () => step(session));
  }
  await t.test("no answer was too many", () => assertAnswers(session));
}

/** Each step with the entry of the book that it needs. */
const steps = {
  tools: [
    "echo",
    async ({ client, book }) => {
      assert.ok((await client.listTools()).tools.some(({ name }) => name === book.tool));
      const [call, answer] = book.echo("größer 👋");
      assert.equal(textOf(await client.callTool(call)), answer);
    },
  ],
  resources: [
    "resource",
    async ({ client, book: { resource } }) => {
      const [uri, content] = resource;
      assert.ok((await client.listResources()).resources.length > 0);
      assert.match((await client.readResource({ uri })).contents[0].text, content);
    },
  ],
  prompts: [
    "prompt",
    async ({ client, book: { prompt } }) => {
      const [{ name, arguments: args }, content] = prompt;
      assert.ok((await client.listPrompts()).prompts.some((listed) => listed.name === name));
      assert.match((await client.getPrompt({ name, arguments: args })).messages[0].content.text, content);
    },
  ],
  "progress, complete and in order": [
    "slow",
    async ({ client, received, book }) => {
      await client.callTool(book.slow(0.2, 4), undefined, { onprogress: () => {} });
      assert.deepEqual(progressOf(received), [1, 2, 3, 4]);
    },
  ],
  logging: [
    "log",
    async ({ client, seen, book: { log } }) => {
      const [call, content] = log;
      await client.setLoggingLevel("debug");
      await client.callTool(call);
      await seen("notifications/message", ({ params }) => content.test(params.data));
    },
  ],
  "sampling inside a call": [
    "sample",
    async ({ client, book: { sample } }) => assert.match(allTextOf(await client.callTool(sample[0])), sample[1]),
  ],
  "elicitation inside a call": [
    "elicit",
    async ({ client, book: { elicit } }) => assert.match(allTextOf(await client.callTool(elicit[0])), elicit[1]),
  ],
  list_changed: [
    "change",
    async ({ client, seen, book: { change } }) => {
      const [call, list, name] = change;
      await client.callTool(call);
      await seen(`notifications/${list}/list_changed`);
      const listed = list === "tools" ? (await client.listTools()).tools : (await client.listResources()).resources;
      assert.ok(listed.some((entry) => entry.name === name));
    },
  ],
  "cancellation, and life after it": ["slow", cancel],
  "a cancellation reaches the server": [
    "cancellations",
    async (session) => {
      const { client, book } = session;
      const count = async () => Number(textOf(await client.callTool(book.cancellations)));
      const before = await count();
      await cancel(session);
      // The order of two POSTs proves nothing, so ask until it is there.
      while ((await count()) === before);
    },
  ],
  "twenty calls at once, each with its own answer": [
    "echo",
    async ({ client, book }) => {
      const calls = Array.from({ length: 20 }, (_, n) => book.echo(`m${n}`));
      const results = await Promise.all(calls.map(([call]) => client.callTool(call)));
      assert.deepEqual(
        results.map(textOf),
        calls.map(([, answer]) => answer),
      );
    },
  ],
  "a big request": [
    "bigRequest",
    async ({ client, book }) => {
      const [call, answer] = book.bigRequest(bigText(book.requestBytes - 1024));
      assert.ok(textOf(await client.callTool(call)) === answer);
    },
  ],
  "a big answer": [
    "bigAnswer",
    async ({ client, book }) => assert.ok((await book.bigAnswer(client)) >= book.answerBytes),
  ],
};

/** Cancels a call that is under way. */
async function cancel({ client, received, cancelled, book }) {
  const controller = new AbortController();
  const call = client.callTool(book.slow(2, 20), undefined, {
    signal: controller.signal,
    onprogress: () => controller.abort("enough"),
  });
  await assert.rejects(call);
  assert.deepEqual(await client.ping(), {});
  // The SDK takes the id of a call for its progress token.
  cancelled.add(received.findLast(({ method }) => method === "notifications/progress").params.progressToken);
}

/** No answer came twice, and none to a call that was cancelled: some servers answer those, too. */
function assertAnswers({ received, cancelled }) {
  const ids = received.filter(({ method }) => method === undefined).map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual(
    ids.filter((id) => cancelled.has(id)),
    [],
  );
}

const allTextOf = (result) => result.content.map(({ text }) => text).join("\n");
