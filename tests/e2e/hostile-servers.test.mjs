// Servers that mean harm. Whatever one does to a request, that request has one answer, the next call to
// the same server works, and neither memory nor stderr grows beyond its bound.

import assert from "node:assert/strict";
import { CONTROLS, FORGED, MIB } from "../fixtures/attacks.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { assertHonest, hostile } from "./hostile.mjs";

const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };
/** Time limits that an attack is meant to run into. */
const HASTY = ["--request-timeout", "1s", "--total-timeout", "2s"];
const small = { limit: MIB };

/** One call of an attack: [title, tool, arguments, options, what the answer has to be]. */
const calls = [
  // At the default limit: what the size of a message permits.
  ["a batch of 12 MiB of ones, as the body", "batchBody", {}],
  ["a batch of 12 MiB of ones, as an event", "batchEvent", {}],
  ["a batch of 12 MiB of empty objects, as the body", "batchBody", { member: "{}" }],
  ["a batch of 12 MiB of empty batches, as an event", "batchEvent", { member: "[]" }],
  ["a batch of 12 MiB of empty strings, as an event", "batchEvent", { member: '""' }],
  ["a result a million arrays deep", "deepResult", {}],
  ["a body a million arrays deep", "deepBody", {}],
  ["a body a million objects deep that never ends", "deepBody", { open: '{"a":', close: "" }],
  ["an event a million objects deep", "deepEvent", {}],
  // With a small limit: what has no end.
  ["a JSON body without end", "endlessBody", {}, small],
  ["a body of blanks without end", "endlessBlanks", {}, small],
  ["an SSE line without end", "endlessLine", {}, small],
  ["an SSE event without end", "endlessEvent", {}, small],
  ["SSE fields without end", "endlessFields", {}, small],
  ["a status 500 with 100 MiB", "endlessError", {}, small],
  ["a head without end", "endlessHead", {}, small],
  ["a header line without end", "endlessHeaderLine", {}, small],
  ["early hints without end", "endlessHints", {}, small],
  ["a chunk extension without end", "endlessChunkExtension", {}, small],
  ["an answer in 100,000 chunks of one byte", "tinyChunks", {}, small],
  ["trailers without end", "endlessTrailers", {}, small],
  // What takes for ever.
  ["a head that drips", "slowHead", {}, { ...small, options: HASTY }],
  ["a JSON body that drips", "slowBody", {}, { ...small, options: HASTY }],
  ["an SSE line that drips", "slowLine", {}, { ...small, options: HASTY }],
  // Lies.
  ["redirects to ever new places", "redirects", {}, small],
  ["redirects to places of 300 kB", "redirects", { bytes: 300_000 }, { ...small, server: { headBytes: MIB } }],
  // Floods.
  ["100,000 events that are not JSON", "badEvents", {}, small],
  ["100,000 empty objects as events", "badEvents", { data: "{}" }, small],
  ["the same answer a thousand times", "manyAnswers", {}, small],
  ["20,000 answers that nobody asked for", "foreignAnswers", { others: ["hold", 1, null, "", 1e300] }, small],
  ["progress under 100,000 foreign tokens", "foreignProgress", {}, small],
  ["10,000 questions with ids of 10 kB", "questions", {}, small],
  ["20,000 questions with short ids", "questions", { count: 20_000, bytes: 1 }, small],
  ["the same question 20,000 times", "questions", { count: 20_000, bytes: 10, distinct: false }, small],
  ["an event id of 100 kB before the loss of the stream", "longEventId", { bytes: 100_000 }, small],
  ["an event id of 500 kB before the loss of the stream", "longEventId", { bytes: 500_000 }, small],
  ["an id and a method of 500 kB", "longNames", {}, small],
];

for (const [title, tool, args, options = {}] of calls) {
  hostile(`a server with ${title}`, options, async ({ open }) => {
    const client = await open();
    assertHonest(await client.call(tool, args));
    return client;
  });
}

/** What a server may write instead of HTTP; `@BODY@` is the right answer. */
const responses = {
  "nothing at all": "",
  "another protocol": "SSH-2.0-OpenSSH_9.6\r\n",
  "controls in its status line": `HTTP/1.1 200 \x1b[2J${FORGED}\r\ncontent-length: 0\r\n\r\n`,
  "a status of 99": "HTTP/1.1 99 Low\r\ncontent-length: 0\r\n\r\n",
  "a status of 999": "HTTP/1.1 999 High\r\ncontent-length: 0\r\n\r\n",
  "a switch of protocols": "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nhello",
  "a length that is too long":
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99999\r\n\r\n@BODY@",
  "a length that is too short": "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n@BODY@",
  "a length of 2^64": `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${2n ** 64n}\r\n\r\n@BODY@`,
  "a length of 2^63-1": `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${2n ** 63n - 1n}\r\n\r\n@BODY@`,
  "a negative length": "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: -1\r\n\r\n@BODY@",
  "two lengths": "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n@BODY@",
  "a length and chunks": "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  "a chunk of 2^64": "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000000\r\nx",
  "a chunk of 2^64-1":
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
  "half a chunk": "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nff\r\n{",
  "two responses": `HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}`,
  "gzip that was not asked for":
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\x1f\x8b\x08",
};

hostile("a server that writes no HTTP", { ...small, options: HASTY }, async ({ open }) => {
  const client = await open();
  for (const bytes of Object.values(responses)) {
    for (const then of ["end", "reset"]) assertHonest(await client.call("bytesOfHttp", { bytes, then }));
  }
  return client;
});

hostile("a redirect into nowhere is not where the next call goes", small, async ({ open, server }) => {
  const client = await open();
  server.once("POST tools/call", (exchange) => exchange.reply(307, { location: "/nowhere" }));
  assertHonest(await client.call("echo"));
  return client;
});

hostile(
  "a server that asks for patience without end",
  { ...small, options: ["--request-timeout", "5s"] },
  async ({ open }) => {
    const client = await open();
    const waits = ["999999999", "4294967296", "18446744073709551616", "9".repeat(1000), "-1", "1e9", "NaN", ""];
    for (const [at, wait] of waits.entries()) {
      const headers = { "retry-after": wait };
      assertHonest(await client.call("status", { status: at % 2 ? 429 : 503, headers }));
    }
    return client;
  },
);

/** Bodies that two readers would read in two ways. */
const bodies = [
  '{"jsonrpc":"2.0","id":@ID@,"id":"other","result":{"one":1}}',
  '{"jsonrpc":"2.0","id":"other","id":@ID@,"result":{"one":1}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":{"one":1},"error":{"code":1,"message":"both"}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":{},"result":{"two":2}}',
  '{"jsonrpc":"2.0","id":@ID@,"method":"ping","result":{}}',
  '{"jsonrpc":"2.0","id":@ID@,"method":"ping"}',
  '{"jsonrpc":"2.0","method":"x","method":"y","id":@ID@,"result":{}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":{"half":"\\ud800"}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":{"\\udfff":"\\udc00\\ud800"}}',
  '{"jsonrpc":"2.0","\\u0069d":@ID@,"result":{}}',
  '{"jsonrpc":"1.0","id":@ID@,"result":{}}',
  '{"id":@ID@,"result":{}}',
  '{"jsonrpc":"2.0","id":@ID@}',
  '{"jsonrpc":"2.0","id":[@ID@],"result":{}}',
  '{"jsonrpc":"2.0","id":{"id":@ID@},"result":{}}',
  '{"jsonrpc":"2.0","id":true,"result":{}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":1e400}',
  '{"jsonrpc":"2.0","id":@ID@,"error":null}',
  '{"jsonrpc":"2.0","id":@ID@,"error":{"code":"x","message":7}}',
  '{"jsonrpc":"2.0","id":@ID@,"result":{}}{"jsonrpc":"2.0","id":@ID@,"result":{}}',
  '\ufeff{"jsonrpc":"2.0","id":@ID@,"result":{}}',
  '[{"jsonrpc":"2.0","id":@ID@,"result":{}},{"jsonrpc":"2.0","id":@ID@,"result":{}}]',
  "[]",
  "null",
  "0",
  '""',
  "{}",
];

for (const body of bodies) {
  hostile(`a server whose body is ${body}`, small, async ({ open }) => {
    const client = await open();
    await client.call("oddJson", { body });
    await client.call("oddJson", { body }, "a string");
    return client;
  });
}

for (const as of ["json", "sse"]) {
  hostile(`a server whose bytes are no text (${as})`, small, async ({ open }) => {
    const client = await open();
    await client.call("badText", { as });
    return client;
  });
}

/** Each is what the first response says of the session. */
const welcomes = {
  "a protocol version of 200 kB": { version: "v".repeat(200_000) },
  "a protocol version of 12 MiB": { version: "v".repeat(12 * MIB) },
  "a protocol version that is a list": { version: Array.from({ length: 100_000 }, () => "2025-11-25") },
  "a session id of 100 kB": { headers: { "mcp-session-id": "s".repeat(100_000) } },
  "a session id of 150 kB": { headers: { "mcp-session-id": "s".repeat(150_000) } },
  "a session id of 300 kB": { headers: { "mcp-session-id": "s".repeat(300_000) } },
  "32 cookies of 4 kB": { headers: { "set-cookie": cookies(32, 4096) } },
  "a cookie of 200 kB": { headers: { "set-cookie": cookies(1, 200_000) } },
  "70 cookies of 4 kB": { headers: { "set-cookie": cookies(70, 4096) } },
};

for (const [title, { version, headers }] of Object.entries(welcomes)) {
  // It takes whatever session is named, or none: what matters is that the next request can be sent at all.
  hostile(`a server with ${title}`, { server: { sessions: false, headBytes: MIB } }, async ({ connect, server }) => {
    server.once("POST initialize", (exchange) => {
      const welcome = server.welcome(exchange.message.params);
      exchange.result(version === undefined ? welcome : { ...welcome, protocolVersion: version }, headers);
    });
    const client = connect();
    const answer = await client.request("initialize", INITIALIZE);
    assertHonest(answer);
    // A server may be refused for what it said; then it behaves, and is as good as any.
    if (answer.error) await client.handshake();
    else client.notify("notifications/initialized");
    return client;
  });
}

function cookies(count, bytes) {
  return Array.from({ length: count }, (_, n) => `name${n}=${"c".repeat(bytes - 10)}`);
}

hostile(
  "a server with another set of cookies in every response",
  { ...small, server: { headBytes: MIB } },
  async ({ open, server }) => {
    let count = 0;
    server.always("POST ping", (exchange) => {
      const set = Array.from({ length: 20 }, () => `c${(count += 1)}=${"x".repeat(1000)}`);
      exchange.result({}, { "set-cookie": set });
    });
    const client = await open();
    for (let n = 0; n < 50; n += 1) assertHonest(await client.request("ping"));
    return client;
  },
);

hostile("a server that changes the session with every response", small, async ({ open, server }) => {
  let count = 0;
  server.always("POST ping", (exchange) => exchange.result({}, { "mcp-session-id": `other-${(count += 1)}` }));
  const client = await open();
  for (let n = 0; n < 50; n += 1) assertHonest(await client.request("ping"));
  return client;
});

// ---- reconnections ------------------------------------------------------------------------

/** How many requests in a span of time are too many: one in 50 ms, and a few at once. */
const tooMany = (milliseconds) => 20 + milliseconds / 50;

/** Counts the requests of a label that came until now, with the time that they took. */
function rateOf(server, label) {
  const entries = server.requests(label);
  const count = entries.length;
  const span = count === 0 ? 0 : performance.now() - entries[0].at;
  assert.ok(count <= tooMany(span), `${count} × ${label} in ${Math.round(span)} ms`);
}

/** What a listening stream that ends at once may have said before. */
const farewells = {
  "retry: 0": "retry: 0\n\n",
  "retry: 0 and an event": "retry: 0\nid: 1\ndata: {}\n\n",
  "retry: 0 and a new event id": () => `retry: 0\nid: ${Math.random()}\ndata:\n\n`,
  "retry: 0 and a notification":
    'retry: 0\nid: 1\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n\n',
  nothing: "",
};

for (const [what, said] of Object.entries(farewells)) {
  hostile(
    `a listening stream that says ${what} and ends is not opened without a pause`,
    small,
    async ({ open, server }) => {
      server.always("GET", async (exchange) => {
        const stream = exchange.stream();
        await stream.raw(typeof said === "function" ? said() : said);
        stream.end();
      });
      const client = await open();
      assert.ok((await client.call("echo", { delay: 700 })).result);
      rateOf(server, "GET");
      return client;
    },
  );
}

hostile(
  "a call that is put off with retry: 0 again and again is not resumed without a pause",
  { ...small, options: ["--total-timeout", "1500ms"] },
  async ({ open, server }) => {
    let count = 0;
    const putOff = async (exchange) => {
      const stream = exchange.stream();
      await stream.raw(`retry: 0\nid: ${(count += 1)}\ndata:\n\n`);
      stream.end();
    };
    server.once("POST tools/call", putOff);
    server.always("GET", putOff);
    const client = await open();
    assertHonest(await client.call("echo"));
    rateOf(server, "GET");
    return client;
  },
);

hostile(
  "an HTTP+SSE stream that ends at once is not opened without a pause",
  { ...small, start: startSseServer },
  async ({ open, server }) => {
    const client = await open();
    const calm = server.always("GET /sse", async (exchange) => {
      const stream = exchange.stream();
      await stream.raw("retry: 0\nevent: endpoint\ndata: /messages?sessionId=none\n\n");
      stream.end();
    });
    server.cutStreams();
    assertHonest(await client.request("tools/list"));
    rateOf(server, "GET /sse");
    calm();
    return client;
  },
);

// ---- words --------------------------------------------------------------------------------

const places = [
  "error body",
  "error",
  "media type",
  "session id",
  "location",
  "event id",
  "event type",
  "event",
  "method",
  "id",
  "question",
];

for (const [how, options] of [
  ["", []],
  [", told in full", ["-v"]],
]) {
  hostile(
    `what a server says does not pass for a line of ours${how}`,
    { ...small, options, server: { protocolVersion: CONTROLS } },
    async ({ open }) => {
      const client = await open();
      for (const where of places) await client.call("controls", { where });
      return client;
    },
  );
}

hostile(
  "what an HTTP+SSE server says does not pass for a line of ours",
  { ...small, options: ["-v"], start: startSseServer, server: { protocolVersion: CONTROLS } },
  async ({ open, server }) => {
    const client = await open();
    const oneLine = CONTROLS.replaceAll(/[\r\n]/g, "");
    server.once("GET /sse", async (exchange) => {
      const stream = exchange.stream();
      await stream.raw(`event: endpoint\ndata: http://127.0.0.1:1/${oneLine}\n\n`);
      stream.end();
    });
    server.cutStreams();
    await server.seen("GET /sse", 2);
    assertHonest(await client.request("tools/list"));
    return client;
  },
);

// ---- HTTP+SSE: one stream for all -----------------------------------------------------------

/** What stands on the stream before the answer to a call. */
const interludes = {
  "a batch of 12 MiB of ones": (stream) => stream.raw(`event: message\ndata: [${"1,".repeat(6 * MIB)}1]\n\n`),
  "100,000 events that are not JSON": (stream) => stream.raw("event: message\ndata: no\n\n".repeat(100_000)),
  "an event of 200 MiB": async (stream) => {
    await stream.raw("event: message\ndata: ");
    for (let mib = 0; mib < 200; mib += 1) await stream.raw("x".repeat(MIB));
    await stream.raw("\n\n");
  },
  "10,000 questions with ids of 10 kB": async (stream) => {
    const id = "i".repeat(10_000);
    for (let n = 0; n < 10_000; n += 1)
      await stream.raw(`data: {"jsonrpc":"2.0","id":"${n}${id}","method":"ping"}\n\n`);
  },
  "endpoints without end": (stream) => stream.raw("event: endpoint\ndata: /messages?sessionId=none\n\n".repeat(10_000)),
};

for (const [what, say] of Object.entries(interludes)) {
  hostile(`an HTTP+SSE server with ${what}`, { start: startSseServer }, async ({ open, server }) => {
    const client = await open();
    const [stream] = server.sessions.values();
    const call = client.call("meet", { gate: "after", count: 2, n: 1 });
    await server.seen("POST /messages tools/call");
    await say(stream);
    server.gate("after").open();
    assertHonest(await call);
    return client;
  });
}

hostile(
  "an HTTP+SSE server with an endpoint of 1 MB",
  { ...small, start: startSseServer },
  async ({ connect, server }) => {
    server.once("GET /sse", async (exchange) => {
      await exchange.stream().raw(`event: endpoint\ndata: /messages?sessionId=${"x".repeat(1_000_000)}\n\n`);
    });
    const client = connect();
    assertHonest(await client.request("initialize", INITIALIZE));
    await client.handshake();
    return client;
  },
);
