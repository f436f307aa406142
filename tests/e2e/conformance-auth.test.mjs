// The official conformance suite's client scenarios at protected servers: the native program logs in, with nobody
// at the browser (auth/browser.mjs). CONFORMANCE.md gets the scores.

import assert from "node:assert/strict";
import { test } from "node:test";
import { conformance } from "./conformance.mjs";
import { Report } from "./conformance-report.mjs";

/** What both revisions score. */
const SCORED = [
  "metadata-default",
  "metadata-var1",
  "metadata-var2",
  "metadata-var3",
  "basic-cimd",
  "scope-from-www-authenticate",
  "scope-from-scopes-supported",
  "scope-omitted-when-undefined",
  "scope-step-up",
  "scope-retry-limit",
  "token-endpoint-auth-basic",
  "token-endpoint-auth-post",
  "token-endpoint-auth-none",
  "pre-registration",
];

/** What must fail, and why. */
const NOT_BUILT = {
  "enterprise-managed-authorization": "the proxy has no identity assertion of an enterprise to exchange for a token",
  dpop: "the proxy presents Bearer tokens and makes no proofs of possession",
  "dpop-nonce": "the same",
  "wif-jwt-bearer": "the proxy has no workload identity to exchange for a token",
};

const SETS = [
  { requirements: "2025-11-25", client: "v1", isScored: true, revision: "2025-11-25", scenarios: SCORED },
  {
    requirements: "2026-07-28",
    client: "v2 pinned",
    isScored: true,
    revision: "2026-07-28",
    scenarios: [
      ...SCORED,
      "resource-mismatch",
      "offline-access-scope",
      "offline-access-not-supported",
      "authorization-server-migration",
      "iss-supported",
      "iss-not-advertised",
      "iss-supported-missing",
      "iss-wrong-issuer",
      "iss-unexpected",
      "iss-normalized",
      "metadata-issuer-mismatch",
    ],
  },
  {
    requirements: "2025-03-26",
    client: "v1",
    revision: "2025-03-26",
    scenarios: ["2025-03-26-oauth-metadata-backcompat", "2025-03-26-oauth-endpoint-fallback"],
  },
  {
    requirements: "extensions",
    client: "v1",
    scenarios: ["client-credentials-jwt", "client-credentials-basic", ...Object.keys(NOT_BUILT)],
  },
];

const report = new Report("authorization", ["requirements", "client", "scored", "not scored"]);

for (const { requirements, client, isScored, revision, scenarios } of SETS) {
  let passed = 0;
  for (const name of scenarios)
    test(`conformance ${requirements}: auth/${name}, ${client}`, { timeout: 60_000 }, async () => {
      const { isPassed, output } = await conformance({ shell: "native", client, scenario: `auth/${name}`, revision });
      if (isPassed) passed += 1;
      const score = `${passed} of ${scenarios.length}`;
      report.put([requirements, client], "scored", isScored ? score : "–");
      report.put([requirements, client], "not scored", isScored ? "–" : score);
      assert.equal(isPassed, !(name in NOT_BUILT), output);
    });
}

for (const [name, reason] of Object.entries(NOT_BUILT)) report.note(`- \`auth/${name}\` fails: ${reason}.`);
report.check(SETS.map(({ requirements, client }) => [requirements, client]));
