// The least that a Worker in front of an HTTP+SSE server can do: one Durable Object for each session,
// which passes requests on and their answers back. No checks, no errors, no end. What it takes is what
// the platform takes.

export default {
  fetch(request, { SESSIONS }) {
    const { method, headers } = request;
    const name = headers.get("mcp-session-id");
    const id = name ? SESSIONS.idFromString(name) : SESSIONS.newUniqueId();
    return SESSIONS.get(id).fetch("https://session/", { method, body: method === "POST" ? request.body : null });
  },
};

export class Session {
  #state;
  #url;
  #stop = new AbortController();
  #endpoint = Promise.withResolvers();
  /** What to do with the answer to each request. */
  #open = new Map();

  constructor(state, { UPSTREAM_URL }) {
    this.#state = state;
    this.#url = UPSTREAM_URL;
  }

  async fetch(request) {
    if (request.method === "DELETE") this.#stop.abort();
    if (request.method !== "POST") return new Response(null, { status: request.method === "GET" ? 405 : 204 });
    const body = await request.text();
    const { id, method } = JSON.parse(body);
    if (method === "initialize") this.#listen().catch(() => {});
    const endpoint = await this.#endpoint.promise;
    const answer = id === undefined ? undefined : new Promise((resolve) => this.#open.set(id, resolve));
    const { signal } = new AbortController();
    const sent = fetch(endpoint, { method: "POST", headers: { "content-type": "application/json" }, body, signal });
    const taken = sent.then((response) => response.arrayBuffer());
    if (!answer) return taken.then(() => new Response(null, { status: 202 }));
    const headers = { "content-type": "application/json" };
    if (method === "initialize") headers["mcp-session-id"] = this.#state.id.toString();
    return new Response(await answer, { headers });
  }

  async #listen() {
    const { signal } = this.#stop;
    const { body } = await fetch(this.#url, { headers: { accept: "text/event-stream" }, signal });
    const reader = body.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const events = (text + decoder.decode(value, { stream: true })).split("\n\n");
      text = events.pop();
      for (const event of events) this.#hear(event);
    }
  }

  #hear(event) {
    const lines = event.split("\n").filter((line) => line.startsWith("data:"));
    const data = lines.map((line) => line.slice(5).trim()).join("\n");
    if (event.includes("event: endpoint")) return this.#endpoint.resolve(new URL(data, this.#url).href);
    const { id } = JSON.parse(data);
    this.#open.get(id)?.(data);
    this.#open.delete(id);
  }
}
