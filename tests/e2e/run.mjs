// Runs a suite of end-to-end tests after `npm ci`: `node run.mjs [test files]` that of the shells,
// `node run.mjs worker [test files]` that of the Worker.
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

const words = process.argv.slice(2);
const isWorker = words[0] === "worker";
const missing = isWorker ? workerd.missing() : shells.missing();
if (missing.length > 0) fail(missing);

const folder = isWorker ? "worker" : "";
const named = isWorker ? words.slice(1) : words;
const found = readdirSync(join(here, folder)).filter((name) => name.endsWith(".test.mjs"));
const files = named.length > 0 ? named : found.sort().map((name) => join(folder, name));
const child = spawn(node, ["--test", "--test-reporter=spec", "--test-concurrency=2", ...files], {
  cwd: here,
  stdio: "inherit",
  env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
});
child.on("exit", (code) => process.exit(code ?? 1));
