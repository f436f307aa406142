// What the platform offers and the crate `worker` does not, and what would cross into WebAssembly
// and back too often: each crossing, and each promise that is awaited on the other side, costs more
// than what is done there.

/** Longer bodies are read piece by piece. */
const SHORT = 64 * 1024;

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

/** What was set when an environment was made. A change makes another environment. */
const known = new WeakMap();

/** What the operator has set, as JSON: variables and secrets, and no other bindings. */
export function variables(env) {
  if (!known.has(env)) {
    const set = ([name, value]) => typeof value === "string" || name === "UPSTREAMS";
    known.set(env, JSON.stringify(Object.fromEntries(Object.entries(env).filter(set))));
  }
  return known.get(env);
}

/** 128 random bits, in hexadecimal digits. */
export function secret() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A line for the method and the URL of a request, and for each of these headers; NUL where there is none. */
export function glance(request, names) {
  const values = names.split(" ").map((name) => request.headers.get(name) ?? "\0");
  return [request.method, request.url, ...values].join("\n");
}

/** All headers as lines: name, value, name, value… */
export function lines(headers) {
  let lines = "";
  for (const [name, value] of headers) lines += `${name}\n${value}\n`;
  return lines;
}

/** The same the other way round. */
export function headers(lines) {
  return new Headers(fields(lines));
}

function fields(lines) {
  const parts = lines.split("\n");
  const fields = {};
  for (let at = 0; at + 1 < parts.length; at += 2) fields[parts[at]] = parts[at + 1];
  return fields;
}

/**
 * Hands a request on as it is, with no headers but these, to the object of this name, or to a new
 * one. Nothing comes back where there can be no such object.
 */
export async function forward(objects, name, request, lines) {
  let id;
  try {
    id = name === undefined ? objects.newUniqueId() : objects.idFromString(name);
  } catch {
    return undefined;
  }
  const { method } = request;
  // An announced body of no bytes is a body too.
  const body = method === "POST" ? request.body : null;
  return objects.get(id).fetch("https://session/", { method, headers: fields(lines), body });
}

/** The body of a request; nothing if it is longer than the limit. */
export async function body(request, limit, length) {
  if (!request.body) return new Uint8Array();
  if (length !== undefined) return length <= limit ? new Uint8Array(await request.arrayBuffer()) : drain(request.body);
  const pieces = [];
  let size = 0;
  const reader = request.body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(pieces).arrayBuffer());
    size += value.length;
    if (size > limit) break;
    pieces.push(value);
  }
  reader.releaseLock();
  return drain(request.body);
}

/** Reads on for a while: a client that is still sending would rather see a broken connection than an answer. */
export async function drain(stream) {
  let left = 16 * 1024 * 1024;
  for await (const piece of stream ?? []) if ((left -= piece.length) < 0) break;
  return undefined;
}

/** The length of what is compressed says little about what comes out. */
function isShort(headers) {
  return headers.has("content-length") && !headers.has("content-encoding") && headers.get("content-length") <= SHORT;
}

/** Starts a call. A short body that is announced as such comes with the head. */
export async function call(url, method, sent, content, signal) {
  const headers = fields(sent);
  const response = await fetch(url, { method, headers, body: content, signal, redirect: "manual" });
  const head = { status: response.status, headers: lines(response.headers) };
  if (response.body && !isShort(response.headers)) return { ...head, reader: response.body.getReader() };
  return { ...head, whole: new Uint8Array(await response.arrayBuffer()) };
}

/**
 * A response that is written while it is read. Native streams pass through the edge untouched.
 * Says `took(id, count)` when the client takes some of it, and `gone(id)` when it takes no more.
 */
export function pipe(id, took, gone) {
  const { readable, writable } = new IdentityTransformStream();
  const writer = writable.getWriter();
  const ignore = () => {};
  const over = () => gone(id);
  writer.closed.then(over, over);
  let closing = false;
  return {
    readable,
    // What is taken before the end needs no word of its own.
    write: (bytes) => void writer.write(bytes).then(() => closing || took(id, bytes.length), ignore),
    close: () => {
      closing = true;
      writer.close().catch(ignore);
    },
    abort: () => void writer.abort(new Error("the response was broken off")).catch(ignore),
  };
}
