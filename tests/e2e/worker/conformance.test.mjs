// The official conformance suite's server scenarios of 2025-11-25 against the Worker before an
// HTTP+SSE server, and once without the Worker, so that a failure tells whose it is. The suite is
// the judge: its exit code, with nothing excused, and its checks.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startConformanceServer } from "../../fixtures/conformance-server.mjs";
import { startWorker } from "./workerd.mjs";

const REVISION = "2025-11-25";
/** How many scenarios the revision is scored by: were they fewer, the suite would ask for less. */
const SCORED = 30;
const HUNG_MS = 180_000;

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const suite = path("../node_modules/@modelcontextprotocol/conformance/dist/index.js");
const baseline = path("conformance-baseline.yml");
// The suite needs Node 22 or later; npm brought one, should this one be older.
const node = Number(process.versions.node.split(".")[0]) < 22 ? path("../node_modules/.bin/node") : process.execPath;

/** The suite's own list of what the revision asks for: `scored` decides, `unscored` is only run. */
const { scored, unscored } = requirements();

test(`conformance ${REVISION}: the fixture itself`, { timeout: HUNG_MS }, async (t) => {
  const server = await startConformanceServer({ transport: "streamableHttp" });
  t.after(() => server.close());
  await judge(t, `http://localhost:${server.port}/mcp`);
});

test(`conformance ${REVISION}: Worker before an HTTP+SSE server`, { timeout: HUNG_MS }, async (t) => {
  const server = await startConformanceServer();
  let worker;
  t.after(async () => {
    await worker?.stop();
    await server.close();
  });
  const own = { ALLOWED_HOSTS: "localhost" };
  worker = await startWorker({ UPSTREAM_URL: server.url, PUBLIC: "1", ALLOW_HTTP: "1", ...own });
  await judge(t, `http://localhost:${worker.port}/mcp`);
});

/** Runs the suite against this URL and fails unless every scored scenario passed. */
async function judge(t, url) {
  const results = await mkdtemp(join(tmpdir(), "mcp-proxy-conformance-"));
  t.after(() => rm(results, { recursive: true }));
  const code = await run(t, url, results);
  const checks = readChecks(results);
  const failed = scored.filter((scenario) => !isPassed(checks.get(scenario)));
  const ofScored = scored.flatMap((scenario) => checks.get(scenario) ?? []);
  console.log(`${t.name}: ${scored.length - failed.length}/${scored.length} scored scenarios, ${counts(ofScored)}`);
  for (const { scenario, reason } of unscored)
    console.log(`${t.name}: not scored (${reason}): ${scenario}, ${counts(checks.get(scenario) ?? [])}`);
  // The suite itself says which scenario has failed, but not why.
  for (const [scenario, list] of checks)
    for (const { status, id, errorMessage } of list)
      if (BAD.includes(status)) console.log(`${t.name}: ${scenario}: ${status} ${id}: ${errorMessage}`);
  assert.equal(scored.length, SCORED, "scored scenarios");
  assert.deepEqual(failed, [], "scored scenarios that did not pass");
  assert.equal(code, 0, "the suite's exit code");
}

/** Resolves with the exit code. What the suite prints goes through this process: it has one writer. */
async function run(t, url, results) {
  const words = ["server", "--url", url, "--requirements", REVISION, "--expected-failures", baseline, "-o", results];
  const child = spawn(node, [suite, ...words], { stdio: ["ignore", "pipe", "pipe"], signal: t.signal });
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => process.stdout.write(chunk));
  const [code] = await once(child, "close");
  return code;
}

/** Scenario → its checks, from the files that the suite has left; a scenario that broke off left none. */
function readChecks(results) {
  const named = /^server-(?<scenario>.+)-\d{4}-\d\d-\d\dT/;
  const checks = new Map();
  for (const folder of readdirSync(results)) {
    const file = join(results, folder, "checks.json");
    if (existsSync(file)) checks.set(folder.match(named).groups.scenario, JSON.parse(readFileSync(file, "utf8")));
  }
  return checks;
}

const BAD = ["FAILURE", "WARNING"];

/** A scenario without a verdict has not passed, nor has one with a warning. */
const isPassed = (checks = []) => of(checks, "SUCCESS") > 0 && !checks.some(({ status }) => BAD.includes(status));

const of = (checks, status) => checks.filter((check) => check.status === status).length;

const counts = (checks) =>
  `${of(checks, "SUCCESS")} checks passed, ${of(checks, "FAILURE")} failed, ${of(checks, "WARNING")} warnings`;

function requirements() {
  const { parse } = createRequire(suite)("yaml");
  const { server, not_scored } = parse(readFileSync(join(suite, "../../requirements", `${REVISION}.yaml`), "utf8"));
  return { scored: server, unscored: not_scored.filter(({ leg }) => leg === "server") };
}
