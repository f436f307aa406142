// Event streams: framing on the wire, streams that die, resumption, and the GET stream.

import assert from "node:assert/strict";
import { scenario } from "./scenario.mjs";

/** Clocks of two processes are read at different moments and rounded to milliseconds. */
const ROUNDING_MS = 5;

const ANSWER = '{"jsonrpc":"2.0","id":@ID@,"result":{"ok":"é\u{1F600}"}}';

for (const [what, pieces] of Object.entries({
  LF: [`data: ${ANSWER}\n\n`],
  "CRLF cut between CR and LF": [`data: ${ANSWER.slice(0, 20)}`, `${ANSWER.slice(20)}\r`, "\n\r", "\n"],
  "CR alone": [`data: ${ANSWER}\r\r`],
  "a BOM first": [`\uFEFFdata: ${ANSWER}\n\n`],
  "no space after the colon": [`data:${ANSWER}\n\n`],
  "comments and unknown fields around": [`: hello\n\nfoo: bar\n: inside\ndata: ${ANSWER}\nwhat\n\n: bye\n\n`],
  "foreign event types before": [`event: ping\ndata: x\n\nevent: message\ndata: ${ANSWER}\n\n`],
  "empty events before": [`data: \n\nid: 1\n\ndata: ${ANSWER}\n\n`],
  "pretty-printed JSON on several data lines": [
    `data: {"jsonrpc":"2.0",\ndata:   "id": @ID@,\ndata:   "result": {"ok":\ndata: "é\u{1F600}"}\ndata: }\n\n`,
  ],
})) {
  scenario(`an event framed with ${what} is one line on stdout`, {}, async ({ open }) => {
    const client = await open();
    const { result } = await client.call("raw", { pieces });
    assert.deepEqual(result, { ok: "é\u{1F600}" });
    await client.finish();
    assert.equal(client.lines.length, 2);
  });
}

scenario("an event whose characters are cut into single bytes arrives whole", {}, async ({ open, server }) => {
  server.once("POST tools/call", async (exchange) => {
    const stream = exchange.stream();
    exchange.res.socket.setNoDelay(true);
    const text = `data: ${ANSWER.replace("@ID@", JSON.stringify(exchange.message.id))}\n\n`;
    for (const byte of Buffer.from(text)) await stream.raw(Buffer.of(byte));
    stream.end();
  });
  const client = await open();
  assert.deepEqual((await client.call("echo")).result, { ok: "é\u{1F600}" });
  await client.finish();
});

scenario("ten thousand comments are nothing on stdout", {}, async ({ open }) => {
  const client = await open();
  await client.call("raw", { pieces: [": ka\n\n".repeat(10_000), `data: ${ANSWER}\n\n`] });
  await client.finish();
  assert.equal(client.lines.length, 2);
});

scenario("a pretty-printed JSON body with charset is one line on stdout", {}, async ({ open }) => {
  const client = await open();
  const body = '{\r\n  "jsonrpc": "2.0",\n  "id": @ID@,\n  "result": {"a b": "c  d"}\n}\n';
  const { result } = await client.call("raw", { type: "Application/JSON; charset=utf-8", pieces: [body] });
  assert.deepEqual(result, { "a b": "c  d" });
  await client.finish();
});

scenario("U+2028 and U+2029 are escaped on stdout and mean the same", {}, async ({ open }) => {
  const client = await open();
  const { result } = await client.call("raw", {
    pieces: ['data: {"jsonrpc":"2.0","id":@ID@,"result":{"t":"a\u2028b\u2029c"}}\n\n'],
  });
  assert.equal(result.t, "a\u2028b\u2029c");
  assert.doesNotMatch(client.lines.at(-1).text, /[\u2028\u2029]/);
  await client.finish();
});

for (const how of ["end", "reset"]) {
  scenario(
    `a call whose stream dies without an event id is answered "maybe" (${how})`,
    {},
    async ({ open, server }) => {
      const client = await open();
      const { error } = await client.call("cut", { how });
      assert.equal(error.code, -32000);
      assert.equal(error.data.delivered, "maybe");
      assert.equal(error.data.retrySafe, false);
      assert.equal(typeof error.data.phase, "string");
      await client.call("echo");
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 2);
    },
  );

  scenario(
    `a call whose stream dies after an event id is resumed, not repeated (${how})`,
    {},
    async ({ open, server }) => {
      const client = await open();
      await server.listening();
      const call = client.call(
        "cut",
        { how, eventId: "e1", retry: 300, resume: true, progress: true, gate: "cut" },
        80,
        { progressToken: "p" },
      );
      await client.message("progress", ({ method }) => method === "notifications/progress");
      server.gate("cut").open();
      assert.equal((await call).result.content[0].text, "resumed");
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 1);
      const resumes = server.requests("GET").filter(({ headers }) => headers["last-event-id"] !== undefined);
      assert.equal(resumes.length, 1);
      assert.equal(resumes[0].headers["last-event-id"], "e1");
      assert.ok(resumes[0].at - server.cutAt >= 300 - ROUNDING_MS, "resumed before the server's retry time");
      const steps = client.messages.filter(({ method }) => method === "notifications/progress");
      assert.deepEqual(
        steps.map(({ params }) => params.progress),
        [1, 2],
      );
    },
  );
}

// A server may replay more than it should: the reference server "everything" replays every stream.
scenario("answers to other calls on a resumed stream are not taken for its own", {}, async ({ open, server }) => {
  const client = await open();
  await server.listening();
  await client.call("echo", {}, "earlier");
  const answer = (id, word) => ({ jsonrpc: "2.0", id, result: { word } });
  server.replays.set("e1", (stream) => {
    stream.send(answer("earlier", "again"), "e2");
    stream.send(answer("never asked", "stray"), "e3");
    stream.send(answer("own", "right"), "e4");
    stream.end();
  });
  const { result } = await client.call("cut", { eventId: "e1", retry: 10 }, "own");
  assert.deepEqual(result, { word: "right" });
  await client.finish();
});

scenario("an answer to another id is not the answer, also on the call's own stream", {}, async ({ open }) => {
  const client = await open();
  const event = (id) => `data: {"jsonrpc":"2.0","id":${id},"result":{"to":${id}}}\n\n`;
  const { result } = await client.call("raw", { pieces: [event('"stray"'), event("@ID@")] }, "own");
  assert.deepEqual(result, { to: "own" });
  await client.finish();
});

for (const [what, respond] of Object.entries({
  "is refused": (exchange) => exchange.reply(400),
  "brings nothing, again and again": (exchange) => exchange.stream().end(),
})) {
  scenario(
    `a resumption that ${what} ends in one error`,
    { options: ["--request-timeout", "3s"] },
    async ({ open, server }) => {
      const client = await open();
      await server.listening();
      server.always("GET", respond);
      const { error } = await client.call("cut", { eventId: "gone", retry: 10 });
      assert.equal(error.code, -32000);
      assert.equal(error.data.delivered, "maybe");
      await client.finish();
      assert.equal(server.requests("POST tools/call").length, 1);
    },
  );
}

scenario("other calls do not notice that one stream died", {}, async ({ open, server }) => {
  const client = await open();
  const held = client.call("hold", { gate: "steady" });
  await server.seen("POST tools/call");
  assert.ok((await client.call("cut", { how: "reset" })).error);
  server.gate("steady").open();
  assert.ok((await held).result);
  await client.finish();
});

for (const get of [405, 400, 404, 501, "html"]) {
  scenario(
    `a GET answered ${get} leaves the session working with at most one line on stderr`,
    { server: { get } },
    async ({ open, server }) => {
      const client = await open();
      await server.seen("GET");
      await client.request("tools/list");
      await client.call("echo", { as: "sse" });
      await client.finish();
      assert.equal(server.requests("POST initialize").length, 1);
      if (get === 405) assert.equal(server.requests("GET").length, 1);
      const about = client.stderr.split("\n").filter((line) => /\bGET\b|stream|SSE/i.test(line));
      assert.ok(about.length <= 1, client.stderr);
    },
  );
}

scenario("a GET stream that ends is opened again after its last event id", {}, async ({ open, server }) => {
  server.once("GET", (exchange) => {
    const stream = exchange.stream();
    stream.event({
      id: "g7",
      retry: 10,
      data: JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }),
    });
    stream.end();
  });
  const client = await open();
  assert.equal((await server.seen("GET", 2)).headers["last-event-id"], "g7");
  await client.message("list_changed", ({ method }) => method === "notifications/tools/list_changed");
  await client.finish();
});
