// The shells under test: the native binary, and the component on a stock wasmtime.
// Where they come from: MCP_PROXY_DIST (default: dist/ at the root of the repository) and
// WASMTIME (default: `wasmtime` on PATH). A missing one fails the suite; nothing is skipped.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const windows = process.platform === "win32";

export const dist = resolve(process.env.MCP_PROXY_DIST ?? join(here, "../../dist"));
export const component = join(dist, "mcp-proxy.wasm");
export const wasmtime = process.env.WASMTIME ?? "wasmtime";

const native = {
  name: "native",
  command: join(dist, windows ? "mcp-proxy.exe" : "mcp-proxy"),
  /** Command-line arguments; the environment reaches a native process by itself. */
  args: (url, options = []) => [...options, ...(url === null ? [] : [url])],
  usageError: 2,
};

const stock = {
  name: "wasmtime",
  command: wasmtime,
  /** Command-line arguments; the guest sees only the variables that are named here. */
  args: (url, options = [], env = {}) => [
    "run",
    "-S",
    "http",
    "--allow-precompiled",
    ...Object.entries(env).flatMap(([name, value]) => ["--env", `${name}=${value}`]),
    precompiled(),
    ...native.args(url, options),
  ],
  // WASI 0.2 has no exit codes, only success and failure: a component cannot say 2.
  usageError: 1,
};

/** The documented command of the stock shell, word for word: compiles at every start. */
export const documented = {
  name: "wasmtime, as documented",
  command: wasmtime,
  args: (url, options = []) => ["run", "-S", "http", component, ...native.args(url, options)],
};

export const shells = [native, stock];

/** This process's environment without what would steer a proxy, with a token store of its own, and with `added`. */
export function environment(added = {}) {
  const steering = /^(((https?|all|no)_proxy)|debug|mcp_proxy_headers)$/i;
  const kept = Object.entries(process.env).filter(([name]) => !steering.test(name));
  return { ...Object.fromEntries(kept), MCP_PROXY_CONFIG_DIR: settings(), ...added };
}

let folder;

/** A folder for the proxies' settings, which ends with this process. */
function settings() {
  if (folder) return folder;
  folder = mkdtempSync(join(tmpdir(), "mcp-proxy-e2e-settings-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** What is missing to run the suite, as sentences. */
export function missing() {
  const found = (command) =>
    existsSync(command) ||
    (process.env.PATH ?? "")
      .split(delimiter)
      .some((dir) => existsSync(join(dir, windows ? `${command}.exe` : command)));
  const lines = [];
  if (!existsSync(native.command))
    lines.push(`no native binary at ${native.command}; build it with \`cargo xtask build\``);
  if (!existsSync(component)) lines.push(`no component at ${component}; build it with \`cargo xtask build\``);
  if (!found(wasmtime)) lines.push(`no ${wasmtime}; set WASMTIME to a stock wasmtime of the pinned version`);
  return lines;
}

let cached;

/**
 * The component compiled ahead of time, so that each of the many starts takes milliseconds.
 * Named by what it was made from, and moved into place whole: test files may ask at once.
 */
function precompiled() {
  if (cached) return cached;
  const version = execFileSync(wasmtime, ["--version"]);
  const digest = createHash("sha256").update(version).update(readFileSync(component)).digest("hex").slice(0, 16);
  cached = join(tmpdir(), `mcp-proxy-e2e-${digest}.cwasm`);
  if (!existsSync(cached)) {
    const partial = `${cached}.${process.pid}`;
    execFileSync(wasmtime, ["compile", component, "-o", partial], { stdio: ["ignore", "ignore", "inherit"] });
    renameSync(partial, cached);
  }
  return cached;
}
