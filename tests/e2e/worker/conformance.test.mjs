// The official conformance suite's server scenarios against the Worker, with the requirements of both
// revisions, before fixtures of both eras; and against the same fixture without the Worker, so that a
// failure tells whose it is. The suite is the judge: its exit code and its checks. CONFORMANCE.md
// gets the scores.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { startModernConformanceServer } from "../../fixtures/conformance-modern.mjs";
import { startConformanceServer } from "../../fixtures/conformance-server.mjs";
import { Report } from "../conformance-report.mjs";
import { startWorker } from "./workerd.mjs";

const [LEGACY, MODERN] = ["2025-11-25", "2026-07-28"];
/** How many scenarios a revision is scored by: were they fewer, the suite would ask for less. */
const SCORED = { [LEGACY]: 30, [MODERN]: 37 };
const HUNG_MS = 300_000;

/** The servers. `speaks` is the revision that one has without the Worker: the suite cannot speak HTTP+SSE. */
const FIXTURES = [
  { name: "HTTP+SSE, 2024-11-05", start: () => startConformanceServer({ transport: "sse" }) },
  {
    name: "Streamable HTTP, 2025-11-25",
    speaks: LEGACY,
    start: () => startConformanceServer({ transport: "streamableHttp" }),
  },
  { name: "modern, 2026-07-28", speaks: MODERN, start: startModernConformanceServer },
];

/** Scenario → why it fails, for each server and revision. Another failure fails the test, and so does a pass. */
const EXCUSED = {};
const excusedOf = (name, revision) => EXCUSED[`${name}: ${revision}`] ?? {};

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const suite = path("../node_modules/@modelcontextprotocol/conformance/dist/index.js");
// The suite needs Node 22 or later; npm brought one, should this one be older.
const node = Number(process.versions.node.split(".")[0]) < 22 ? path("../node_modules/.bin/node") : process.execPath;

const [DIRECTLY, CHECKS, UNSCORED] = ["without the Worker", "checks that passed", "not scored"];
const THROUGH = "through the Worker";
const report = new Report("worker", ["server", "requirements", DIRECTLY, THROUGH, CHECKS, UNSCORED]);
const rows = FIXTURES.flatMap(({ name }) => [LEGACY, MODERN].map((revision) => [name, revision]));

for (const fixture of FIXTURES)
  for (const revision of [LEGACY, MODERN]) {
    const row = [fixture.name, revision];

    if (fixture.speaks)
      test(`conformance ${revision}: ${fixture.name}, the fixture itself`, { timeout: HUNG_MS }, async (t) => {
        const server = await fixture.start();
        t.after(() => server.close());
        const found = await judge(t, revision, `http://localhost:${server.port}/mcp`, {});
        report.put(row, DIRECTLY, found.score);
        if (revision === fixture.speaks) assertVerdict(found, revision, {});
      });
    else report.put(row, DIRECTLY, "–");

    test(`conformance ${revision}: Worker before ${fixture.name}`, { timeout: HUNG_MS }, async (t) => {
      const server = await fixture.start();
      let worker;
      t.after(async () => {
        await worker?.stop();
        await server.close();
      });
      const own = { ALLOWED_HOSTS: "localhost" };
      worker = await startWorker({ UPSTREAM_URL: server.url, PUBLIC: "1", ALLOW_HTTP: "1", ...own });
      const excused = excusedOf(...row);
      const found = await judge(t, revision, `http://localhost:${worker.port}/mcp`, excused);
      report.put(row, THROUGH, found.score);
      report.put(row, CHECKS, found.passed);
      report.put(row, UNSCORED, found.unscored);
      for (const [scenario, why] of Object.entries(excused))
        report.note(`- ${row.join(", ")}: \`${scenario}\` fails. ${why}`);
      assertVerdict(found, revision, excused);
    });
  }

report.check(rows);

/**
 * Runs the suite against this URL. The suite itself refuses a failure that is not excused, and an excuse
 * that is not needed.
 */
async function judge(t, revision, url, excused) {
  const { scored, unscored } = requirements(revision);
  const results = await mkdtemp(join(tmpdir(), "mcp-proxy-conformance-"));
  t.after(() => rm(results, { recursive: true }));
  const baseline = join(results, "baseline.yml");
  writeFileSync(baseline, JSON.stringify({ server: Object.keys(excused), client: [] }));
  const code = await run(t, revision, url, results, baseline);
  const checks = readChecks(results);
  const failed = scored.filter((scenario) => !isPassed(checks.get(scenario)));
  const ofScored = scored.flatMap((scenario) => checks.get(scenario) ?? []);
  console.log(`${t.name}: ${scored.length - failed.length}/${scored.length} scored scenarios, ${counts(ofScored)}`);
  for (const { scenario, reason } of unscored)
    console.log(`${t.name}: not scored (${reason}): ${scenario}, ${counts(checks.get(scenario) ?? [])}`);
  // The suite itself says which scenario has failed, but not why.
  for (const scenario of scored)
    for (const { status, id, errorMessage } of checks.get(scenario) ?? [])
      if (BAD.includes(status)) console.log(`${t.name}: ${scenario}: ${status} ${id}: ${errorMessage}`);
  const others = unscored.filter(({ scenario }) => isPassed(checks.get(scenario)));
  return {
    code,
    failed,
    scored: scored.length,
    score: `${scored.length - failed.length} of ${scored.length}`,
    passed: `${of(ofScored, "SUCCESS")}`,
    unscored: `${others.length} of ${unscored.length}`,
  };
}

/** Fails unless exactly the excused scenarios have failed. */
function assertVerdict({ code, failed, scored }, revision, excused) {
  assert.equal(scored, SCORED[revision], "scored scenarios");
  assert.deepEqual(failed.sort(), Object.keys(excused).sort(), "scored scenarios that did not pass");
  assert.equal(code, 0, "the suite's exit code");
}

/** Resolves with the exit code. What the suite prints goes through this process: it has one writer. */
async function run(t, revision, url, results, baseline) {
  const words = ["server", "--url", url, "--requirements", revision, "--expected-failures", baseline, "-o", results];
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

/** The suite's own list of what a revision asks for: `scored` decides, `unscored` is only run. */
function requirements(revision) {
  const { parse } = createRequire(suite)("yaml");
  const { server, not_scored } = parse(readFileSync(join(suite, "../../requirements", `${revision}.yaml`), "utf8"));
  return { scored: server, unscored: not_scored.filter(({ leg }) => leg === "server") };
}
