// A client of Streamable HTTP at the level of the wire. Each request has a connection of its own and
// is sent exactly as told; of each response every event is kept, with the stream it stood on. At the
// end `verify` holds the Worker to its word: one answer to each request, on a stream of that request.

import assert from "node:assert/strict";
import http from "node:http";

/** How long anything may take before the test is called hung. Not a measure of speed. */
const PATIENCE_MS = 30_000;

export const LATEST = "2025-11-25";
export const TYPES = { accept: "application/json, text/event-stream", "content-type": "application/json" };
/** A body that asks for a session. */
export const initialize = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: LATEST, capabilities: {}, clientInfo: { name: "wire-client", version: "1" } },
});

export class WireClient {
  session;
  version;
  /** Every response, in the order of the requests. */
  responses = [];
  #nextId = 1;
  #worker;
  #path;
  #headers;

  /** `headers` go with every request; one that is undefined is left out. */
  constructor(worker, { path = "/mcp", headers = {} } = {}) {
    this.#worker = worker;
    this.#path = path;
    this.#headers = headers;
  }

  /** Goes on with another Worker. */
  move(worker) {
    this.#worker = worker;
  }

  /** Goes on at another path. */
  at(path) {
    this.#path = path;
  }

  // ---- sending ----------------------------------------------------------------------------

  /** Sends a request; resolves once the head of its response is there. */
  send(method, { path = this.#path, headers = {}, body, chunked = false } = {}) {
    const given = Object.entries({ ...this.#headers, ...headers }).filter(([, value]) => value !== undefined);
    const length = body === undefined || chunked ? {} : { "content-length": Buffer.byteLength(body) };
    const { port } = this.#worker;
    const all = { ...length, ...Object.fromEntries(given) };
    const request = http.request({ host: "127.0.0.1", port, method, path, headers: all, agent: false });
    if (chunked) request.setHeader("transfer-encoding", "chunked");
    const response = new WireResponse(request);
    this.responses.push(response);
    request.end(body);
    return response.begun;
  }

  /** The headers of a request in this session. */
  named(headers = {}) {
    return { ...TYPES, "mcp-session-id": this.session, "mcp-protocol-version": this.version, ...headers };
  }

  /** POSTs a message, or several as a batch, in this session. */
  async post(message, headers = {}) {
    const whole = Array.isArray(message) ? message : { jsonrpc: "2.0", ...message };
    const response = await this.send("POST", { headers: this.named(headers), body: JSON.stringify(whole) });
    response.asked = requestsOf(whole).map(({ id }) => id);
    return response;
  }

  /** POSTs a request; resolves with the response as soon as its head is there. */
  start(method, params, id = this.nextId()) {
    return this.post({ id, method, params });
  }

  /** The same, for a call of a tool. */
  startCall(name, args = {}, { id = this.nextId(), token } = {}) {
    const meta = token === undefined ? undefined : { progressToken: token };
    return this.start("tools/call", { name, arguments: args, _meta: meta }, id);
  }

  /** Makes a request and resolves with its answer. */
  async request(method, params, id = this.nextId()) {
    return (await this.start(method, params, id)).answer(id);
  }

  async call(name, args = {}, id = this.nextId()) {
    return (await this.startCall(name, args, { id })).answer(id);
  }

  async notify(method, params) {
    const { status } = await this.post({ method, params });
    assert.equal(status, 202);
  }

  /** Opens a listening stream, or comes back for a stream that was cut. */
  listen(last) {
    return this.send("GET", { headers: this.named({ "last-event-id": last }) });
  }

  /** Shakes hands; resolves with the response to `initialize`. */
  async open({ version = LATEST, capabilities = {} } = {}) {
    const id = this.nextId();
    const params = { protocolVersion: version, capabilities, clientInfo: { name: "wire-client", version: "1" } };
    const response = await this.start("initialize", params, id);
    const { result, error } = await response.json();
    assert.ok(result, `initialize failed: ${JSON.stringify(error)}`);
    this.session = response.headers["mcp-session-id"];
    this.version = result.protocolVersion;
    await this.notify("notifications/initialized");
    return response;
  }

  /** Ends the session. */
  async leave() {
    const { status } = await this.send("DELETE", { headers: this.named() });
    assert.equal(status, 204);
  }

  nextId() {
    this.#nextId += 1;
    return this.#nextId - 1;
  }

  // ---- receiving --------------------------------------------------------------------------

  /** Everything that came in, in no particular order. */
  get messages() {
    return this.responses.flatMap(({ messages }) => messages);
  }

  /** The streams on which a message that fits has come in, once for each. */
  streamsWith(fits) {
    return this.responses.flatMap((response) => response.messages.filter(fits).map(() => response));
  }

  /** Each request that was taken has one answer, and it stands on the stream that was opened for it. */
  verify() {
    for (const response of this.responses.filter(({ asked, status }) => asked && status < 400)) {
      const answered = response.messages.filter(({ method }) => method === undefined).map(({ id }) => id);
      assert.deepEqual(answered.toSorted(), response.asked.toSorted(), "answers on the stream of their request");
    }
    const answers = this.messages.filter(({ method }) => method === undefined).map(({ id }) => id);
    assert.equal(new Set(answers).size, answers.length, "an answer came twice");
  }
}

/** One response: its head, and its body as it comes in. */
class WireResponse {
  status;
  headers;
  text = "";
  /** The events, each {id, retry, type, data}. */
  events = [];
  comments = [];
  /** "ended" in good order, or "cut". */
  over;
  /** The ids of the requests that it has to answer. */
  asked;
  #request;
  #incoming;
  #rest = "";
  #watchers = new Set();

  constructor(request) {
    this.#request = request;
    this.begun = new Promise((resolve, reject) => {
      request.once("error", reject);
      request.once("response", (incoming) => {
        request.on("error", () => {});
        this.#begin(incoming);
        resolve(this);
      });
    });
    this.begun.catch(() => {});
  }

  /** The messages of its events, or the one of its body. */
  get messages() {
    if (this.headers["content-type"] === "application/json") return this.over ? [JSON.parse(this.text)] : [];
    return this.events.filter(({ data }) => data).map(({ data }) => JSON.parse(data));
  }

  /** Resolves with the answer to this request. */
  answer(id) {
    return this.message(`the answer to ${id}`, (message) => message.id === id && message.method === undefined);
  }

  /** Resolves with the first message, past or future, that fits. */
  message(what, fits) {
    return this.until(what, () => this.messages.find(fits));
  }

  notification(method) {
    return this.message(method, (message) => message.method === method);
  }

  /** Resolves with the body as JSON, once it has ended. */
  async json() {
    await this.ended();
    return JSON.parse(this.text);
  }

  /** Resolves once the response has ended, with how. */
  ended() {
    return this.until("the end of the response", () => this.over);
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
        else if (this.over) settle(reject, this.#diagnosis(`the response has ${this.over}; still awaited: ${what}`));
      };
      const timer = setTimeout(() => settle(reject, this.#diagnosis(`no sign of ${what}`)), PATIENCE_MS);
      this.#watchers.add(attempt);
      attempt();
    });
  }

  /** Leaves without a word. */
  drop() {
    this.#request.destroy();
  }

  /** Reads no more, so that the connection fills. */
  stall() {
    this.#incoming.pause();
  }

  resume() {
    this.#incoming.resume();
  }

  #begin(incoming) {
    this.#incoming = incoming;
    this.status = incoming.statusCode;
    this.headers = incoming.headers;
    const over = (how) => {
      this.over ??= how;
      this.#changed();
    };
    incoming.setEncoding("utf8").on("data", (text) => this.#take(text));
    incoming.once("end", () => over("ended"));
    incoming.once("error", () => over("cut"));
    incoming.once("close", () => over("cut"));
  }

  #take(text) {
    this.text += text;
    this.#rest += text;
    for (let end = this.#rest.indexOf("\n\n"); end >= 0; end = this.#rest.indexOf("\n\n")) {
      this.#block(this.#rest.slice(0, end).split("\n"));
      this.#rest = this.#rest.slice(end + 2);
    }
    this.#changed();
  }

  #block(lines) {
    this.comments.push(...lines.filter((line) => line.startsWith(":")));
    const fields = lines.filter((line) => !line.startsWith(":")).map((line) => line.split(/: ?(.*)/s));
    if (fields.length === 0) return;
    const { id, retry, event: type, data } = Object.fromEntries(fields);
    this.events.push({ id, retry, type, data });
  }

  #changed() {
    for (const watcher of [...this.#watchers]) watcher();
  }

  #diagnosis(headline) {
    return new Error(`${headline}\n--- ${this.status}\n${this.text.slice(-2000)}`);
  }
}

const requestsOf = (body) => [body].flat().filter(({ id, method }) => id !== undefined && method !== undefined);
