// The official conformance suite's client scenarios of 2025-11-25 that need no authorization,
// through the proxy on every shell. The suite itself is the judge: its exit code and its checks.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { delimiter, dirname } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { shells } from "./shells.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const suite = fileURLToPath(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));

function conformance(shell, scenario) {
  const words = [
    "client",
    "--command",
    "node conformance-client.mjs",
    "--scenario",
    scenario,
    "--spec-version",
    "2025-11-25",
    "--timeout",
    "30000",
  ];
  // The suite starts `node` by name: the one that runs this test comes first.
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const options = { cwd: here, env: { ...process.env, PATH, MCP_PROXY_SHELL: shell.name } };
  return new Promise((resolve) => {
    execFile(process.execPath, [suite, ...words], options, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, output: stdout + stderr }),
    );
  });
}

for (const scenario of ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"]) {
  for (const shell of shells) {
    test(`conformance 2025-11-25: ${scenario} [${shell.name}]`, { timeout: 60_000 }, async () => {
      const { code, output } = await conformance(shell, scenario);
      assert.equal(code, 0, output);
      const [, passed, total] = output.match(/Passed: (\d+)\/(\d+)/) ?? assert.fail(output);
      assert.ok(Number(passed) > 0 && passed === total, output);
    });
  }
}
