// `-v` and `--log-bodies`: what a person who debugs reads on stderr. One line for each HTTP call, when it is
// over; messages only when they are asked for; and never a credential, whoever says it.

import assert from "node:assert/strict";
import { FORGED, MIB } from "../fixtures/attacks.mjs";
import { startServer } from "../fixtures/server.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { CONTROL } from "./hostile.mjs";
import { scenario } from "./scenario.mjs";

const verbose = { options: ["-v"] };
const withBodies = { options: ["--log-bodies"] };
const STDERR_BYTES = 64 * 1024;
const LINE_CHARACTERS = 600;

/** What turns the direction of a text, or stands in it unseen. */
const UNSEEN = /[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/;

const linesOf = (client) => client.stderr.split("\n").filter((line) => line !== "");
const tagged = (client, tag) => linesOf(client).filter((line) => line.startsWith(`[${tag}] `));

const literal = (text) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&");

/** The line of a call that was answered. */
const over = (call, status, transport = "Streamable HTTP") =>
  new RegExp(`^\\[HTTP\\] ${literal(call)}: ${status}, \\d+ bytes in \\d+ ms \\(${literal(transport)}\\)$`);

/** The line of the proxy's own question, from which it learns the server's era. */
const discovered = (path, status) => {
  const call = `POST ${path} server/discover "mcp-proxy-[^"]+"`;
  return new RegExp(`^\\[HTTP\\] ${call}: ${status}, \\d+ bytes in \\d+ ms \\(transport unknown\\)$`);
};

/** The line of a call that was not: what happened, in words that `cause` fits. */
const failed = (call, cause) => new RegExp(`^\\[HTTP\\] ${literal(call)}: .*${cause}.*, after \\d+ ms`);

/** The line of a stream that is open. */
const listening = (call, transport = "Streamable HTTP") =>
  new RegExp(`^\\[HTTP\\] ${literal(call)}: 200, .*\\(${literal(transport)}\\)$`);

/** Resolves with the line of stderr that fits, past or future. */
const said = (client, pattern) =>
  client.until(`a line like ${pattern}`, () => linesOf(client).find((line) => pattern.test(line)));

/** Each pattern has exactly one line, and each line a pattern. */
function assertEach(lines, patterns) {
  for (const pattern of patterns) {
    assert.equal(lines.filter((line) => pattern.test(line)).length, 1, `${pattern} in\n${lines.join("\n")}`);
  }
  const strangers = lines.filter((line) => !patterns.some((pattern) => pattern.test(line)));
  assert.deepEqual(strangers, []);
}

/** Nothing on stderr that moves a cursor, and no line that is not ours. */
function assertTame(client) {
  for (const line of linesOf(client)) {
    assert.match(line, /^\[[A-Z]+\] \S/);
    assert.ok(!CONTROL.test(line) && !UNSEEN.test(line), JSON.stringify(line.slice(0, 500)));
  }
}

// ---- one line a call ------------------------------------------------------------------------

scenario("-v has one line for each call of a session", verbose, async ({ open, server }) => {
  const client = await open();
  await server.listening();
  await client.call("echo", {}, 7);
  await client.call("echo", { as: "sse" }, 8);
  await client.call("status", { status: 500 }, 9);
  await client.request("tools/list", undefined, "ten");
  await client.finish();
  assertEach(tagged(client, "HTTP"), [
    discovered("/mcp", 400),
    over("POST /mcp initialize 1", 200),
    over("POST /mcp notifications/initialized", 202),
    /^\[HTTP\] GET \/mcp: 200, listening \(Streamable HTTP\)$/,
    over("POST /mcp tools/call 7", 200),
    over("POST /mcp tools/call 8", 200),
    over("POST /mcp tools/call 9", 500),
    over('POST /mcp tools/list "ten"', 200),
    /^\[HTTP\] DELETE \/mcp: 200, /,
  ]);
  assertTame(client);
});

scenario(
  "-v has one line for each call of a session of HTTP+SSE",
  { ...verbose, start: startSseServer },
  async ({ open, server }) => {
    const client = await open();
    await client.call("echo", {}, 7);
    await client.call("progress", { steps: 2 }, "eight", { progressToken: "p" });
    const sessions = [...server.sessions.keys()];
    await client.finish();
    assertEach(tagged(client, "HTTP"), [
      discovered("/sse", 404),
      /^\[HTTP\] POST \/sse initialize 1: 404, \d+ bytes in \d+ ms/,
      listening("GET /sse", "HTTP+SSE"),
      over("POST /messages initialize 1", 202, "HTTP+SSE"),
      over("POST /messages notifications/initialized", 202, "HTTP+SSE"),
      over("POST /messages tools/call 7", 202, "HTTP+SSE"),
      over('POST /messages tools/call "eight"', 202, "HTTP+SSE"),
    ]);
    for (const id of sessions) assert.ok(!client.stderr.includes(id), client.stderr);
    assertTame(client);
  },
);

scenario("the line of a call comes when the call is over, not before", verbose, async ({ open, server }) => {
  const client = await open();
  const held = client.call("hold", { gate: "held" }, "held");
  await server.seen("POST tools/call");
  for (let n = 100; n < 110; n += 1) {
    await client.call("echo", {}, n);
    await said(client, over(`POST /mcp tools/call ${n}`, 200));
  }
  assert.deepEqual(
    tagged(client, "HTTP").filter((line) => line.includes('"held"')),
    [],
  );
  server.gate("held").open();
  await held;
  await said(client, over('POST /mcp tools/call "held"', 200));
  await client.finish();
  assert.equal(tagged(client, "HTTP").filter((line) => over('POST /mcp tools/call "held"', 200).test(line)).length, 1);
});

scenario("a hundred calls at once have a hundred lines", verbose, async ({ open }) => {
  const client = await open();
  const ids = Array.from({ length: 100 }, (_, n) => n + 1000);
  await Promise.all(
    ids.map((id, n) => client.call("meet", { gate: "all", count: 100, n, as: n % 2 ? "sse" : "json" }, id)),
  );
  await client.finish();
  const calls = tagged(client, "HTTP").filter((line) => line.includes(" tools/call "));
  assertEach(
    calls,
    ids.map((id) => over(`POST /mcp tools/call ${id}`, 200)),
  );
});

scenario("a line says how long the body was", verbose, async ({ open, server }) => {
  const client = await open();
  const lengths = new Map();
  for (const [id, bytes] of [
    [7, 0],
    [8, 1000],
    [9, 100_000],
  ]) {
    const body = JSON.stringify({ jsonrpc: "2.0", id, result: { text: "x".repeat(bytes) } });
    lengths.set(id, Buffer.byteLength(body));
    server.once("POST tools/call", (exchange) => exchange.json(body));
    await client.call("echo", {}, id);
  }
  await client.finish();
  for (const [id, length] of lengths) {
    const line = tagged(client, "HTTP").find((each) => over(`POST /mcp tools/call ${id}`, 200).test(each));
    assert.ok(line?.includes(` ${length} bytes `), `${length} bytes: ${line}`);
  }
});

scenario("a call that finds nobody is a line that says why", verbose, async ({ connect }) => {
  const nobody = await startServer();
  await nobody.close();
  const client = connect({ url: nobody.url, options: ["--retries", "0"] });
  assert.ok((await client.call("echo", {}, 7)).error);
  await client.finish();
  // The native runner has a line of its own: whom it could not connect to.
  const calls = tagged(client, "HTTP").filter((line) => !line.includes("cannot connect to"));
  assertEach(calls, [failed("POST /mcp tools/call 7", "connection refused")]);
});

scenario("a call that is lost, and one that is given up, are a line each", verbose, async ({ open }) => {
  const client = await open({ options: ["--request-timeout", "500ms"] });
  assert.ok((await client.call("reset", {}, 7)).error);
  assert.ok((await client.call("never", {}, 8)).error);
  assert.ok((await client.call("echo", {}, 9)).result);
  await client.finish();
  const calls = tagged(client, "HTTP").filter((line) => line.includes(" tools/call "));
  assertEach(calls, [
    failed("POST /mcp tools/call 7", "lost"),
    failed("POST /mcp tools/call 8", ""),
    over("POST /mcp tools/call 9", 200),
  ]);
});

// ---- ids ------------------------------------------------------------------------------------

scenario("an id is shown as it was spelled", verbose, async ({ open }) => {
  const client = await open();
  const ids = ["0", "-1", "9007199254740993", '"7"', '"a \\"b\\" c"', '"\\u0041"'];
  for (const id of ids) {
    client.line(`{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo"}}`);
    await said(client, over(`POST /mcp tools/call ${id}`, 200));
  }
  await client.finish();
});

scenario("an id is escaped and cut where it would fill or steer a terminal", verbose, async ({ open }) => {
  const client = await open();
  const steering = `s\u202e\n[HTTP] ${FORGED}\u009b2J\u007f`;
  await client.call("echo", {}, steering);
  await client.call("echo", {}, "long-".repeat(190));
  // Also as a method, which is the client's to choose.
  await client.request(`m\u202e\u2028\u009b${"m".repeat(5000)}`, undefined, 9);
  await client.finish();
  assertTame(client);
  const calls = tagged(client, "HTTP");
  for (const beginning of ['[HTTP] POST /mcp tools/call "s', '[HTTP] POST /mcp tools/call "long-', "[HTTP] POST /mcp m"]) {
    const lines = calls.filter((line) => line.startsWith(beginning));
    assert.equal(lines.length, 1, client.stderr.slice(0, 3000));
    assert.match(lines[0], /: 200, \d+ bytes in \d+ ms \(Streamable HTTP\)$/);
    assert.ok(lines[0].length < LINE_CHARACTERS, `a line of ${lines[0].length} characters`);
  }
});

// ---- tags -----------------------------------------------------------------------------------

scenario("what comes as plain JSON is never tagged as a stream's", verbose, async ({ open, server }) => {
  const client = await open();
  await server.listening();
  for (const body of ['{"jsonrpc":"2.0","id":', "not JSON", '{"some":"object"}', "[1,2,3]", "[]", ""]) {
    const { error } = await client.call("status", { status: 200, headers: { "content-type": "application/json" }, body });
    assert.ok(error);
  }
  assert.ok((await client.call("echo")).result);
  await client.finish();
  assert.deepEqual(tagged(client, "SSE"), []);
});

// ---- secrets --------------------------------------------------------------------------------

const SECRET = "v3rbose-s3cret";
const TOKEN = "v3rbose-t0ken";

for (const [name, start, path] of [
  ["Streamable HTTP", startServer, "/mcp"],
  ["HTTP+SSE", startSseServer, "/sse"],
]) {
  scenario(
    `the query of a URL is not shown, since it may hold a key (${name})`,
    { ...verbose, start },
    async ({ open, server }) => {
      const client = await open({ url: `${server.url}?key=${SECRET}` });
      await client.call("echo", {}, 7);
      await client.finish();
      assert.ok(server.log.some(({ query }) => query.get("key") === SECRET));
      const calls = tagged(client, "HTTP");
      for (const [n, method] of ["server/discover", "initialize"].entries())
        assert.ok(calls[n].startsWith(`[HTTP] POST ${path} ${method} `), calls[n]);
      for (const line of calls) assert.match(line, /^\[HTTP\] [A-Z]+ \/[a-z]+( |:)/);
      assert.doesNotMatch(client.stderr, /\?|key=/);
      assert.ok(!client.stderr.includes(SECRET), client.stderr);
    },
  );
}

scenario("the query of a redirect is not shown either", verbose, async ({ open, server }) => {
  const client = await open();
  server.once("POST tools/call", (exchange) => exchange.reply(307, { location: `/mcp?key=${SECRET}` }));
  assert.ok((await client.call("echo", {}, 7)).result);
  await client.finish();
  assert.ok(server.log.some(({ query }) => query.get("key") === SECRET));
  assert.ok(!client.stderr.includes(SECRET), client.stderr);
});

scenario("-v shows neither bodies nor credentials, also of calls that fail", verbose, async ({ open, server }) => {
  const client = await open({
    options: ["--header", `X-Api-Key:${SECRET}`, "--bearer-token-env", "E2E_TOKEN"],
    env: { E2E_TOKEN: TOKEN },
  });
  await client.call("echo", { word: "said-by-the-client" }, 7);
  const refuse = (exchange) => {
    const challenge = `Bearer error="invalid_token", error_description="${exchange.req.headers["x-api-key"]}"`;
    exchange.reply(401, { "www-authenticate": challenge }, `said-by-the-server ${exchange.req.headers.authorization}`);
  };
  server.once("POST tools/call", refuse);
  assert.ok((await client.call("echo", {}, 8)).error);
  await client.finish();
  assert.equal(server.log[0].headers.authorization, `Bearer ${TOKEN}`);
  for (const word of ["said-by", SECRET, TOKEN, "[BODY]"]) assert.ok(!client.stderr.includes(word), client.stderr);
});

// ---- bodies ---------------------------------------------------------------------------------

/** What the log has of one direction: ">" for what the server was sent, "<" for what the client was told. */
const bodies = (client, direction) =>
  tagged(client, "BODY")
    .filter((line) => line.startsWith(`[BODY] ${direction} `))
    .map((line) => line.slice("[BODY] > ".length));

for (const options of [["--log-bodies"], ["-v", "--log-bodies"], ["--log-bodies", "--debug"]]) {
  for (const [name, start] of [
    ["Streamable HTTP", startServer],
    ["HTTP+SSE", startSseServer],
  ]) {
    const scene = { options, start, server: { logDiscover: true } };
    scenario(`${options.join(" ")} logs what is said, a line a message (${name})`, scene, async ({ open, server }) => {
      const client = await open({ options: ["--transport", start === startServer ? "auto" : "sse"] });
      await client.call("echo", { word: "größer 👋" }, "one");
      const asking = client.call("ask", { requests: [{ method: "roots/list", id: "why" }] }, 2);
      await client.asked("roots/list");
      client.send({ id: "why", result: { roots: [] } });
      await asking;
      await client.call("no such tool", {}, 3);
      await client.call("progress", { steps: 3 }, 4, { progressToken: "p" });
      await client.finish();
      // The server is sent what the client says, byte for byte; before that, one question of the proxy.
      const posts = server.log.filter(({ method }) => method === "POST");
      const own = posts.filter(({ message }) => message.method === "server/discover");
      assert.equal(own.length, start === startServer ? 1 : 0);
      assert.deepEqual(posts.slice(0, own.length), own);
      const sent = posts.map(({ body }) => body);
      assert.deepEqual(bodies(client, ">").sort(), sent.sort());
      assert.deepEqual(
        bodies(client, "<"),
        client.lines.map(({ text }) => text),
      );
      assert.equal(tagged(client, "BODY").length, sent.length + client.lines.length);
      if (options.length > 1) assert.ok(tagged(client, "HTTP").length > 0);
      assertTame(client);
    });
  }
}

scenario("a message is logged before what is said about it", withBodies, async ({ open }) => {
  const client = await open();
  for (const id of [7, 8, 9]) await client.call("echo", {}, id);
  await client.finish();
  const order = tagged(client, "BODY").map((line) => [line[7], JSON.parse(line.slice(9)).id]);
  assert.deepEqual(
    order.filter(([, id]) => id >= 7),
    [7, 8, 9].flatMap((id) => [
      [">", id],
      ["<", id],
    ]),
  );
});

scenario("an error that the proxy makes is told, so it is logged", withBodies, async ({ open }) => {
  const client = await open();
  await client.call("status", { status: 500 }, 7);
  client.owe("41");
  client.bytes('{"jsonrpc":"2.0","id":41,"method":"tools/list","params":{]}\n');
  await client.answer(41);
  await client.finish();
  for (const { text } of client.lines) assert.equal(bodies(client, "<").filter((body) => body === text).length, 1);
});

scenario("without --log-bodies no message is logged", verbose, async ({ open }) => {
  const client = await open();
  await client.call("echo", { word: "not-to-be-logged" });
  await client.finish();
  assert.deepEqual(tagged(client, "BODY"), []);
  assert.ok(!client.stderr.includes("not-to-be-logged"), client.stderr);
});

scenario("what was said cannot forge a line or steer a terminal", withBodies, async ({ open }) => {
  const client = await open();
  const steering = `\n${FORGED}\r${FORGED}\u2028[BODY] < {"${FORGED}":1}\u2029\u0085\u009b2J\u007f\u001b[2J\u202e\u2066\u200b\ufeff`;
  const { result } = await client.call("echo", { word: steering }, 7);
  assert.equal(result.structuredContent.word, steering, "the client itself gets every character");
  await client.call("echo", { word: steering, as: "sse" }, 8);
  // The client compares ids as they are spelled, and the proxy spells separators anew.
  await client.call("controls-are-not-a-tool", { [steering]: 1 }, steering.replaceAll(/[\u2028\u2029]/g, ""));
  // A raw ESC is not JSON; an id in front of it is readable all the same.
  client.owe("41");
  client.bytes(`{"jsonrpc":"2.0","id":41,"method":"tools/list","params":{"a":"\u001b[2J\u0007"}}\n`);
  client.bytes("\u001b]0;title\u0007 is no JSON at all\n");
  assert.ok((await client.answer(41)).error);
  await client.finish();
  assertTame(client);
  assert.ok(bodies(client, ">").length >= 4 && bodies(client, "<").length >= 4, client.stderr);
  assert.ok(linesOf(client).every((line) => !line.startsWith(FORGED) && !line.startsWith(`[BODY] < {"${FORGED}`)));
});

for (const as of ["json", "sse"]) {
  scenario(`a message of 10 MB is cut in the log, and only there (${as})`, withBodies, async ({ open }) => {
    const client = await open();
    const bytes = 10 * MIB;
    const { result } = await client.call("bytes", { bytes, as }, "told");
    assert.equal(Buffer.byteLength(result.content[0].text), bytes);
    await client.call("digest", { text: "x".repeat(bytes) }, "said");
    await client.call("echo", {}, "after");
    await client.finish();
    assert.ok(client.stderr.length < STDERR_BYTES, `${client.stderr.length} characters on stderr`);
    for (const [direction, id] of [
      ["<", "told"],
      [">", "said"],
      [">", "after"],
      ["<", "after"],
    ]) {
      const beginning = `{"jsonrpc":"2.0","id":"${id}",`;
      assert.equal(bodies(client, direction).filter((body) => body.startsWith(beginning)).length, 1, id);
    }
  });
}

// ---- credentials in bodies ------------------------------------------------------------------

/** Says back what it was sent, each time somewhere else. */
const confess = {
  confess(call, { where }) {
    const told = `${call.req.headers["x-api-key"]} and ${call.req.headers.authorization}`;
    const text = (value) => ({ content: [{ type: "text", text: value }] });
    if (where === "result") return call.result(text(told));
    if (where === "JSON in JSON") return call.result(text(JSON.stringify({ headers: call.req.headers })));
    if (where === "error") return call.error(-32000, told);
    if (where === "refusal") return call.reply(401, { "www-authenticate": `Bearer error="${told}"` }, told);
    const stream = call.stream();
    stream.notify("notifications/message", { level: "info", data: told });
    stream.result(text(told));
    return stream.end();
  },
};

const trusted = {
  options: ["-v", "--log-bodies", "--header", `X-Api-Key:${SECRET}`, "--bearer-token-env", "E2E_TOKEN"],
  env: { E2E_TOKEN: TOKEN },
  server: { tools: confess },
};

scenario("the user's credentials are covered in the log, whoever says them", trusted, async ({ open, server }) => {
  const client = await open();
  for (const where of ["result", "JSON in JSON", "error", "refusal", "stream"]) {
    await client.call("confess", { where });
    const { text } = client.lines.at(-1);
    if (where !== "refusal") assert.ok(text.includes(SECRET) && text.includes(TOKEN), `the client itself is told: ${text}`);
  }
  await client.call("echo", { key: SECRET, token: `Bearer ${TOKEN}` });
  await client.finish();
  assert.equal(server.log[0].headers.authorization, `Bearer ${TOKEN}`);
  assert.ok(bodies(client, "<").length >= 8, client.stderr);
  for (const secret of [SECRET, TOKEN]) assert.ok(!client.stderr.includes(secret), client.stderr);
});

// The component covers credentials in messages. The native shell also covers them in the lines about calls.
const native = { ...trusted, on: ["native"] };

scenario("a credential in the client's own id is covered on every line", native, async ({ open }) => {
  const client = await open();
  await client.call("echo", {}, `id-${TOKEN}`);
  await client.finish();
  await said(client, /^\[HTTP\] POST \/mcp tools\/call "id-\*+": 200/);
  assert.equal(bodies(client, "<").filter((body) => body.includes('"id":"id-*')).length, 1, client.stderr);
  assert.ok(!client.stderr.includes(TOKEN), client.stderr);
});

scenario("a credential where the log cuts a message is covered too", trusted, async ({ open, server }) => {
  const client = await open();
  // Whatever the cut is: for some of these it is inside of a token.
  for (let shift = 0; shift <= TOKEN.length; shift += 1) {
    server.once("POST tools/call", (exchange) =>
      exchange.result({ shift: "x".repeat(shift), text: `${TOKEN} `.repeat(10_000) }),
    );
    await client.call("echo");
  }
  await client.finish();
  assert.ok(!client.stderr.includes(TOKEN.slice(0, 8)), "the beginning of a token is in the log");
  assert.ok(client.stderr.length < STDERR_BYTES * 2, `${client.stderr.length} characters on stderr`);
});
