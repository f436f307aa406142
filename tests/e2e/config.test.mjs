// `mcp-proxy config`, and the help, the completions and the manual pages. Native only.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { environment, shells } from "./shells.mjs";

const [native] = shells;
const URL = "https://docs.example/mcp";

/** Runs a command in a home of its own; resolves with its exit code and what it printed. */
function run(home, args, { input, env = {} } = {}) {
  return new Promise((resolve) => {
    const XDG_CONFIG_HOME = join(home, ".config");
    const child = spawn(native.command, args, {
      cwd: home,
      env: environment({ HOME: home, USERPROFILE: home, APPDATA: XDG_CONFIG_HOME, XDG_CONFIG_HOME, ...env }),
    });
    const said = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"]) child[name].on("data", (chunk) => (said[name] += chunk));
    child.once("close", (code) => resolve({ code, ...said }));
    child.stdin.end(input);
  });
}

/** A test with a home of its own. */
const home = (name, body) =>
  test(name, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-e2e-home-"));
    t.after(() => rmSync(folder, { recursive: true }));
    await body(folder, (args, options) => run(folder, args, options));
  });

const put = (path, text) => {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
};

/** client, member of the file, where the file is on Linux, what an entry has besides command and arguments */
const CLIENTS = [
  ["claude-desktop", "mcpServers", [".config", "Claude", "claude_desktop_config.json"], {}],
  ["claude-code", "mcpServers", [".mcp.json"], { type: "stdio" }],
  ["vscode", "servers", [".config", "Code", "User", "mcp.json"], { type: "stdio" }],
  ["cursor", "mcpServers", [".cursor", "mcp.json"], {}],
  ["zed", "context_servers", [".config", "zed", "settings.json"], {}],
];
const linux = process.platform === "linux";

for (const [client, member, path, extra] of CLIENTS) {
  const entry = { ...extra, command: native.command, args: [URL] };

  home(`config ${client} prints the entry and writes nothing`, async (folder, config) => {
    const { code, stdout, stderr } = await config(["config", client, URL]);
    assert.equal(code, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), { [member]: { "docs-example": entry } });
    assert.ok(!existsSync(join(folder, ...path)));
    assert.match(stderr, new RegExp(`reads this from .*${path.at(-1)}`));
  });

  home(`config ${client} --write adds the entry to a new file`, async (folder, config) => {
    const file = join(folder, ...path);
    const { code, stdout, stderr } = await config(["config", client, URL, "--write", "--yes", "--name", "docs"]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^\+.*docs/m);
    if (!linux) return;
    assert.deepEqual(JSON.parse(readFileSync(file, "utf8")), { [member]: { docs: entry } });
    const again = await config(["config", client, URL, "--write", "--yes", "--name", "docs"]);
    assert.match(again.stdout, /is there already/);
    assert.ok(!existsSync(`${file}.bak`));
  });
}

if (linux) {
  const path = [".config", "zed", "settings.json"];
  const BEFORE = `// my settings\n{\n  "theme": "One", // dark\n  "context_servers": {\n    "other": { "command": "x" },\n  },\n}\n`;

  home("config --write keeps comments, other servers, permissions and a backup", async (folder, config) => {
    const file = join(folder, ...path);
    put(file, BEFORE);
    chmodSync(file, 0o600);
    const { code, stdout } = await config(["config", "zed", URL, "--write", "--yes"]);
    assert.equal(code, 0);
    const after = readFileSync(file, "utf8");
    for (const line of ["// my settings", '"theme": "One", // dark', '"other": { "command": "x" }'])
      assert.ok(after.includes(line), after);
    assert.ok(after.includes(`"${URL}"`));
    assert.equal(readFileSync(`${file}.bak`, "utf8"), BEFORE);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.ok(stdout.includes(`${file}.bak`), stdout);
    await config(["config", "zed", URL, "--write", "--yes", "--name", "second"]);
    assert.equal(readFileSync(`${file}.bak1`, "utf8"), after);
  });

  home("config --write shows the change first, and a no changes nothing", async (folder, config) => {
    const file = join(folder, ...path);
    put(file, BEFORE);
    const { code, stderr, stdout } = await config(["config", "zed", URL, "--write"], { input: "n\n" });
    assert.equal(code, 1);
    assert.match(stdout, /^\+.*docs-example/m);
    assert.match(stderr, /nothing was written/);
    assert.equal(readFileSync(file, "utf8"), BEFORE);
  });

  home("config --write replaces a different entry only with --force", async (folder, config) => {
    const file = join(folder, ...path);
    await config(["config", "zed", URL, "--write", "--yes"]);
    const before = readFileSync(file, "utf8");
    const other = ["config", "zed", `${URL}/v2`, "--name", "docs-example", "--write", "--yes"];
    const refused = await config(other);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /different entry `docs-example`.*--force/);
    assert.equal(readFileSync(file, "utf8"), before);
    assert.equal((await config([...other, "--force"])).code, 0);
    assert.ok(readFileSync(file, "utf8").includes(`${URL}/v2`));
  });

  for (const [what, text] of [
    ["is not JSON", "not json"],
    ["has an array", "[]"],
    ["has servers that are a list", '{"context_servers": []}'],
  ])
    home(`config --write leaves a file alone that ${what}`, async (folder, config) => {
      const file = join(folder, ...path);
      put(file, text);
      const { code, stderr } = await config(["config", "zed", URL, "--write", "--yes"]);
      assert.equal(code, 1);
      assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
      assert.equal(readFileSync(file, "utf8"), text);
    });
}

home("config names variables and never has their values", async (_folder, config) => {
  const options = ["--bearer-token-env", "DOCS_TOKEN", "-H", "X-Key: ${DOCS_KEY}"];
  for (const [client] of CLIENTS) {
    const env = { DOCS_TOKEN: "s3cr3t", DOCS_KEY: "k3y" };
    const { code, stdout, stderr } = await config(["config", client, URL, ...options], { env });
    assert.equal(code, 0, stderr);
    assert.ok(!/s3cr3t|k3y/.test(stdout + stderr), stdout + stderr);
    assert.ok(stdout.includes("DOCS_TOKEN"), stdout);
  }
});

home("an entry that config prints runs", async (folder, config) => {
  const { stdout } = await config(["config", "generic", "http://127.0.0.1:9/mcp", "--retries", "0"]);
  const [{ command, args }] = Object.values(JSON.parse(stdout).mcpServers);
  const request = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } };
  const answer = execFileSync(command, args, {
    cwd: folder,
    env: environment(),
    input: `${JSON.stringify(request)}\n`,
  });
  assert.match(JSON.parse(answer).error.message, /127\.0\.0\.1:9/);
});

for (const [args, message] of [
  [["config", "emacs", URL], /expected claude-desktop, claude-code, vscode, cursor, zed, generic/],
  [["config", "zed"], /no URL/],
  [["config", "zed", URL, "--force"], /need --write/],
  [["config", "generic", URL, "--write"], /no file to write/],
  [["confg", "zed", URL], /did you mean config\?/],
  [["docter", URL], /did you mean doctor\?/],
  [["doctor", URL, "--dep"], /did you mean --deep\?/],
  [["completions", "tcsh"], /bash/],
  [["help", "nothing"], /no command/],
])
  home(`mcp-proxy ${args.join(" ")} is a usage error of one line`, async (_folder, config) => {
    const { code, stdout, stderr } = await config(args);
    assert.equal(code, 2, stderr);
    assert.equal(stdout, "");
    assert.equal(stderr.trimEnd().split("\n").length, 1, stderr);
    assert.match(stderr, message);
  });

const COMMANDS = ["login", "logout", "auth status", "auth token", "doctor", "config", "replay", "completions", "man"];

home("the help groups the options, and every command has its own", async (_folder, config) => {
  const { code, stdout } = await config(["--help"]);
  assert.equal(code, 0);
  for (const heading of ["Server:", "Headers:", "Authorization:", "Limits:", "TLS and network:", "Diagnosis:"])
    assert.ok(stdout.includes(heading), heading);
  for (const command of COMMANDS) {
    assert.ok(stdout.includes(command.split(" ")[0]), command);
    const own = await config([...command.split(" "), "--help"]);
    assert.equal(own.code, 0, own.stderr);
    assert.match(own.stdout, new RegExp(`Usage: mcp-proxy ${command}\\b`));
    assert.ok(!own.stdout.includes("\x1b"));
  }
});

const has = (program) => {
  try {
    execFileSync(program, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

home("the completions are a script that bash accepts, and it completes", async (folder, config) => {
  for (const shell of ["bash", "zsh", "fish", "powershell", "elvish"]) {
    const { code, stdout } = await config(["completions", shell]);
    assert.equal(code, 0);
    assert.ok(stdout.includes("doctor") && stdout.includes("era"), shell);
  }
  if (!has("bash")) return;
  const { stdout } = await config(["completions", "bash"]);
  const script = join(folder, "completions.bash");
  writeFileSync(script, stdout);
  const [, complete] = stdout.match(/complete -F (\S+)/);
  const words = "COMP_WORDS=(mcp-proxy doc) COMP_CWORD=1";
  const lines = `source ${script}; ${words}; ${complete} mcp-proxy doc mcp-proxy; echo "\${COMPREPLY[@]}"`;
  assert.equal(execFileSync("bash", ["-c", lines], { encoding: "utf8" }).trim(), "doctor");
});

home("the manual page is roff with every option of its command", async (_folder, config) => {
  const { code, stdout } = await config(["man"]);
  assert.equal(code, 0);
  assert.match(stdout, /^\.TH mcp-proxy 1/m);
  for (const option of ["max\\-message\\-bytes", "oauth\\-grant"]) assert.ok(stdout.includes(option), option);
  const doctor = await config(["man", "doctor"]);
  assert.ok(doctor.stdout.includes("deep"));
});
