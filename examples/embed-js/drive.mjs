// A host of mcp-engine.wasm on `fetch` and web streams, for Node.js and browsers alike. It moves
// bytes and time and nothing else: it never looks into a message and never decides a repeat.
// The contract is in wit/machine.wit.

import { machine } from "./engine/engine.js";

const CLIENT = { tag: "side", val: "client" };
/** The longest wait that `setTimeout` takes. */
const LONGEST = 2n ** 31n - 1n;

/** The machine and everything it touches. */
export class Host {
  #proxy;
  #reader;
  #writer;
  #log;
  #patience;
  /** Call id → its AbortController. What is not in here is never spoken of again. */
  #calls = new Map();
  /** Wakes the readers whose source was not wanted. */
  #paused = [];
  #timer;
  #exit;
  /** Resolves with "drained" or "stopped". */
  exited = new Promise((resolve) => (this.#exit = resolve));

  /** `config` is from `machine.defaults(url)`; `client` has a readable and a writable of bytes; `log` gets the notes. */
  constructor(config, client, log) {
    const [seed] = crypto.getRandomValues(new BigUint64Array(1));
    this.#proxy = machine.Proxy.create({ ...config, notes: log !== undefined }, seed, now());
    this.#reader = client.readable.getReader();
    this.#writer = client.writable.getWriter();
    this.#log = log;
    this.#patience = Number(config.drainTimeout);
    this.#readClient();
  }

  /** Takes one fact, then does what follows from it. */
  #tell(tag, val) {
    this.#proxy.handle(now(), { tag, val });
    for (const output of this.#proxy.poll()) this.#start(output);
    for (const wake of this.#paused.splice(0)) wake();
    this.#arm(this.#proxy.deadline());
  }

  /** Starts what the machine asks for and waits for none of it. */
  #start({ tag, val }) {
    if (tag === "write") this.#write(val[1]);
    else if (tag === "call") this.#call(val);
    else if (tag === "cancel") this.#cancel(val);
    else if (tag === "note") this.#log(val);
    else if (tag === "exit") this.#leave(val);
  }

  #arm(deadline) {
    clearTimeout(this.#timer);
    if (!deadline) return;
    const wait = deadline.at - now();
    this.#timer = setTimeout(() => this.#tell("tick"), Number(wait < LONGEST ? wait : LONGEST));
  }

  async #readClient() {
    for (;;) {
      await this.#wanted(CLIENT);
      const { done, value } = await this.#reader.read().catch(() => ({ done: true }));
      if (done) return this.#tell("eof", "client");
      this.#tell("bytes", ["client", value]);
    }
  }

  #write(bytes) {
    this.#writer.write(bytes).then(
      () => this.#tell("flushed", [CLIENT, BigInt(bytes.length)]),
      () => this.#tell("shutdown"),
    );
  }

  async #call({ call, method, url, headers, body }) {
    const controller = new AbortController();
    this.#calls.set(call, controller);
    let response;
    try {
      response = await fetch(url, {
        method,
        headers: headers.map(([name, value]) => [name, text(value)]),
        body: body.length > 0 ? body : undefined,
        redirect: "manual",
        signal: controller.signal,
      });
    } catch (error) {
      return this.#finish(call, "failed", [call, reason(error), words(error)]);
    }
    // A browser hides where a redirect leads, so nobody may follow it.
    if (response.type === "opaqueredirect") {
      return this.#finish(call, "failed", [call, "denied", "the server redirects, and a browser hides where"]);
    }
    if (!this.#calls.has(call)) return;
    // `fetch` does not tell when a body has left; a response is proof.
    this.#tell("flushed", [{ tag: "call", val: call }, BigInt(body.length)]);
    this.#tell("head", { call, status: response.status, headers: [...response.headers].map(encoded) });
    return this.#readCall(call, response.body?.getReader(), controller.signal);
  }

  async #readCall(call, reader, signal) {
    while (reader) {
      await this.#wanted({ tag: "call", val: call }, signal);
      const { done, value, error } = await reader.read().catch((error) => ({ error }));
      if (error) return this.#finish(call, "failed", [call, reason(error), words(error)]);
      if (done || !this.#calls.has(call)) break;
      this.#tell("chunk", [call, value]);
    }
    this.#finish(call, "end", call);
  }

  /** The last word about a call, unless it was cancelled. */
  #finish(call, tag, val) {
    if (this.#calls.delete(call)) this.#tell(tag, val);
  }

  #cancel(call) {
    this.#calls.get(call)?.abort();
    this.#calls.delete(call);
  }

  async #wanted(source, signal) {
    while (!signal?.aborted && !this.#proxy.wants(source)) await new Promise((wake) => this.#paused.push(wake));
  }

  /** Everything is said; the client gets a while to read it. */
  #leave(exit) {
    for (const call of [...this.#calls.keys()]) this.#cancel(call);
    const done = () => this.#exit(exit);
    if (exit === "drained") setTimeout(done, this.#patience);
    (exit === "drained" ? this.#writer.close() : this.#writer.abort()).then(done, done);
  }
}

const now = () => BigInt(Math.floor(performance.now()));
/** Header values are bytes; `fetch` shows each as one character. */
const text = (bytes) => String.fromCharCode(...bytes);
const encoded = ([name, value]) => [name, Uint8Array.from(value, (letter) => letter.charCodeAt(0))];

const words = ({ cause, message }) => String(cause?.message ?? message ?? "");

/** Why `fetch` failed. Node.js says so in the error's cause; a browser tells nobody. */
function reason({ cause }) {
  const code = String(cause?.code ?? "");
  const connecting = cause?.syscall === "connect" || cause instanceof AggregateError;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "unresolved";
  if (code === "UND_ERR_CONNECT_TIMEOUT" || (connecting && code === "ETIMEDOUT")) return "connect-timeout";
  if (connecting) return "refused";
  if (/^ERR_(SSL|TLS)|CERT|^UNABLE_TO/.test(code)) return "tls";
  return /^(E[A-Z]+|UND_ERR_\w+)$/.test(code) ? "reset" : "protocol";
}
