// Servers behind the Worker that mean harm, and clients before it. Each request is answered once, the next
// call works, another session is answered meanwhile, and memory and the log stay within bounds.

import assert from "node:assert/strict";
import { attacks, CONTROLS, FORGED, MIB } from "../../fixtures/attacks.mjs";
import { startServer } from "../../fixtures/server.mjs";
import { assertHonest } from "../hostile.mjs";
import { scene } from "./scene.mjs";
import { initialize } from "./wire.mjs";

/** The longest message of a server by default (MAX_EVENT_BYTES), and a small one. */
const DEFAULT_LIMIT = 8 * MIB;
const SMALL = { MAX_EVENT_BYTES: String(MIB), MAX_BODY_BYTES: String(MIB) };
const LOG_BYTES = 64 * 1024;
/** What may stand in a line of the log only as an escape. */
const CONTROL = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;

/**
 * How much an isolate may grow: the stated bound of a session, and as much again for what the runtime has
 * not given back yet.
 */
const growthBound = (limit) => 2 * (6 * limit + 64 * MIB);

/** A scene with an attack, in a session beside which another one lives. */
function hostile(name, { variables = {}, server = {}, ...more }, body) {
  const settings = {
    start: startServer,
    server: { ...server, tools: attacks },
    variables: { UPSTREAM_TRANSPORT: "streamable-http", ...variables },
    ...more,
  };
  const limit = Number(variables.MAX_EVENT_BYTES ?? DEFAULT_LIMIT);
  scene(name, settings, async (scenery) => {
    const { worker, join } = scenery;
    const other = await join();
    const before = worker.memory();
    let isOver = false;
    let most = before;
    const neighbour = (async () => {
      for (let n = 0; !isOver; n += 1) {
        const args = { n, delay: 20 };
        assert.deepEqual((await other.call("echo", args)).result?.structuredContent, args);
        most = Math.max(most, worker.memory() ?? 0);
      }
    })();
    neighbour.catch(() => {});
    const client = await body(scenery);
    const { result } = await client.call("echo", { still: "here" });
    assert.deepEqual(result?.structuredContent, { still: "here" }, "the next call");
    isOver = true;
    await neighbour;
    client.verify();
    assert.deepEqual(harm(worker.stderr(), most - before, growthBound(limit)), []);
  });
}

/** What went beyond its bounds, as sentences. */
function harm(log, growth, bound) {
  const lines = log.split("\n");
  const control = lines.find((line) => CONTROL.test(line));
  const forged = lines.find((line) => line.startsWith(FORGED));
  return [
    growth > bound && `${Math.round(growth / MIB)} MiB more memory, ${Math.round(bound / MIB)} at most`,
    log.length > LOG_BYTES && `${log.length} bytes of log, the first of them ${log.slice(0, 300)}`,
    control !== undefined && `raw controls in the log: ${JSON.stringify(control.slice(0, 300))}`,
    forged !== undefined && `a forged line in the log: ${JSON.stringify(forged)}`,
  ].filter(Boolean);
}

const HASTY = { ...SMALL, REQUEST_TIMEOUT_SECONDS: "1" };

/** [title, tool, arguments, variables] */
const calls = [
  ["a batch of 8 MiB of ones, as the body", "batchBody", { bytes: 7.5 * MIB }, {}],
  ["a batch of 8 MiB of ones, as an event", "batchEvent", { bytes: 7.5 * MIB }, {}],
  ["a batch of 8 MiB of empty objects, as an event", "batchEvent", { member: "{}", bytes: 7.5 * MIB }, {}],
  ["a result a million arrays deep", "deepResult", {}, {}],
  ["a body a million arrays deep", "deepBody", {}, {}],
  ["a JSON body without end", "endlessBody", {}, SMALL],
  ["an SSE line of 48 MiB", "endlessLine", { bytes: 48 * MIB }, SMALL],
  ["an SSE event of 48 MiB", "endlessEvent", { bytes: 48 * MIB }, SMALL],
  ["a status 500 with 48 MiB", "endlessError", { bytes: 48 * MIB }, SMALL],
  ["a head without end", "endlessHead", {}, SMALL],
  ["a head that drips", "slowHead", {}, HASTY],
  ["redirects to ever new places", "redirects", {}, SMALL],
  ["20,000 events that are not JSON", "badEvents", { count: 20_000 }, SMALL],
  ["the same answer a thousand times", "manyAnswers", {}, SMALL],
  ["20,000 answers that nobody asked for", "foreignAnswers", { others: [1, "1", null] }, SMALL],
  ["progress under 1,000 foreign tokens", "foreignProgress", { count: 1000 }, SMALL],
  ["2,000 questions with ids of 10 kB", "questions", { count: 2000 }, SMALL],
  ["the same question 20,000 times", "questions", { count: 20_000, bytes: 10, distinct: false }, SMALL],
  ["an event id of 100 kB before the loss of the stream", "longEventId", { bytes: 100_000 }, SMALL],
];

for (const [title, tool, args, variables] of calls) {
  hostile(`a server with ${title}`, { variables }, async ({ join }) => {
    const client = await join();
    assertHonest(await client.call(tool, args));
    return client;
  });
}

/** Each is what the server says of the session. */
const welcomes = {
  "a protocol version of 200 kB": { version: "v".repeat(200_000) },
  "a protocol version with controls in it": { version: CONTROLS },
  "a session id of 100 kB": { headers: { "mcp-session-id": "s".repeat(100_000) } },
  "32 cookies of 4 kB": {
    headers: { "set-cookie": Array.from({ length: 32 }, (_, n) => `c${n}=${"x".repeat(4000)}`) },
  },
};

for (const [title, { version, headers }] of Object.entries(welcomes)) {
  hostile(
    `a server with ${title}`,
    { server: { sessions: false, headBytes: MIB } },
    async ({ server, connect, join }) => {
      server.once("POST initialize", (exchange) => {
        const welcome = server.welcome(exchange.message.params);
        exchange.result(version === undefined ? welcome : { ...welcome, protocolVersion: version }, headers);
      });
      const client = connect();
      const response = await client.start("initialize", JSON.parse(initialize).params);
      const { result, error } = await response.json();
      assertHonest({ result, error });
      if (error) return join();
      client.session = response.headers["mcp-session-id"];
      await client.notify("notifications/initialized");
      return client;
    },
  );
}

const places = ["error body", "media type", "location", "event id", "event type", "event", "method", "id"];
hostile("what a server says does not pass for a line of the log", { variables: { VERBOSE: "1" } }, async ({ join }) => {
  const client = await join();
  for (const where of places) await client.call("controls", { where });
  return client;
});

hostile(
  "a call that is put off with retry: 0 again and again is not resumed without a pause",
  {},
  async ({ server, join }) => {
    const client = await join();
    const first = await server.seen("GET");
    const before = server.requests("GET").length;
    let count = 0;
    const putOff = async (exchange) => {
      const stream = exchange.stream();
      if ((count += 1) === 6)
        await stream.raw(`data: ${JSON.stringify({ jsonrpc: "2.0", id: "put off", result: {} })}\n\n`);
      else await stream.raw(`retry: 0\nid: ${count}\ndata:\n\n`);
      stream.end();
    };
    server.once("POST tools/call", putOff);
    server.always("GET", putOff);
    assertHonest(await client.call("echo", {}, "put off"));
    const gets = server.requests("GET").slice(before);
    const span = gets.at(-1).at - gets[0].at;
    assert.ok(first && span >= (gets.length - 1) * 50, `${gets.length} GETs in ${Math.round(span)} ms`);
    return client;
  },
);

// ---- clients ------------------------------------------------------------------------------

hostile("a client that uses one id 200 times", { variables: SMALL }, async ({ join, server }) => {
  const client = await join();
  const held = Array.from({ length: 200 }, () => client.startCall("holdHead", { gate: "same" }, { id: "same" }));
  await server.seen("POST tools/call", 2);
  server.gate("same").open();
  const answers = await Promise.all(held.map(async (response) => (await (await response).answer("same")).error));
  assert.ok(
    answers.some((error) => error === undefined),
    "one of them is answered by the server",
  );
  // An id that was used again has an answer for each request, not for each id.
  client.responses.length = 0;
  return client;
});

hostile("a client whose bodies are no JSON-RPC", { variables: SMALL }, async ({ join }) => {
  const client = await join();
  const bodies = [
    "",
    "null",
    "0",
    '""',
    "{}",
    "[",
    "[".repeat(500_000),
    '{"a":'.repeat(100_000),
    `{"jsonrpc":"2.0","method":${JSON.stringify(CONTROLS)}`,
  ];
  for (const body of bodies) {
    const response = await client.send("POST", { headers: client.named(), body });
    await response.ended();
    assert.ok(response.status >= 400 && response.status < 500, `${response.status} to ${body.slice(0, 20)}`);
  }
  // These answers have no ids.
  client.responses.length = 0;
  return client;
});

hostile("a client with ids of 500 kB", { variables: SMALL }, async ({ join }) => {
  const client = await join();
  for (let n = 0; n < 20; n += 1) {
    const id = `${n}${"i".repeat(500_000)}`;
    const response = await client.startCall("echo", {}, { id });
    await response.ended();
    assert.ok(response.status === 400 || (await response.answer(id)));
  }
  // Refusals of such ids have none.
  client.responses.length = 0;
  return client;
});

hostile("a client with 300 cancellations of what was never asked", { variables: SMALL }, async ({ join }) => {
  const client = await join();
  const cancel = (n) => client.notify("notifications/cancelled", { requestId: `none-${n}` });
  for (let n = 0; n < 300; n += 20) await Promise.all(Array.from({ length: 20 }, (_, at) => cancel(n + at)));
  return client;
});

hostile(
  "a client that leaves each of its calls at once",
  { variables: { ...SMALL, MAX_PENDING: "1000" } },
  async ({ join }) => {
    const client = await join();
    for (let n = 0; n < 200; n += 1) {
      client
        .send("POST", {
          headers: client.named(),
          body: JSON.stringify({
            jsonrpc: "2.0",
            id: `l${n}`,
            method: "tools/call",
            params: { name: "echo", arguments: { delay: 5 } },
          }),
        })
        .catch(() => {});
      client.responses.pop().drop();
    }
    return client;
  },
);

hostile("a client that comes back to streams that never were", { variables: SMALL }, async ({ join }) => {
  const client = await join();
  for (const last of ["x", "0".repeat(8000), "1-2-3", `"${"9".repeat(4000)}`, "%00", "-1"]) {
    const response = await client.listen(last);
    response.drop();
  }
  return client;
});
