// The built Worker on a real workerd: the runtime of Cloudflare as a process of its own, with the
// storage of Durable Objects in a folder, so that it can be killed and started again.
// It serves a bundle of dist/ (MCP_PROXY_DIST says where that is) and reaches private addresses only.

import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { dist } from "../shells.mjs";

/** What a release has, and what panics when a test tells it to. */
const BUNDLES = ["worker", "worker-crash"];
const settings = fileURLToPath(new URL("../../../wrangler.toml", import.meta.url));
/** What stands for the platform's rate limiter, which workerd alone does not have. */
const LIMITER = `
class Ratelimit {
  #counts = new Map();
  constructor(most) {
    this.most = most;
  }
  async limit({ key }) {
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return { success: count <= this.most };
  }
}
export default ({ most }) => new Ratelimit(most);
`;
const KINDS = { ".js": "esModule", ".wasm": "wasm" };
/** The classes of objects, and the bindings that lead to them. */
const CLASSES = { Session: "SESSIONS", Client: "CLIENTS" };
/** What the one service has that holds the objects. */
const OBJECTS = `
  durableObjectNamespaces = [${Object.keys(CLASSES)
    .map((name) => `(className = "${name}", uniqueKey = "mcp-proxy-${name.toLowerCase()}", enableSql = true)`)
    .join(", ")}],
  durableObjectStorage = (localDisk = "storage"),`;

/** The program itself: what npm puts on the path may be a script that leaves it behind. */
export const program = () => createRequire(import.meta.url)("workerd").default;

/** What is missing to run the tests of the Worker, as sentences. */
export const missing = () =>
  BUNDLES.map((name) => join(dist, name))
    .filter((folder) => !existsSync(join(folder, "main.js")))
    .map((folder) => `no Worker at ${folder}; \`cargo xtask test worker\` builds it`);

/**
 * Starts the Worker with these variables and secrets (what is not a string becomes JSON) and
 * resolves once it listens. What it stores is kept in `dir`, or in a folder that goes with `stop`;
 * `bundle` is the one of dist/ that it serves. With `most`, it has a rate limiter for so many of a key;
 * with `apart`, its sessions have another isolate than its edge; `authority` is whom it trusts in TLS.
 */
export async function startWorker(variables = {}, { dir, bundle = "worker", ...more } = {}) {
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-worker-"));
  const storage = dir ?? join(folder, "storage");
  mkdirSync(storage, { recursive: true });
  const modules = copyModules(join(dist, bundle), folder);
  const printed = new Printed();
  let child;

  async function start(port) {
    writeFileSync(join(folder, "config.capnp"), config({ modules, variables, storage, port, ...more }));
    child = new Process(folder, (text) => printed.add(text));
    return child.port().catch((error) => {
      throw new Error(`${error.message}:\n${printed.text}`);
    });
  }

  const port = await start(0);
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    /** Where it stores. */
    dir: storage,
    /** What it has printed so far, in all its lives. */
    stderr: () => printed.text,
    /** How often it has printed this. */
    count: (words) => printed.count(words),
    /** Resolves once it has printed this at least `times` times. */
    said: (words, times = 1) => printed.said(words, times),
    /** How much memory the process has, in bytes. */
    memory: () => child.memory("VmRSS"),
    /** How much it had at most. */
    peak: () => child.memory("VmHWM"),
    /** Ends it without a word, as a crash would; what it has stored stays. */
    kill: () => child.kill(),
    /** Ends it in the same way and starts it again, at the same address and with what it has stored. */
    async restart() {
      await child.kill();
      await start(port);
    },
    /** Ends it and removes what it leaves behind. */
    async stop() {
      await child.kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What all lives of it have printed. */
class Printed {
  text = "";
  #watchers = new Set();

  add(text) {
    this.text += text;
    for (const watcher of [...this.#watchers]) watcher();
  }

  count(words) {
    return this.text.split(words).length - 1;
  }

  said(words, times) {
    return new Promise((resolve) => {
      const attempt = () => {
        if (this.count(words) < times) return;
        this.#watchers.delete(attempt);
        resolve();
      };
      this.#watchers.add(attempt);
      attempt();
    });
  }
}

/** Copies the bundle, which may be built anew meanwhile; returns its modules, the main one first. */
export function copyModules(bundle, folder) {
  const names = readdirSync(bundle).filter((name) => KINDS[extname(name)]);
  for (const name of names) copyFileSync(join(bundle, name), join(folder, name));
  return names.sort((one, other) => (other === "main.js") - (one === "main.js"));
}

/** One life of workerd. */
class Process {
  static #running = new Set();
  #child;
  #gone;

  static {
    // A test that fails on its way must not leave a server behind.
    process.on("exit", () => {
      for (const child of Process.#running) child.kill("SIGKILL");
    });
  }

  constructor(folder, onText) {
    this.#child = spawn(program(), ["serve", "config.capnp", "--control-fd=3"], {
      cwd: folder,
      stdio: ["ignore", "pipe", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) stream.setEncoding("utf8").on("data", onText);
    Process.#running.add(this.#child);
    this.#gone = new Promise((resolve) => this.#child.once("close", resolve));
    this.#gone.then(() => Process.#running.delete(this.#child));
  }

  /** Resolves with the port once it listens; fails if it ends before. */
  port() {
    const listening = new Promise((resolve) => {
      createInterface({ input: this.#child.stdio[3] }).on("line", (line) => {
        const { event, port } = JSON.parse(line);
        if (event === "listen") resolve(port);
      });
    });
    const failed = this.#gone.then((code) => {
      throw new Error(`workerd ended with ${code} before it listened`);
    });
    failed.catch(() => {});
    return Promise.race([listening, failed]);
  }

  /** Where there is no /proc, there is nothing to see. */
  memory(name) {
    const status = `/proc/${this.#child.pid}/status`;
    if (!existsSync(status)) return undefined;
    return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(readFileSync(status, "utf8"))[1]);
  }

  kill() {
    this.#child.kill("SIGKILL");
    return this.#gone;
  }
}

/**
 * The configuration, in the words of workerd.capnp. The variables named in `environment` are those
 * of the process. Without `storage`, its folder has to be named on the command line.
 */
export function config({ modules, variables, environment = [], storage, port, most, apart = false, authority }) {
  const bindings = bindingsOf(variables, environment, most);
  const worker = (service, own) => {
    const objects = Object.entries(CLASSES).map(
      ([name, binding]) => `(name = "${binding}", durableObjectNamespace = (className = "${name}"${service}))`,
    );
    return workerOf(modules, [...bindings, ...objects], own);
  };
  const together = worker("", OBJECTS);
  const edge = worker(`, serviceName = "sessions"`, "");
  const workers = apart ? { main: edge, sessions: together } : { main: together };
  const services = Object.keys(workers).map((name) => `(name = ${text(name)}, worker = .${name}Worker)`);
  const trust = authority === undefined ? "" : `, tlsOptions = (trustedCertificates = [${text(authority)}])`;
  services.push(`(name = "internet", network = (allow = ["private"]${trust}))`);
  const disk = storage === undefined ? "" : `path = ${text(storage)}, `;
  services.push(`(name = "storage", disk = (${disk}writable = true))`);
  const constants = Object.entries(workers).map(([name, value]) => `const ${name}Worker :Workerd.Worker = ${value};\n`);
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = ${list(services)},
  extensions = [(modules = [(name = "test:limiter", internal = true, esModule = ${text(LIMITER)})])],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);

${constants.join("\n")}`;
}

/** What the Worker finds in its environment beside its sessions. */
function bindingsOf(variables, environment, most) {
  const bindings = Object.entries(variables).map(([name, value]) =>
    typeof value === "string"
      ? `(name = ${text(name)}, text = ${text(value)})`
      : `(name = ${text(name)}, json = ${text(JSON.stringify(value))})`,
  );
  bindings.push(...environment.map((name) => `(name = ${text(name)}, fromEnvironment = ${text(name)})`));
  if (most !== undefined) {
    const inner = `[(name = "most", json = "${most}")]`;
    bindings.push(`(name = "RATE_LIMITER", wrapped = (moduleName = "test:limiter", innerBindings = ${inner}))`);
  }
  return bindings;
}

/** A Worker of these modules, with what else it has. */
function workerOf(modules, bindings, own) {
  const { date, flags } = compatibility();
  const sources = modules.map((name) => `(name = ${text(name)}, ${KINDS[extname(name)]} = embed ${text(name)})`);
  return `(
  modules = ${list(sources)},
  bindings = ${list(bindings)},
  compatibilityDate = ${text(date)},
  compatibilityFlags = [${flags.map(text).join(", ")}],${own}
)`;
}

const list = (items) => `[\n${items.map((item) => `    ${item},\n`).join("")}  ]`;

/** A string, quoted: UTF-8, with escapes for bytes that are not printed. */
function text(string) {
  const escaped = string.replace(/["\\]/g, "\\$&").replace(/[\0-\x1f]/g, (byte) => {
    return `\\x${byte.charCodeAt(0).toString(16).padStart(2, "0")}`;
  });
  return `"${escaped}"`;
}

/** The date and the flags that the Worker is deployed with. */
function compatibility() {
  const toml = readFileSync(settings, "utf8");
  const [, date] = /^compatibility_date = "(.+)"$/m.exec(toml);
  const [, flags] = /^compatibility_flags = (\[.*\])$/m.exec(toml) ?? [null, "[]"];
  return { date, flags: JSON.parse(flags) };
}
