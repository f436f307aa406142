// An authorization server made by hand, which says yes to everybody at once, and misbehaves where a test tells it to.
// The rules of the fixture steer it: labels are "GET /authorize", "POST /token authorization_code", and so on.

import { randomUUID } from "node:crypto";
import { Fixture } from "../../fixtures/fixture.mjs";

/**
 * Options: those of every fixture, `metadata` (a function from this server to other members of its metadata) and
 * `answer` (a function from the answer of a login, as an object, to another one).
 */
export async function startHostileServer(options = {}) {
  const server = new HostileServer(options);
  await server.listen();
  return server;
}

class HostileServer extends Fixture {
  #tokens = new Set();

  async listen() {
    await super.listen();
    this.issuer = this.origin;
  }

  labelOf({ method, path, body }) {
    const grant = path === "/token" ? (new URLSearchParams(body).get("grant_type") ?? "") : "";
    return `${method} ${path} ${grant}`.trimEnd();
  }

  dispatch(exchange) {
    const { label } = exchange.entry;
    if (label === "GET /.well-known/oauth-authorization-server") return exchange.json(this.metadata());
    if (label === "POST /register") return exchange.json({ ...exchange.message, client_id: "anybody" });
    if (label === "GET /authorize") return this.authorize(exchange);
    if (label.startsWith("POST /token")) return exchange.json(this.issue());
    return exchange.reply(404);
  }

  metadata() {
    const at = (path) => `${this.origin}${path}`;
    return {
      issuer: this.issuer,
      authorization_endpoint: at("/authorize"),
      token_endpoint: at("/token"),
      registration_endpoint: at("/register"),
      code_challenge_methods_supported: ["S256"],
      response_types_supported: ["code"],
      ...this.options.metadata?.(this),
    };
  }

  /** Sends the browser back with a code. */
  authorize(exchange) {
    const { query } = exchange.entry;
    const answer = { code: randomUUID(), state: query.get("state") };
    this.sendBack(exchange, this.options.answer?.(answer) ?? answer);
  }

  /** Sends the browser back with this answer. */
  sendBack(exchange, answer) {
    const target = new URL(exchange.entry.query.get("redirect_uri"));
    for (const [name, value] of Object.entries(answer)) target.searchParams.set(name, value);
    exchange.reply(302, { location: target.href });
  }

  /** A new token, which is good at once. */
  issue() {
    const token = randomUUID();
    this.#tokens.add(token);
    return { access_token: token, token_type: "Bearer", expires_in: 3600 };
  }

  /** For the middleware of the SDK. */
  verify(token) {
    if (!this.#tokens.has(token)) return undefined;
    return { token, clientId: "anybody", scopes: ["mcp:read", "mcp:write"], expiresAt: Date.now() / 1000 + 3600 };
  }
}
