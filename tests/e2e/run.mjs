// Runs the end-to-end suite: `node run.mjs [test files]` after `npm ci`.
// The tests run on the Node that npm brought (some peers need 22 or later), else on this one.
// Prints the runner's own counts; the exit code is the runner's.

import { spawn } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { missing } from "./shells.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const bin = join(here, "node_modules", ".bin");
const node = existsSync(join(bin, "node")) ? join(bin, "node") : process.execPath;

function fail(lines) {
  for (const line of lines) console.error(`e2e: ${line}`);
  process.exit(2);
}

if (!existsSync(join(here, "node_modules"))) fail(["packages are missing; run `npm ci` in tests/e2e"]);
if (node === process.execPath && Number(process.versions.node.split(".")[0]) < 22) fail(["Node 22 or later is needed"]);
if (missing().length > 0) fail(missing());

const named = process.argv.slice(2);
const files =
  named.length > 0
    ? named
    : readdirSync(here)
        .filter((name) => name.endsWith(".test.mjs"))
        .sort();
const child = spawn(node, ["--test", "--test-reporter=spec", "--test-concurrency=2", ...files], {
  cwd: here,
  stdio: "inherit",
  env: { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` },
});
child.on("exit", (code) => process.exit(code ?? 1));
