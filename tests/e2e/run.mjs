// Runs a suite of end-to-end tests after `npm ci`: `node run.mjs [test files]` that of the shells,
// `node run.mjs worker [test files]` that of the Worker, `node run.mjs chaos` the chaos of both.
// The tests run on the Node that npm brought (some peers need 22 or later), else on this one.
// Prints the runner's own counts; the exit code is the runner's.

import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import * as shells from "./shells.mjs";
import * as workerd from "./worker/workerd.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const bin = join(here, "node_modules", ".bin");
const node = existsSync(join(bin, "node")) ? join(bin, "node") : process.execPath;

function fail(lines) {
  for (const line of lines) console.error(`e2e: ${line}`);
  process.exit(2);
}

if (!existsSync(join(here, "node_modules"))) fail(["packages are missing; run `npm ci` in tests/e2e"]);
if (node === process.execPath && Number(process.versions.node.split(".")[0]) < 22) fail(["Node 22 or later is needed"]);

/** What runs long, and alone. */
const CHAOS = "chaos.test.mjs";
const [first, ...rest] = process.argv.slice(2);
const suites = { worker: ["worker"], chaos: ["", "worker"] };
const folders = suites[first] ?? [""];
const missing = [
  ...(folders.includes("") ? shells.missing() : []),
  ...(folders.includes("worker") ? workerd.missing() : []),
];
if (missing.length > 0) fail(missing);

const testsIn = (folder) =>
  readdirSync(join(here, folder))
    .filter((name) => name.endsWith(".test.mjs") && (name === CHAOS) === (first === "chaos"))
    .sort()
    .map((name) => join(folder, name));
const named = suites[first] ? rest : process.argv.slice(2);
const files = named.length > 0 ? named : folders.flatMap(testsIn);
const child = spawn(node, ["--test", "--test-reporter=spec", "--test-concurrency=2", ...files], {
  cwd: here,
  stdio: "inherit",
  env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
});
child.on("exit", (code) => process.exit(code ?? 1));
