// Ids that are numbers beyond a double. JSON has them, so a client may use them: each request has its one
// answer, under the id as the client has spelled it. What JavaScript makes of such a number is `Infinity`,
// so all that counts here are the raw lines.

import assert from "node:assert/strict";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { scenario } from "./scenario.mjs";

/** Three different numbers, though two of them are `Infinity` as doubles; and other spellings. */
const DIFFERENT = ["1e400", "1e401", "-1e999"];
const BEYOND = [...DIFFERENT, "1E+400", `1${"0".repeat(400)}`];

const request = (id, method = "tools/list") => `{"jsonrpc":"2.0","id":${id},"method":"${method}"}`;
const answer = (id) => `{"jsonrpc":"2.0","id":${id},"result":{"to":"${id}"}}`;

/** The id of a message as it was spelled. */
const spelled = (text) => text.match(/"id":([^,}]*)/)[1];

/** The raw lines that answer this id. */
const answers = (client, id) => client.lines.map(({ text }) => text).filter((text) => spelled(text) === id);

/** Sends a request under an id, and resolves with the raw line that answers it. */
async function ask(client, id) {
  client.owe(id);
  await client.bytes(`${request(id)}\n`);
  return client.until(`the answer to ${id}`, () => answers(client, id)[0]);
}

for (const id of BEYOND) {
  const name = id.length > 20 ? "an integer of 401 digits" : `the number ${id}`;

  scenario(`${name} is an id as any other`, {}, async ({ open, server }) => {
    server.always("POST tools/list", (exchange) => exchange.json(answer(spelled(exchange.entry.body))));
    const client = await open();
    assert.deepEqual(JSON.parse(await ask(client, id)).result, { to: id });
    assert.equal(server.requests("POST tools/list")[0].body, request(id), "the server gets it as it was spelled");
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(answers(client, id).length, 1);
  });

  scenario(`${name} is put back where the server lost it`, {}, async ({ open }) => {
    // The fixture is a JavaScript server: it answers with `id: null`.
    const client = await open();
    assert.ok(JSON.parse(await ask(client, id)).result.tools);
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.equal(answers(client, id).length, 1);
  });
}

scenario("an error of ours has such an id as it was spelled", {}, async ({ open, server }) => {
  const client = await open();
  server.always("POST tools/list", (exchange) => exchange.reply(400));
  for (const id of BEYOND) assert.equal(JSON.parse(await ask(client, id)).error.data.httpStatus, 400);
  await client.finish();
});

/** Every id at once; the server answers when all have come, the last one first. */
async function allAtOnce({ open, server }, label, respond) {
  const arrived = [];
  server.always(label, async (exchange) => {
    arrived.push(exchange);
    if (arrived.length < DIFFERENT.length) return;
    for (const each of arrived.reverse()) respond(each, answer(spelled(each.entry.body)));
  });
  const client = await open();
  const lines = await Promise.all(DIFFERENT.map((id) => ask(client, id)));
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).result),
    DIFFERENT.map((id) => ({ to: id })),
  );
  assert.ok((await client.call("echo")).result);
  await client.finish();
  for (const id of DIFFERENT) assert.equal(answers(client, id).length, 1);
}

scenario("numbers beyond a double at once are as many requests", {}, (scene) =>
  allAtOnce(scene, "POST tools/list", (exchange, text) => exchange.json(text)),
);

scenario("numbers beyond a double at once are as many requests of HTTP+SSE", { start: startSseServer }, (scene) =>
  allAtOnce(scene, "POST /messages tools/list", (exchange, text) => {
    exchange.accepted();
    scene.server.push(text);
  }),
);
