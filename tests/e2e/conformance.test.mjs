// The official conformance suite's client scenarios that need no authorization, through the proxy
// on every shell, and without it for comparison. The suite itself is the judge: its exit code and its
// checks. CONFORMANCE.md gets the scores.

import assert from "node:assert/strict";
import { test } from "node:test";
import { conformance } from "./conformance.mjs";
import { Report } from "./conformance-report.mjs";
import { shells } from "./shells.mjs";

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
          const { isPassed, output } = await conformance({ shell: place, client, scenario, revision });
          if (isPassed) passed += 1;
          report.put([revision, client], place, `${passed} of ${scenarios.length}`);
          if (place !== WITHOUT) assert.ok(isPassed, output);
        });
      }
    }
  }

report.check(rows);
