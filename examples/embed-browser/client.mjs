// An MCP client as small as it gets, at the other end of the host's two streams: one JSON-RPC
// message a line.

import { Host } from "../embed-js/drive.mjs";
import { machine } from "../embed-js/engine/engine.js";

export class Client {
  #writer;
  #answers = new Map();
  #host;

  /** Connects to the server behind the URL, of either era and transport. */
  static async connect(url) {
    const client = new Client(url);
    const clientInfo = { name: "page", version: "1" };
    await client.request("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    client.#send({ method: "notifications/initialized" });
    return client;
  }

  constructor(url) {
    const up = new TextEncoderStream();
    const down = new TextDecoderStream();
    this.#writer = up.writable.getWriter();
    this.#host = new Host(machine.defaults(url), { readable: up.readable, writable: down.writable }, console.debug);
    this.#read(down.readable);
  }

  /** Resolves with the result of a request. The machine sees to it that there is an answer. */
  request(method, params) {
    const id = crypto.randomUUID();
    this.#send({ id, method, params });
    return new Promise((resolve, reject) => this.#answers.set(id, { resolve, reject }));
  }

  /** Ends the session; resolves with how it ended. */
  close() {
    this.#writer.close();
    return this.#host.exited;
  }

  #send(message) {
    this.#writer.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  async #read(readable) {
    let rest = "";
    for (const reader = readable.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) this.#take(JSON.parse(line));
    }
  }

  #take({ id, method, result, error }) {
    if (method !== undefined) return this.#refuse(id, method);
    const answer = this.#answers.get(id);
    this.#answers.delete(id);
    if (error) answer?.reject(new Error(error.message));
    else answer?.resolve(result);
  }

  /** This client offers the server nothing but a sign of life. */
  #refuse(id, method) {
    if (id === undefined) return;
    if (method === "ping") this.#send({ id, result: {} });
    else this.#send({ id, error: { code: -32601, message: `no method ${method}` } });
  }
}
