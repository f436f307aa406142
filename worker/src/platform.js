// What the platform offers and the crate `worker` does not, and what would cross into WebAssembly
// and back too often: each crossing, and each promise that is awaited on the other side, costs more
// than what is done there.

/** Longer bodies are read piece by piece. So are those that turn out to be longer than was said. */
const SHORT = 64 * 1024;
/** What the edge knows of a request, for the session. No header of that name comes in from outside. */
const KNOWN = "mcp-proxy-known";

/**
 * Ends the object, for this reason, when the WebAssembly instance that it was made in has ended.
 * What comes back ends the watch.
 */
export function watch(object, reason) {
  const state = globalThis.__worker_init_state;
  const born = state.instanceId;
  const timer = setInterval(() => {
    if (!state.criticalError && state.instanceId === born) return;
    clearInterval(timer);
    object.abort(reason);
  }, 1000);
  return () => clearInterval(timer);
}

/** What was set when an environment was made, by a number. A change makes another environment. */
const environments = new WeakMap();
const numbers = new Map();

/** The number of what the operator has set. */
export function environment(env) {
  let number = environments.get(env);
  if (number === undefined) {
    const text = variables(env);
    number = numbers.get(text) ?? numbers.size;
    numbers.set(text, number);
    environments.set(env, number);
  }
  return number;
}

/** What the operator has set, as JSON: variables and secrets, and no other bindings. */
export function variables(env) {
  const set = ([name, value]) => typeof value === "string" || name === "UPSTREAMS";
  return JSON.stringify(Object.fromEntries(Object.entries(env).filter(set)));
}

/** 128 random bits, in hexadecimal digits. */
export function secret() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The headers that the edge looks at, in this order. */
const LOOKED_AT = [
  "accept",
  "content-type",
  "last-event-id",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
  "mcp-session-id",
  "content-length",
  "origin",
  "host",
  "authorization",
];

/**
 * A line for the method and the URL of a request, for each of those headers, and for those that repeat
 * arguments; NUL where there is none.
 */
export function glance(request) {
  const { headers } = request;
  let lines = `${request.method}\n${request.url}`;
  for (const name of LOOKED_AT) lines += `\n${headers.get(name) ?? "\0"}`;
  return `${lines}\n${headers.get("mcp-method") === "tools/call" ? mirrored(headers) : "\0"}`;
}

/** The headers that repeat arguments of a tool. JSON escapes tabs, which separate what an object gets to know. */
const mirrored = (headers) => JSON.stringify([...headers].filter(([name]) => name.startsWith("mcp-param-")));

/** All headers as lines: name, value, name, value… */
function linesOf(headers) {
  let lines = "";
  for (const [name, value] of headers) lines += `${name}\n${value}\n`;
  return lines;
}

/** The same the other way round. */
function headersOf(lines) {
  const headers = new Headers();
  const parts = lines.split("\n");
  for (let at = 0; at + 1 < parts.length; at += 2) headers.set(parts[at], parts[at + 1]);
  return headers;
}

/** The name of an object that serves no session yet. */
export function fresh(env) {
  return env.SESSIONS.newUniqueId().toString();
}

/** The name of the object that serves clients without sessions under this name. */
export function shared(env, name) {
  return env.SESSIONS.idFromName(name).toString();
}

/** Whether there can be an object of this name. */
export function isObject(env, name) {
  try {
    env.SESSIONS.idFromString(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Hands a request on, with what the edge knows of it, to the object of this name: as it is, or with
 * the body that was read of it. `fail` makes the response where there can be no such object (`true`)
 * or it does not answer.
 */
export async function forward(env, name, request, content, known, fail) {
  const failed = (unknown) => fail(unknown, request.headers.get("origin") ?? undefined);
  const { method } = request;
  // An announced body of no bytes is a body too.
  const body = content ?? (method === "POST" ? request.body : null);
  const sessions = env.SESSIONS;
  let id;
  try {
    id = sessions.idFromString(name);
  } catch (error) {
    if (!sessions) throw error;
    return failed(true);
  }
  try {
    return await sessions.get(id).fetch("https://session/", { method, headers: { [KNOWN]: known }, body });
  } catch {
    return failed(false);
  }
}

/** The object that counts the sessions of whoever has this name; nothing where there are no such objects. */
export function counter(env, name) {
  return env.CLIENTS ? env.CLIENTS.idFromName(name).toString() : "";
}

const counting = (env, client) => env.CLIENTS.get(env.CLIENTS.idFromString(client));

/**
 * Takes or keeps a place for a session, for so many milliseconds, among at most so many of its client.
 * Resolves with whether there is one; what fails must not keep clients out, and rejects.
 */
export async function enter(env, client, session, most, lease) {
  return counting(env, client).enter(session, most, lease);
}

/** Gives the place back. If that is not heard, it is free when its time is over. */
export async function leave(env, client, session) {
  try {
    await counting(env, client).leave(session);
  } catch {}
}

/**
 * The body of a request, as bytes; nothing if it is longer than the limit. How long it is said to be
 * decides how it is read, and its bytes are counted all the same.
 */
export async function read(request, limit, length) {
  const stream = request.body;
  if (!stream) return new Uint8Array();
  if (length > limit) return drain(stream);
  const pieces = [];
  if (length <= SHORT) {
    const first = await beginning(stream, length);
    if (first.length <= length) return first;
    pieces.push(first);
  }
  return counted(stream, limit, pieces);
}

/** What there is of a stream: all of it if that is no more than so many bytes, else one byte more. */
async function beginning(stream, count) {
  const reader = stream.getReader({ mode: "byob" });
  const { value } = await reader.readAtLeast(count + 1, new Uint8Array(count + 1));
  reader.releaseLock();
  return value ?? new Uint8Array();
}

/** The rest of a stream of which these pieces were read; nothing if that makes more than the limit. */
async function counted(stream, limit, pieces) {
  let size = pieces.reduce((sum, { length }) => sum + length, 0);
  const reader = stream.getReader();
  while (size <= limit) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    size += value.length;
    pieces.push(value);
  }
  reader.releaseLock();
  pieces.length = 0;
  return drain(stream);
}

/** How long a server may take to answer with a document. */
const LOOK_UP_MS = 5_000;

/**
 * The document at this URL, as bytes; where there is none of at most so many bytes, the status of the
 * answer, or 0 if none came in time. A redirect is an answer like any other, so nobody else is asked.
 */
export async function lookUp(url, limit) {
  const headers = { accept: "application/json" };
  try {
    const response = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(LOOK_UP_MS) });
    if (response.status === 200) return await upTo(response.body, limit);
    await response.body?.cancel();
    return response.status;
  } catch {
    return 0;
  }
}

/** A stream of at most so many bytes; no bytes if it is longer. */
async function upTo(stream, limit) {
  const pieces = [];
  for await (const piece of stream ?? []) {
    pieces.push(piece);
    if ((limit -= piece.length) < 0) return new Uint8Array();
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/** Reads on for a while: a client that is still sending would rather see a broken connection than an answer. */
export async function drain(stream) {
  let left = 16 * 1024 * 1024;
  for await (const piece of stream ?? []) if ((left -= piece.length) < 0) break;
  return undefined;
}

/** How long the body of a response is said to be, if that is short; the length of what is compressed says little. */
function saidLength(response) {
  if (!response.body) return 0;
  const length = response.headers.get("content-length") ?? "";
  const isShort = /^\d{1,5}$/.test(length) && length <= SHORT && !response.headers.has("content-encoding");
  return isShort ? Number(length) : undefined;
}

/** What passes between a session and the world. It waits, so that the machine need not. */
export class Traffic {
  #begun;
  #piece;
  #ended;
  #took;
  #gone;
  #asked = 0;
  /** The WebAssembly instance that is reported to. */
  #instance = globalThis.__worker_init_state.instanceId;
  /** Where the response to each request is waited for. */
  #owed = new Map();
  /** What is under way with the server. */
  #calls = new Map();
  /** How calls are made, and responses begun, until it is said otherwise. */
  #request;
  #response;
  /** The headers that a call was last answered with, as lines. */
  #heard;
  /** Controllers of calls that have ended, for those to come: each takes a while to make. */
  #spare = [];

  /**
   * Says `begun(id, status, headers, body)` when a call is answered, without headers that are the same
   * as the last time, and with the body if that is short; else `piece(id, bytes)` for what comes of it.
   * Both say whether more is wanted. Then `ended(id, whole)`. Of a response, it says `took(id, count)`
   * when the client takes some of it, and `gone(id)` when it takes no more.
   */
  constructor(begun, piece, ended, took, gone) {
    this.#begun = this.#alive(begun);
    this.#piece = this.#alive(piece);
    this.#ended = this.#alive(ended);
    this.#took = this.#alive(took);
    this.#gone = this.#alive(gone);
  }

  /** Reports only while the instance lives: the next one would take the report for its own. */
  #alive(report) {
    const state = globalThis.__worker_init_state;
    return (...facts) => {
      if (state.criticalError || state.instanceId !== this.#instance) throw new Error("the session has failed");
      return report(...facts);
    };
  }

  /**
   * Takes a request of the client: says `asked(id, method, known, body)`, without the body if it is
   * too long. Resolves with the response.
   */
  async ask(request, limit, asked) {
    const id = (this.#asked = (this.#asked + 1) >>> 0);
    const known = request.headers.get(KNOWN) ?? "";
    const content = await read(request, limit, Number.parseInt(known, 10));
    return new Promise((resolve) => {
      this.#owed.set(id, resolve);
      this.#alive(asked)(id, request.method, known, content);
    });
  }

  /** The response to a request. */
  respond(id, response) {
    this.#owed.get(id)?.(response);
    this.#owed.delete(id);
  }

  /** How responses begin from now on. */
  head(status, lines) {
    this.#response = { status, headers: headersOf(lines) };
  }

  /** A response of one piece. */
  whole(id, bytes) {
    this.respond(id, new Response(bytes.length ? bytes.slice() : null, this.#response));
  }

  /** A response that is written while it is read. Native streams pass through the edge untouched. */
  stream(id) {
    const { readable, writable } = new IdentityTransformStream();
    this.respond(id, new Response(readable, this.#response));
    const writer = writable.getWriter();
    const ignore = () => {};
    const over = () => this.#gone(id);
    writer.closed.then(over, over);
    let closing = false;
    return {
      // What is taken before the end needs no word of its own.
      write: (bytes) => {
        const { length } = bytes;
        writer.write(bytes.slice()).then(() => closing || this.#took(id, length), ignore);
      },
      close: () => {
        closing = true;
        writer.close().catch(ignore);
      },
      abort: () => void writer.abort(new Error("the response was broken off")).catch(ignore),
    };
  }

  /** How calls are made from now on. */
  address(method, url, lines) {
    this.#request = { method, url, lines, headers: undefined };
  }

  /** Makes a call. */
  async call(id, content) {
    const call = { controller: this.#spare.pop() ?? new AbortController() };
    this.#calls.set(id, call);
    const { signal } = call.controller;
    const body = content.length ? content.slice() : undefined;
    let response;
    let length;
    let first;
    try {
      const request = this.#request;
      const headers = (request.headers ??= headersOf(request.lines));
      response = await fetch(request.url, { method: request.method, headers, body, signal, redirect: "manual" });
      length = saidLength(response);
      if (length !== undefined) first = length ? await beginning(response.body, length) : new Uint8Array();
    } catch {
      // What fails at once is told later: the machine is still speaking.
      await undefined;
      return this.#end(id, call, false);
    }
    if (this.#calls.get(id) !== call) return;
    const whole = first?.length <= length ? first : undefined;
    if (whole) this.#forget(id, call);
    const lines = linesOf(response.headers);
    const wanted = this.#begun(id, response.status, lines === this.#heard ? undefined : lines, whole);
    this.#heard = lines;
    if (!whole) await this.#read(id, call, response.body.getReader(), wanted, first);
  }

  /** Reads a body to its end, after what was read of it already. */
  async #read(id, call, reader, wanted, first) {
    if (first && this.#calls.get(id) === call) wanted = this.#piece(id, first);
    for (;;) {
      if (!wanted) await new Promise((resolve) => (call.resume = resolve));
      if (this.#calls.get(id) !== call) return;
      let read;
      try {
        read = await reader.read();
      } catch {
        return this.#end(id, call, false);
      }
      if (this.#calls.get(id) !== call) return;
      if (read.done) return this.#end(id, call, true);
      wanted = this.#piece(id, read.value);
    }
  }

  #end(id, call, whole) {
    if (this.#calls.get(id) !== call) return;
    this.#forget(id, call);
    this.#ended(id, whole);
  }

  #forget(id, call) {
    this.#calls.delete(id);
    this.#spare.push(call.controller);
  }

  /** More is wanted of a call. */
  resume(id) {
    this.#calls.get(id)?.resume?.();
  }

  /** Nothing more is wanted of a call, or of any. */
  cancel(id) {
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    call?.controller.abort();
    call?.resume?.();
  }

  cancelAll() {
    for (const id of [...this.#calls.keys()]) this.cancel(id);
  }
}
