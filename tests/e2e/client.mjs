// A stdio client at the level of lines. It sends exactly the bytes it is told, keeps every line
// of stdout, and at the end holds the proxy to its word: each line is one JSON-RPC message, no id
// is null, every request has exactly one answer, a cancelled one has none.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { environment } from "./shells.mjs";

/** How long anything may take before the test is called hung. Not a measure of speed. */
const PATIENCE_MS = 30_000;

/** Messages above this size may be nested too deep for a reviver. */
const DEEP_BYTES = 1024 * 1024;

export class StdioClient {
  lines = [];
  stderr = "";
  /** Told of every message that comes in, if set. */
  onMessage;
  #nextId = 1;
  #owed = new Map();
  #watchers = new Set();
  #partial = [];
  #faults = [];

  constructor(shell, url, { options = [], env = {} } = {}) {
    this.child = spawn(shell.command, shell.args(url, options, env), { env: environment(env) });
    this.child.stdin.on("error", () => {});
    this.child.stdout.on("data", (chunk) => this.#receive(chunk));
    this.child.stdout.on("error", () => {});
    this.child.stderr.on("data", (chunk) => {
      this.stderr += chunk;
      this.#changed();
    });
    this.exited = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", (code, signal) => {
        this.isGone = true;
        resolve({ code, signal });
        this.#changed();
      });
    });
    this.exited.catch(() => {});
  }

  // ---- sending ----------------------------------------------------------------------------

  /** Writes one line as it is and notes which answer it is owed. */
  line(text) {
    const message = parse(text);
    if (message?.method !== undefined && message.id !== undefined) this.owe(rawId(text));
    if (message?.method === "notifications/cancelled") this.#owed.set(rawRequestId(text), 0);
    return this.bytes(`${text}\n`);
  }

  /** Writes bytes as they are; resolves when the pipe takes more. */
  bytes(bytes) {
    if (this.child.stdin.write(bytes)) return Promise.resolve();
    return Promise.race([new Promise((resolve) => this.child.stdin.once("drain", resolve)), this.exited]);
  }

  send(message) {
    return this.line(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  notify(method, params) {
    return this.send({ method, params });
  }

  /** Sends a request and resolves with its answer. */
  request(method, params, id = this.nextId()) {
    this.send({ id, method, params });
    return this.answer(id);
  }

  call(name, args = {}, id = this.nextId(), meta = undefined) {
    return this.request("tools/call", { name, arguments: args, _meta: meta }, id);
  }

  nextId() {
    this.#nextId += 1;
    return this.#nextId - 1;
  }

  /** Expects exactly one answer under this id, given as raw JSON text; or so many, if it was used so often. */
  owe(rawIdText, count = 1) {
    this.#owed.set(rawIdText, count);
  }

  /** `initialize` and `initialized`; resolves with the answer to the former. */
  async handshake({ protocolVersion = "2025-11-25", capabilities = {} } = {}) {
    const clientInfo = { name: "line-client", version: "1" };
    const answer = await this.request("initialize", { protocolVersion, capabilities, clientInfo });
    assert.ok(answer.result, `initialize failed: ${JSON.stringify(answer)}`);
    this.notify("notifications/initialized");
    return answer;
  }

  /** Reads no more of stdout, so that the proxy's pipe fills. */
  stall() {
    this.child.stdout.pause();
  }

  resume() {
    this.child.stdout.resume();
  }

  // ---- receiving --------------------------------------------------------------------------

  get messages() {
    return this.lines.map((line) => line.message);
  }

  /** Resolves with the answer under this id (type and value). */
  answer(id) {
    return this.message(
      `the answer to ${JSON.stringify(id)}`,
      (message) => message.id === id && message.method === undefined,
    );
  }

  /** Resolves with the first message, past or future, that fits. */
  message(what, fits) {
    return this.until(what, () => this.lines.find((line) => fits(line.message))?.message);
  }

  /** Resolves with the server's request of this method, past or future. */
  asked(method) {
    return this.message(`the server's ${method}`, (message) => message.method === method && message.id !== undefined);
  }

  /** Resolves with the first true value of `probe`, tried after every change. */
  until(what, probe) {
    return new Promise((resolve, reject) => {
      const settle = (outcome, value) => {
        clearTimeout(timer);
        this.#watchers.delete(attempt);
        outcome(value);
      };
      const attempt = () => {
        const value = probe();
        if (value) settle(resolve, value);
        else if (this.isGone) settle(reject, this.#diagnosis(`the proxy is gone; still awaited: ${what}`));
        else if (this.#faults.length > 0) settle(reject, this.#diagnosis(`${this.#faults[0]}\nstill awaited: ${what}`));
      };
      const timer = setTimeout(() => settle(reject, this.#diagnosis(`no sign of ${what}`)), PATIENCE_MS);
      this.#watchers.add(attempt);
      attempt();
    });
  }

  /** Resolves with {code, signal} once the process has ended and its pipes are drained. */
  async exit() {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(this.#diagnosis("the process does not end")), PATIENCE_MS);
    });
    return Promise.race([this.exited, late]).finally(() => clearTimeout(timer));
  }

  // ---- ending -----------------------------------------------------------------------------

  eof() {
    this.child.stdin.end();
  }

  /** Closes stdin and expects a clean end with nothing owed. */
  async finish() {
    this.eof();
    assert.deepEqual(await this.exit(), { code: 0, signal: null }, this.stderr);
    this.verify();
  }

  /** Holds stdout to its laws; with `complete: false` a missing answer is no fault. */
  verify({ complete = true } = {}) {
    assert.deepEqual(this.#faults, []);
    assert.equal(Buffer.concat(this.#partial).length, 0, "stdout ends with half a line");
    const answers = new Map();
    for (const { text, message } of this.lines) {
      if (message.method === undefined) answers.set(rawId(text), (answers.get(rawId(text)) ?? 0) + 1);
    }
    for (const [id, count] of answers) assert.ok(count <= (this.#owed.get(id) ?? 0), `${count} answers to ${id}`);
    if (complete) for (const [id, count] of this.#owed) assert.equal(answers.get(id) ?? 0, count, `answers to ${id}`);
  }

  kill() {
    if (!this.isGone) this.child.kill("SIGKILL");
  }

  #receive(chunk) {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      this.#take(Buffer.concat([...this.#partial, rest.subarray(0, end)]));
      this.#partial = [];
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) this.#partial.push(rest);
    this.#changed();
  }

  #take(bytes) {
    const text = bytes.toString("utf8");
    const message = parse(text);
    const fault = faultOf(text, message);
    if (fault) this.#faults.push(fault);
    else {
      this.lines.push({ text, message });
      this.onMessage?.(message);
    }
  }

  #changed() {
    for (const watcher of [...this.#watchers]) watcher();
  }

  #diagnosis(headline) {
    const shown = this.lines.slice(-5).map(({ text }) => text.slice(0, 300));
    return new Error(
      `${headline}\n--- stdout, last lines\n${shown.join("\n")}\n--- stderr\n${this.stderr.slice(-2000)}`,
    );
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isStructured = (value) => typeof value === "object";

/** What is wrong with a line of stdout, if anything. */
function faultOf(text, message) {
  const shown = text.slice(0, 200);
  if (message === undefined || message === null || typeof message !== "object" || Array.isArray(message))
    return `not a JSON object: ${shown}`;
  if (message.jsonrpc !== "2.0") return `not JSON-RPC 2.0: ${shown}`;
  if (message.id === null) return `id is null: ${shown}`;
  const kinds = ["method", "result", "error"].filter((member) => member in message);
  if (kinds.length !== 1) return `not exactly one of method, result and error: ${shown}`;
  const [kind] = kinds;
  if (kind === "method" && (typeof message.method !== "string" || !isStructured(message.params ?? {})))
    return `no request and no notification: ${shown}`;
  if (kind !== "method" && message.id === undefined) return `an answer without an id: ${shown}`;
  if (kind === "error" && !(Number.isInteger(message.error?.code) && typeof message.error.message === "string"))
    return `not an error: ${shown}`;
  return undefined;
}

/** The JSON text of a message's id as it was spelled: `1`, `"1"` and `9007199254740993` stay apart. */
function rawId(text) {
  return spelled(text, "id", (root) => root);
}

/** The same of the request that a `notifications/cancelled` names. */
function rawRequestId(text) {
  return spelled(text, "requestId", (root) => root.params);
}

function spelled(text, member, holderIn) {
  // A reviver recurses: what is too deep for it is taken as `JSON.parse` reads it.
  if (text.length > DEEP_BYTES) return JSON.stringify(holderIn(JSON.parse(text))[member]);
  const sources = new Map();
  const root = JSON.parse(text, function remember(key, value, context) {
    if (key === member) sources.set(this, context.source);
    return value;
  });
  return sources.get(holderIn(root));
}
