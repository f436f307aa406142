// Answers that are none of JSON-RPC, or only almost, under every status that servers and the gateways before them
// use. Each request has one valid answer, whose reader can see what the server said, and the next request works.

import assert from "node:assert/strict";
import { scenario } from "./scenario.mjs";

const STATUSES = [200, 400, 401, 403, 404, 500];
const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };

/** Each as a text in which ID stands for the request's id, and what has to be in the answer. */
const bodies = [
  ['{"error":"invalid_token","error_description":"x"}', assertQuoted],
  ['{"error":{"message":"m"}}', assertQuoted],
  ['{"error":{"code":"E1","message":"m"}}', assertQuoted],
  ['{"jsonrpc":"2.0","id":ID,"result":{},"error":{"code":1,"message":"m"}}', assertKept],
  ['{"jsonrpc":"2.0","id":ID}', assertQuoted],
  ['{"jsonrpc":"1.0","id":ID,"result":{}}', () => {}],
  ['"text"', assertQuoted],
  ["[]", assertQuoted],
  ["null", assertQuoted],
  ['{"detail":"Not Found"}', assertQuoted],
];

for (const [body, assertTold] of bodies) {
  scenario(`${body} to a call is one valid answer under every status`, {}, async ({ t, open, server }) => {
    const client = await open();
    await server.listening();
    for (const status of STATUSES) {
      await t.test(`status ${status}`, async () => {
        const { answer, sent } = await oddly(server, "tools/call", status, body, () => client.call("echo"));
        assertValid(answer);
        // A 404 means a lost session, whatever its body says: the call went into a new one, and was refused again.
        if (status === 404) assertNames(answer, 404);
        else assertTold(answer, sent);
        const text = `after ${status}`;
        assert.deepEqual((await client.call("echo", { text })).result?.structuredContent, { text });
      });
    }
    await client.finish();
  });

  scenario(`${body} to initialize is one valid answer under every status`, {}, async ({ t, connect, server }) => {
    for (const status of STATUSES) {
      await t.test(`status ${status}`, async () => {
        const client = connect();
        const ask = () => client.request("initialize", INITIALIZE);
        const { answer, sent } = await oddly(server, "initialize", status, body, ask);
        assertValid(answer);
        // A 404 may come from a server of HTTP+SSE, whatever its body says: both tries are told.
        (status === 404 ? assertQuoted : assertTold)(answer, sent);
        await client.handshake();
        assert.ok((await client.call("echo")).result);
        await client.finish();
      });
    }
  });
}

/** Makes a request of this method that the server answers like this, however often it is sent. */
async function oddly(server, method, status, body, ask) {
  let sent;
  const relent = server.always(`POST ${method}`, (exchange) => {
    sent = body.replace("ID", JSON.stringify(exchange.message.id));
    exchange.reply(status, { "content-type": "application/json" }, sent);
  });
  const answer = await ask().finally(relent);
  return { answer, sent };
}

/** What a client that checks its messages takes. (That there is exactly one, the client's own laws say.) */
function assertValid(answer) {
  const shown = JSON.stringify(answer);
  assert.equal(answer.jsonrpc, "2.0", shown);
  assert.equal("result" in answer, !("error" in answer), shown);
  if ("result" in answer) return assert.equal(typeof answer.result, "object", shown);
  assert.ok(Number.isInteger(answer.error.code), shown);
  return assert.equal(typeof answer.error.message, "string", shown);
}

/** What the server said is there to read, for a person or for a program. */
function assertQuoted({ error }, sent) {
  const told = [error?.message, error?.data?.body, ...(error?.data?.attempts ?? []).map(({ body }) => body)];
  assert.ok(
    told.some((text) => text?.includes(sent)),
    JSON.stringify(error),
  );
}

/** The server's own error, although there was a result beside it. */
function assertKept({ error }) {
  assert.deepEqual([error?.code, error?.message], [1, "m"], JSON.stringify(error));
}

function assertNames({ error }, status) {
  const named = error?.data?.httpStatus === status || error?.message.includes(String(status));
  assert.ok(named, JSON.stringify(error));
}
