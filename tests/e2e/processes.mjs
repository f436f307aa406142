// Servers as processes of their own, exactly as they are installed: what they print says what they
// do, and they can be killed in the middle of it.

import { spawn } from "node:child_process";
import net from "node:net";
import { fileURLToPath } from "node:url";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));

/** The Python with the packages of the Python server; `cargo xtask test e2e` says where it is. */
export const python = process.env.MCP_PROXY_PYTHON;

/** Why tests with the Python server are skipped, if they are. */
export const withoutPython = python ? false : "no Python 3.11 with the pinned packages (MCP_PROXY_PYTHON is not set)";

/** The Python with the SDK's second generation and FastMCP. */
export const python2 = process.env.MCP_PROXY_PYTHON2;

/** Why tests with them are skipped, if they are. */
export const withoutPython2 = python2 ? false : "no Python 3.11 with mcp 2 and FastMCP (MCP_PROXY_PYTHON2 is not set)";

/** The reference server "everything"; `transport` is "streamableHttp" or "sse". */
export const startEverything = (transport, port) =>
  start(port, (chosen) => ({
    command: process.execPath,
    args: [path("node_modules/@modelcontextprotocol/server-everything/dist/index.js"), transport],
    env: { PORT: String(chosen) },
    ready: `on port ${chosen}`,
    route: ROUTES[transport],
  }));

/** The server on the Python SDK, over HTTP+SSE. */
export const startPython = (port) =>
  start(port, (chosen) => ({
    command: python,
    args: [path("../fixtures/python/server.py"), String(chosen)],
    env: { PYTHONDONTWRITEBYTECODE: "1" },
    ready: "Uvicorn running",
    route: ROUTES.sse,
  }));

/** The same server over Streamable HTTP; it prints a line of its own for every session. */
export const startStreamablePython = (port) =>
  start(port, (chosen) => ({
    command: python,
    args: [path("../fixtures/python/streamable.py"), String(chosen)],
    env: { PYTHONDONTWRITEBYTECODE: "1" },
    ready: "Uvicorn running",
    route: ROUTES.streamableHttp,
  }));

/** A server on the Python SDK's second generation ("sdk") or on FastMCP ("fastmcp"). */
export const startPython2 = (kind, transport, port) =>
  start(port, (chosen) => ({
    command: python2,
    args: [path("../fixtures/python2/server.py"), kind, String(chosen), ...(transport === "sse" ? ["sse"] : [])],
    env: { PYTHONDONTWRITEBYTECODE: "1" },
    ready: "Uvicorn running",
    route: ROUTES[transport],
  }));

/** A server on the TypeScript SDK: of its first generation ("express") or of its second ("web"). */
export const startSdk = (kind, port) =>
  start(port, (chosen) => ({
    command: process.execPath,
    args: [path("../fixtures/sdk-run.mjs"), kind, String(chosen)],
    ready: "listening",
    route: ROUTES.streamableHttp,
  }));

/** A fixture server of this transport, which prints the label of every request. */
export const startFixture = (transport, port) =>
  start(port, (chosen) => ({
    command: process.execPath,
    args: [path("../fixtures/run.mjs"), transport, String(chosen)],
    ready: "listening",
    route: ROUTES[transport],
  }));

const ROUTES = { streamableHttp: "/mcp", sse: "/sse" };

/** Starts a process on this port, or on a free one, and resolves once it has said that it is ready. */
async function start(given, plan) {
  const port = given ?? (await freePort());
  const { command, args, env, ready, route } = plan(port);
  const child = spawn(command, args, { env: { ...process.env, ...env } });
  const exited = new Promise((resolve) => child.once("close", resolve));
  const output = new Output(child);
  await output.said(ready);
  return {
    port,
    url: `http://127.0.0.1:${port}${route}`,
    said: (words, times) => output.said(words, times),
    count: (words) => output.count(words),
    /** What it has printed so far. */
    printed: () => output.text,
    /** Kills it without a word; resolves when it is gone. */
    close() {
      child.kill("SIGKILL");
      return exited;
    },
  };
}

/** What a process prints. */
export class Output {
  text = "";
  #watchers = new Set();
  #isOver = false;

  constructor(child) {
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => this.#add(chunk));
    child.once("close", () => {
      this.#isOver = true;
      this.#add("");
    });
  }

  count(words) {
    return this.text.split(words).length - 1;
  }

  /** Resolves when this was printed at least `times` times; fails if the process ends before. */
  said(words, times = 1) {
    return new Promise((resolve, reject) => {
      const attempt = () => {
        if (this.count(words) >= times) resolve();
        else if (this.#isOver)
          reject(new Error(`a server ended before it said "${words}":\n${this.text.slice(-2000)}`));
        else return;
        this.#watchers.delete(attempt);
      };
      this.#watchers.add(attempt);
      attempt();
    });
  }

  #add(chunk) {
    this.text += chunk;
    for (const watcher of [...this.#watchers]) watcher();
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
