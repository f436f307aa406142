// One scenario: a session of the official SDK's client, from the first message to the end of stdin,
// through each shell, to each server of books.mjs. The proxy is given a URL and nothing else.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { books } from "./books.mjs";
import { StdioClient } from "./client.mjs";
import { connectClient } from "./sdk.mjs";
import { shells } from "./shells.mjs";
import { runSteps } from "./steps.mjs";

const HUNG_MS = 60_000;

for (const book of books) {
  let started;
  after(async () => (await started)?.close());
  for (const shell of shells) {
    test(`a session with ${book.server} [${shell.name}]`, { timeout: HUNG_MS, skip: book.skip }, async (t) => {
      started ??= book.start();
      const server = await started;
      const session = await connect(t, shell, server, book);
      await runSteps(t, session, book);
      await t.test("a slow call is answered after stdin has ended", () => drain(shell, server.url, book));
    });
  }
}

async function connect(t, shell, server, { listening }) {
  const already = listening && server.count(listening);
  const session = await connectClient(shell, server.url);
  t.after(() => session.client.close());
  if (listening) await server.said(listening, already + 1);
  return session;
}

/** The SDK's client cannot end its stdin and still listen; the client of lines can. */
async function drain(shell, url, book) {
  const client = new StdioClient(shell, url);
  try {
    await client.handshake();
    const { name, arguments: args } = book.slow(1, 10);
    const answer = client.call(name, args, "last", { progressToken: "last" });
    await client.message("progress", ({ method }) => method === "notifications/progress");
    client.eof();
    assert.ok((await answer).result);
    await client.finish();
  } finally {
    client.kill();
  }
}
