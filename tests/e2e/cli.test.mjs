// The command line: usage errors, help, credentials, logs.

import assert from "node:assert/strict";
import { scenario } from "./scenario.mjs";

const SECRET = "s3cr3t-v4lue";

const OPTIONS = [
  "--header",
  "--bearer-token-env",
  "--transport",
  "--era",
  "--connect-timeout",
  "--request-timeout",
  "--retries",
  "--max-message-bytes",
  "--drain-timeout",
  "--debug",
  "--log-bodies",
  "--version",
  "--help",
];

/** Runs without a client: collects stdout as it is. */
async function run(connect, url, options) {
  const client = connect({ url, options });
  let stdout = "";
  client.child.stdout.on("data", (chunk) => (stdout += chunk));
  client.eof();
  const { code } = await client.exit();
  return { code, stdout, stderr: client.stderr };
}

for (const [what, url, options, choices = ""] of [
  ["no URL", null, []],
  ["an unknown option", "http://127.0.0.1:9/mcp", ["--no-such-option"]],
  ["a URL that is none", "not a url", []],
  ["a scheme that is not HTTP", "ftp://127.0.0.1/mcp", []],
  ["two URLs", "http://127.0.0.1:9/mcp", ["http://127.0.0.1:9/other"]],
  ["a time that is none", "http://127.0.0.1:9/mcp", ["--drain-timeout", "soon"]],
  ["a size that is none", "http://127.0.0.1:9/mcp", ["--max-message-bytes", "lots"]],
  ["a number that is none", "http://127.0.0.1:9/mcp", ["--retries", "-1"]],
  ["a header that is none", "http://127.0.0.1:9/mcp", ["--header", "nonsense"]],
  ["a transport that is none", "http://127.0.0.1:9/mcp", ["--transport", "pigeon"], "auto, streamable-http or sse"],
  ["an era that is none", "http://127.0.0.1:9/mcp", ["--era", "tomorrow"], "auto, legacy or modern"],
]) {
  scenario(`${what} is a usage error: its exit code and one line`, {}, async ({ shell, connect }) => {
    const { code, stdout, stderr } = await run(connect, url, options);
    assert.equal(code, shell.usageError, stderr);
    assert.equal(stdout, "");
    assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
    assert.ok(stderr.includes(choices), stderr);
  });
}

for (const name of ["Accept", "Content-Type", "Mcp-Session-Id", "MCP-Protocol-Version", "Last-Event-ID"]) {
  scenario(`header ${name} is ours: a usage error that names it`, {}, async ({ shell, connect, server }) => {
    for (const extra of [
      { options: ["--header", `${name}:${SECRET}`] },
      { env: { MCP_PROXY_HEADERS: `${name}=${SECRET}` } },
    ]) {
      const client = connect(extra);
      assert.equal((await client.exit()).code, shell.usageError, client.stderr);
      assert.equal(client.stderr.trimEnd().split("\n").length, 1, client.stderr);
      assert.ok(client.stderr.includes(`header ${name} `) && !client.stderr.includes(SECRET), client.stderr);
    }
    assert.deepEqual(server.log, []);
  });
}

scenario("--version says name and version", {}, async ({ connect }) => {
  const { code, stdout } = await run(connect, null, ["--version"]);
  assert.equal(code, 0);
  assert.match(stdout, /^mcp-proxy \d+\.\d+\.\d+\S*\n$/);
});

scenario("--help names every option", {}, async ({ connect }) => {
  const { code, stdout } = await run(connect, null, ["--help"]);
  assert.equal(code, 0);
  for (const option of OPTIONS) assert.ok(stdout.includes(option), option);
});

scenario(
  "credentials are on every POST, GET and DELETE and never on stderr",
  { options: ["--header", `Authorization:Bearer ${SECRET}`, "--header", `X-Api-Key=${SECRET}`, "--debug"] },
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    await client.call("status", { status: 500 });
    await client.finish();
    assert.deepEqual([...new Set(server.log.map(({ method }) => method))].sort(), ["DELETE", "GET", "POST"]);
    for (const { headers, label } of server.log) {
      assert.equal(headers.authorization, `Bearer ${SECRET}`, label);
      assert.equal(headers["x-api-key"], SECRET, label);
    }
    assert.ok(client.stderr.length > 0);
    assert.ok(!client.stderr.includes(SECRET), client.stderr);
  },
);

scenario(
  "--bearer-token-env reads the token from the environment",
  { options: ["--bearer-token-env", "E2E_TOKEN", "--debug"], env: { E2E_TOKEN: SECRET } },
  async ({ open, server }) => {
    const client = await open();
    await client.finish();
    for (const { headers, label } of server.log) assert.equal(headers.authorization, `Bearer ${SECRET}`, label);
    assert.ok(!client.stderr.includes(SECRET));
  },
);

scenario(
  "MCP_PROXY_HEADERS adds headers",
  { env: { MCP_PROXY_HEADERS: `X-Env:${SECRET}` } },
  async ({ open, server }) => {
    const client = await open();
    await client.finish();
    for (const { headers, label } of server.log) assert.equal(headers["x-env"], SECRET, label);
  },
);

scenario(
  "without --debug a good session says nothing on stderr that looks like trouble",
  {},
  async ({ open, server }) => {
    const client = await open();
    await server.listening();
    await client.call("echo");
    await client.finish();
    assert.doesNotMatch(client.stderr, /error|fail|warn/i);
  },
);

for (const [what, extra] of [
  ["--debug", { options: ["--debug"] }],
  ["-v", { options: ["-v"] }],
  ["--verbose", { options: ["--verbose"] }],
  ["DEBUG=1", { env: { DEBUG: "1" } }],
]) {
  scenario(`${what} logs tagged lines to stderr`, extra, async ({ open }) => {
    const client = await open();
    await client.call("echo", { word: "body-not-to-be-logged" });
    await client.finish();
    const lines = client.stderr.trimEnd().split("\n");
    assert.ok(lines.length > 1, client.stderr);
    for (const line of lines) assert.match(line, /^\[[A-Z]+\] \S/);
    assert.ok(!client.stderr.includes("body-not-to-be-logged"));
  });
}
