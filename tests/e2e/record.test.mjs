// The flight recorder: `--record FILE` of the native binary, and `replay` on both shells.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { attacks, CONTROLS, FORGED } from "../fixtures/attacks.mjs";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { CONTROL } from "./hostile.mjs";
import { scenario } from "./scenario.mjs";
import { environment, shells } from "./shells.mjs";

const native = (name, options, body) => scenario(name, { ...options, on: ["native"] }, body);

const SECRET = "r3corded-s3cret";

/** A path in a folder that goes with the test. */
function place(t, name = "run.log") {
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-e2e-"));
  t.after(() => rmSync(folder, { recursive: true }));
  return join(folder, name);
}

/** Replays a recording: the native binary opens the file, a component gets it on stdin. */
function replay(shell, file, options = []) {
  const opens = shell.name === "native";
  const stdin = openSync(file);
  const args = shell.args(null, ["replay", ...options, ...(opens ? [file] : [])]);
  const { status, stdout, stderr } = spawnSync(shell.command, args, {
    env: environment(),
    stdio: [opens ? "ignore" : stdin, "pipe", "pipe"],
    encoding: "utf8",
  });
  closeSync(stdin);
  return { status, stdout, stderr };
}

/** What the replayed machine wrote to its client. */
const written = (stdout) =>
  stdout
    .split("\n")
    .map((line) => line.match(/^ *\d+\.\d{3} +<- client: (.*)$/)?.[1])
    .filter((line) => line !== undefined);

native(
  "a recording has no credential in it and replays the run, on every shell",
  { options: ["--header", `Authorization:Bearer ${SECRET}`] },
  async ({ t, open, server }) => {
    const file = place(t);
    const client = await open({ url: `${server.url}?key=${SECRET}`, options: ["--record", file] });
    await server.listening();
    await client.call("echo", { word: "by-json" });
    server.forgetSessions();
    await client.call("echo", { word: "by-sse", long: "x".repeat(5000), as: "sse" });
    await client.finish();
    assert.equal(client.stderr, "");

    const text = readFileSync(file, "utf8");
    if (process.platform !== "win32") assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.ok(!text.includes(SECRET));
    const sessions = new Set(server.log.map(({ headers }) => headers["mcp-session-id"]).filter(Boolean));
    assert.equal(sessions.size, 2);
    for (const id of sessions) assert.ok(!text.includes(id));
    for (const name of ["session-1", "session-2", "by-json", "by-sse"]) assert.ok(text.includes(name), name);
    for (const line of text.trimEnd().split("\n")) JSON.parse(line);

    for (const shell of shells) {
      const brief = replay(shell, file);
      assert.deepEqual([brief.status, brief.stderr], [0, ""]);
      for (const { method, label } of server.log) {
        const [, name] = label.split(" ");
        const pattern = new RegExp(`<- #\\d+ ${method} \\S+ \\(.*\\)${name ? `.*"${name}"` : ""}`);
        assert.match(brief.stdout, pattern, label);
      }
      assert.match(brief.stdout, /exit/);
      assert.ok(brief.stdout.split("\n").every((line) => line.length < 600));
      // In full, the machine writes the very lines that the client got.
      const full = replay(shell, file, ["--debug"]);
      assert.deepEqual(
        written(full.stdout),
        client.lines.map((line) => line.text),
      );
    }
  },
);

native("a recording of HTTP+SSE has no session in it either", { start: startSseServer }, async ({ t, open, server }) => {
  const file = place(t);
  const client = await open({ options: ["--record", file] });
  await client.call("echo", { word: "by-stream" });
  await client.finish();
  const text = readFileSync(file, "utf8");
  const sessions = new Set(server.log.map(({ query }) => query.get("sessionId")).filter(Boolean));
  assert.equal(sessions.size, 1);
  for (const id of sessions) assert.ok(!text.includes(id));
  for (const shell of shells) {
    const { status, stdout } = replay(shell, file, ["--debug"]);
    assert.equal(status, 0);
    assert.match(stdout, /POST \S+sessionId=\*+ .*"by-stream"/);
    assert.deepEqual(
      written(stdout),
      client.lines.map((line) => line.text),
    );
  }
});

native(
  "a credential that the server says back is covered",
  { options: ["--header", `Authorization:Bearer ${SECRET}`] },
  async ({ t, open, server }) => {
    const file = place(t);
    const client = await open({ options: ["--record", file] });
    const refuse = (exchange) => {
      const headers = { "content-type": "text/plain", "www-authenticate": `Bearer error="${SECRET}"` };
      exchange.reply(401, headers, `no such token: ${SECRET}`);
    };
    server.once("POST tools/call", refuse);
    const { error } = await client.call("echo");
    await client.finish();
    const text = readFileSync(file, "utf8");
    assert.match(text, /no such token: \*+/);
    assert.ok(!text.includes(SECRET));
    for (const shell of shells) {
      const { status, stdout } = replay(shell, file, ["--debug"]);
      assert.equal(status, 0);
      assert.ok(stdout.includes(JSON.stringify(error.code)));
    }
  },
);

native("notes stay on stderr while a run is recorded", { options: ["--debug"] }, async ({ t, open }) => {
  const file = place(t);
  const client = await open({ options: ["--record", file] });
  await client.finish();
  const lines = client.stderr.trimEnd().split("\n");
  assert.ok(lines.length > 1);
  for (const line of lines) assert.match(line, /^\[[A-Z]+\] \S/);
  assert.ok(!readFileSync(file, "utf8").includes("[HTTP]"));
});

native("a run that was killed is recorded up to then", {}, async ({ t, open, server }) => {
  const file = place(t);
  const client = await open({ options: ["--record", file] });
  client.call("never").catch(() => {});
  await server.seen("POST tools/call");
  client.kill();
  await client.exit();
  for (const shell of shells) {
    const { status, stdout } = replay(shell, file);
    assert.equal(status, 0);
    assert.match(stdout, /POST .*"never"/);
    assert.doesNotMatch(stdout, /exit/);
    assert.match(stdout, /300\.\d{3} +here the machine would act next: Quiet\n$/);
  }
});

native("a recording that cannot be kept is a usage error", {}, async ({ t, connect }) => {
  const file = place(t);
  writeFileSync(file, "");
  for (const [path, reason] of [
    [join(file, "below"), /./],
    [tmpdir(), /not a file/],
  ]) {
    const refused = connect({ options: ["--record", path] });
    assert.equal((await refused.exit()).code, 2, path);
    assert.equal(refused.stderr.trimEnd().split("\n").length, 1);
    assert.match(refused.stderr, reason);
  }
});

native("a recording replaces no file and follows no link: it gets a number, and stderr says which", {}, async ({ t, open }) => {
  const file = place(t, "run.jsonl");
  const beside = (name) => join(file, "..", name);
  const links = [["link", "aim"], ["dangling", "nowhere"], ["run-3.jsonl", "nowhere"]];
  for (const [link, aim] of links) symlinkSync(beside(aim), beside(link));
  writeFileSync(beside("aim"), "kept");
  const [first, ...others] = [
    ["run.jsonl", "run.jsonl"],
    ["run.jsonl", "run-2.jsonl"],
    ["run.jsonl", "run-4.jsonl"],
    ["aim", "aim-2"],
    ["link", "link-2"],
    ["dangling", "dangling-2"],
  ];
  // Two at once: the first goes on while the others come.
  const running = await open({ options: ["--record", beside(first[0])] });
  for (const [name, used] of others) {
    const client = await open({ options: ["--record", beside(name)] });
    await client.finish();
    assert.equal(client.stderr, `[RECORD] ${beside(name)} exists: the recording goes to ${beside(used)}\n`);
    if (process.platform !== "win32") assert.equal(statSync(beside(used)).mode & 0o777, 0o600);
    assert.equal(replay(shells[0], beside(used)).status, 0);
  }
  await running.finish();
  assert.equal(running.stderr, "");
  assert.equal(replay(shells[0], file).status, 0);
  assert.equal(readFileSync(beside("aim"), "utf8"), "kept");
  assert.ok(!existsSync(beside("nowhere")));
});

native("a broken recording is read up to the line that is named", {}, async ({ t, open }) => {
  const file = place(t);
  const client = await open({ options: ["--record", file] });
  await client.finish();
  const lines = readFileSync(file, "utf8").split("\n");
  const broken = [
    ["line 1: not the beginning of a recording", "nonsense"],
    ["line 1: a recording of format 2", lines[0].replace('record":1', 'record":2')],
    ["line 3:", [lines[0], lines[1], lines[2].slice(0, -9)].join("\n")],
    ["line 2:", [lines[0], '{"at":1,"input":"tock"}'].join("\n")],
  ];
  for (const [reason, text] of broken) {
    writeFileSync(file, text);
    for (const shell of shells) {
      const { status, stdout, stderr } = replay(shell, file);
      assert.equal(status, 1);
      assert.ok(stderr.includes(reason), stderr);
      assert.equal(stdout.includes("client:"), reason === "line 3:", stdout);
    }
  }
});

scenario("replay takes no server's options", {}, async ({ shell, connect }) => {
  for (const options of [["replay", "--retries", "1"], ["replay", "http://127.0.0.1:9/mcp", "more"]]) {
    const client = connect({ url: null, options });
    assert.equal((await client.exit()).code, shell.usageError);
    assert.equal(client.stderr.trimEnd().split("\n").length, 1);
  }
});

native(
  "what a peer says is neither a fact of the recording nor a line of its replay",
  { options: ["-v"], server: { tools: attacks, protocolVersion: CONTROLS } },
  async ({ t, open }) => {
    const file = place(t);
    const client = await open({ options: ["--record", file] });
    for (const where of ["error body", "media type", "event id", "event type", "event", "method"])
      await client.call("controls", { where });
    await client.request(CONTROLS);
    await client.finish();
    const facts = readFileSync(file, "utf8").trimEnd().split("\n");
    for (const fact of facts) assert.ok(!Object.hasOwn(JSON.parse(fact), FORGED), fact.slice(0, 200));
    for (const shell of shells) {
      for (const options of [[], ["--debug"]]) {
        const { status, stdout } = replay(shell, file, options);
        assert.equal(status, 0);
        for (const line of stdout.split("\n")) {
          assert.ok(!CONTROL.test(line) && !line.startsWith(FORGED), JSON.stringify(line.slice(0, 300)));
        }
      }
    }
  },
);
