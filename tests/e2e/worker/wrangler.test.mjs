// What an operator has in hand: wrangler.toml, with every setting that it offers, and wrangler itself,
// which brings a workerd of its own. Nothing here needs the internet or an account.

import assert from "node:assert/strict";
import { execFile, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { Output } from "../processes.mjs";
import { dist } from "../shells.mjs";
import { converse, open } from "./scene.mjs";
import { WireClient } from "./wire.mjs";
import { copyModules, startWorker } from "./workerd.mjs";

const HUNG_MS = 120_000;
const MOST_LOOKS = 200;

const root = fileURLToPath(new URL("../../../", import.meta.url));
const read = (name) => readFileSync(join(root, name), "utf8");
const wrangler = join(root, "node_modules/wrangler/bin/wrangler.js");
const toml = read("wrangler.toml");

/** A line that says a setting when the mark of a comment is taken away. */
const COMMENTED = /^# (?=\[|\w+ = )/gm;
const SETTING = /^(?:# )?([A-Z_]+) = (["'])(.*)\2/gm;
const all = toml.replace(COMMENTED, "");
/** Settings by name, with the values that the file shows. */
const offered = Object.fromEntries([...toml.matchAll(SETTING)].map(([, name, , value]) => [name, value]));

// ---- the file -------------------------------------------------------------------------------

test("every setting that the file offers is one that the Worker reads, and the other way round", () => {
  const reads = new Set([...read("worker/src/settings.rs").matchAll(/"([A-Z][A-Z_]+)"/g)].map(([, name]) => name));
  assert.ok(reads.size > 20);
  assert.deepEqual(new Set(Object.keys(offered)).difference(reads), new Set(), "read by nobody");
  const named = new Set(toml.match(/\b[A-Z][A-Z_]+\b/g));
  assert.deepEqual(reads.difference(named), new Set(), "told to nobody");
  const source = read("worker/src/edge.rs") + read("worker/src/platform.js");
  const bindings = new Set([...source.matchAll(/\benv\.(?:\w+\(")?([A-Z_]+)\b/g)].map(([, name]) => name));
  assert.deepEqual(bindings, new Set(["CLIENTS", "RATE_LIMITER", "SESSIONS"]));
  for (const name of bindings) assert.match(all, new RegExp(`^name = "${name}"$`, "m"));
});

for (const other of ["UPSTREAMS", "UPSTREAM_URL"]) {
  test(`the Worker takes every value that the file shows, but for ${other}`, { timeout: HUNG_MS }, async (t) => {
    const worker = await startWorker({ ...offered, [other]: "" });
    t.after(() => worker.stop());
    const response = await fetch(`${worker.url}/health`);
    assert.equal(response.status, 200, await response.text());
  });
}

for (const [what, text, names] of [
  ["the file as it is", toml, ["CLIENTS", "SESSIONS"]],
  ["the file with all that it offers", all, ["CLIENTS", "SESSIONS", "RATE_LIMITER", ...Object.keys(offered)]],
]) {
  test(`wrangler would deploy ${what}`, { timeout: HUNG_MS }, async (t) => {
    const folder = project(t, text);
    const words = [wrangler, "deploy", "--dry-run", "--outdir", join(folder, "out")];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, words, quietly(folder));
    for (const name of names) assert.match(stdout, new RegExp(`env\\.${name}\\b`));
    assert.doesNotMatch(stdout + stderr, /\bconfiguration\b|\berror\b/i);
    assert.ok(existsSync(join(folder, "out/main.js")));
  });
}

// ---- wrangler dev ---------------------------------------------------------------------------

test("a session in the runtime that wrangler brings", { timeout: HUNG_MS }, async (t) => {
  const server = await startSseServer();
  t.after(() => server.close());
  const folder = project(t, toml);
  const variables = Object.entries({ ...open, UPSTREAM_URL: server.url });
  const words = [wrangler, "dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  words.push(...variables.flatMap(([name, value]) => ["--var", `${name}:${value}`]));
  const child = spawn(process.execPath, words, { ...quietly(folder), detached: true });
  t.after(() => living(child.pid).length > 0 && process.kill(-child.pid, "SIGKILL"));
  const output = new Output(child);
  const gone = new Promise((resolve) => child.once("close", resolve));
  await output.said("Ready on ");
  const [, port] = /Ready on http:\/\/127\.0\.0\.1:(\d+)/.exec(output.text);
  assert.match(living(child.pid).join("\n"), /node_modules.*workerd serve/);
  const client = new WireClient({ port: Number(port) });
  t.after(() => client.responses.forEach((response) => response.drop()));
  await converse(server, client);
  child.kill("SIGTERM");
  await gone;
  // What was killed last may take a moment to be gone, and nobody tells us when.
  for (let looks = 0; living(child.pid).length > 0 && looks < MOST_LOOKS; looks += 1);
  assert.deepEqual(living(child.pid), [], "nothing is left behind");
});

/** A folder with this configuration and the built Worker, which need not be built again. */
function project(t, text) {
  assert.ok(existsSync(wrangler), `no wrangler at ${wrangler}; \`npm ci\` at the root of the repository brings it`);
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-wrangler-"));
  t.after(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }));
  copyModules(join(dist, "worker"), folder);
  const own = text.replace(/^\[build\]\n(?:.+\n)+/m, "").replace(/^main = .*$/m, 'main = "main.js"');
  assert.ok(!own.includes("cargo") && own.includes('main = "main.js"'));
  writeFileSync(join(folder, "wrangler.toml"), own);
  return folder;
}

/** Where wrangler runs, without what it would do on the internet or in the home of its user. */
function quietly(folder) {
  const [, quiet] = /^const QUIET.* = \[\n([^\]]*)\];$/m.exec(read("xtask/src/worker.rs"));
  const pairs = [...quiet.matchAll(/\("(\w+)", "(\w+)"\)/g)].map(([, name, value]) => [name, value]);
  const variables = Object.fromEntries(pairs);
  return { cwd: folder, env: { ...process.env, ...variables, XDG_CONFIG_HOME: join(folder, "home") } };
}

/** The processes of a group that have not ended. */
function living(group) {
  const lines = execFileSync("ps", ["-A", "-o", "pgid=,stat=,args="], { encoding: "utf8" }).split("\n");
  return lines.filter((line) => new RegExp(`^ *${group} +[^Z]`).test(line));
}
