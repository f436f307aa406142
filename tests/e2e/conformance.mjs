// Runs one client scenario of the official conformance suite: the suite is the server, and
// conformance-client.mjs the client. The suite itself is the judge: its exit code and its checks.

import { execFile } from "node:child_process";
import { delimiter, dirname } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const suite = fileURLToPath(new URL("node_modules/@modelcontextprotocol/conformance/dist/index.js", import.meta.url));

/** `shell` names what stands between both, if anything; a scenario of an extension has no `revision`. */
export function conformance({ shell, client, scenario, revision }) {
  const words = ["client", "--command", "node conformance-client.mjs", "--scenario", scenario, "--timeout", "30000"];
  if (revision) words.push("--spec-version", revision);
  // The suite starts `node` by name: the one that runs this test comes first.
  const PATH = `${dirname(process.execPath)}${delimiter}${process.env.PATH}`;
  const env = { ...process.env, PATH, MCP_PROXY_SHELL: shell, MCP_PROXY_CLIENT: client };
  return new Promise((resolve) => {
    execFile(process.execPath, [suite, ...words], { cwd: here, env }, (error, stdout, stderr) => {
      const output = stdout + stderr;
      const [, good, all] = output.match(/Passed: (\d+)\/(\d+)/) ?? ["", "0", "0"];
      resolve({ isPassed: !error && Number(good) > 0 && good === all, output });
    });
  });
}
