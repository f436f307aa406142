// The official conformance suite's client scenarios that need no authorization, through the proxy
// on every shell, and without it for comparison. The suite itself is the judge: its exit code and its
// checks. CONFORMANCE.md gets the scores.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { delimiter, dirname } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Report } from "./conformance-report.mjs";
import { shells } from "./shells.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const suite = fileURLToPath(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));

/** The scenarios of each revision, and the clients that can be put before a server of it. */
const REVISIONS = {
  "2025-11-25": {
    clients: ["v1"],
    scenarios: ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
  },
  "2026-07-28": {
    clients: ["v1", "v2 auto", "v2 pinned"],
    scenarios: [
      "tools_call",
      "request-metadata",
      "http-standard-headers",
      "http-custom-headers",
      "http-invalid-tool-headers",
      "sep-2322-client-request-state",
      "json-schema-ref-no-deref",
      "json-schema-2020-12-preservation",
    ],
  },
};

function conformance({ shell, client, scenario, revision }) {
  const words = [
    "client",
    "--command",
    "node conformance-client.mjs",
    "--scenario",
    scenario,
    "--spec-version",
    revision,
    "--timeout",
    "30000",
  ];
  // The suite starts `node` by name: the one that runs this test comes first.
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const env = { ...process.env, PATH, MCP_PROXY_SHELL: shell, MCP_PROXY_CLIENT: client };
  return new Promise((resolve) => {
    execFile(process.execPath, [suite, ...words], { cwd: here, env }, (error, stdout, stderr) =>
      resolve({ code: error ? error.code : 0, output: stdout + stderr }),
    );
  });
}

/** What stands between the client and the suite's server. */
const WITHOUT = "without the proxy";
const PLACES = [WITHOUT, ...shells.map(({ name }) => name)];

const report = new Report("stdio", ["requirements", "client", ...PLACES]);
const rows = [];

for (const [revision, { clients, scenarios }] of Object.entries(REVISIONS))
  for (const client of clients) {
    rows.push([revision, client]);
    for (const place of PLACES) {
      let passed = 0;
      for (const scenario of scenarios) {
        const name = `conformance ${revision}: ${scenario}, ${client} [${place}]`;
        test(name, { timeout: 60_000 }, async () => {
          const { code, output } = await conformance({ shell: place, client, scenario, revision });
          const [, good, all] = output.match(/Passed: (\d+)\/(\d+)/) ?? ["", "0", "0"];
          const isPassed = code === 0 && Number(good) > 0 && good === all;
          if (isPassed) passed += 1;
          report.put([revision, client], place, `${passed} of ${scenarios.length}`);
          if (place !== WITHOUT) assert.ok(isPassed, output);
        });
      }
    }
  }

report.check(rows);
