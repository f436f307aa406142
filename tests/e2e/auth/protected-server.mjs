// A real protected server: the SDK's own middleware for bearer tokens in front of a server on the SDK, in an Express
// app, and the metadata of RFC 9728 beside it. It runs behind a fixture: a test sees every request with its token,
// and can hold or refuse any. Labels are "POST tools/call", "GET", "GET /.well-known/…", and so on.

import { randomUUID } from "node:crypto";
import { InvalidTokenError } from "@modelcontextprotocol/sdk/server/auth/errors.js";
import { requireBearerAuth } from "@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";
import { Fixture } from "../../fixtures/fixture.mjs";

const METADATA = "/.well-known/oauth-protected-resource/mcp";
/** The scope that every request needs. */
const READ = "mcp:read";
/** The scopes that these tools need besides. */
const NEEDED = { write: ["mcp:write"] };

/**
 * Options: those of every fixture, `verify` (resolves with what a token says, if it is good), `issuer` of tokens,
 * `metadata` (other members for the metadata) and `challenge` (another place for it).
 */
export async function startProtectedServer(options) {
  const server = new ProtectedServer(options);
  await server.listen();
  return server;
}

class ProtectedServer extends Fixture {
  #sessions = new Map();
  #app;

  async listen() {
    await super.listen();
    this.url = `${this.origin}/mcp`;
    this.#app = this.#express();
  }

  labelOf({ method, path, message }) {
    if (path !== "/mcp") return `${method} ${path}`;
    return method === "POST" ? `POST ${message?.method ?? "response"}` : method;
  }

  dispatch(exchange) {
    const { entry, req, res } = exchange;
    req.body = entry.message;
    entry.exchange = exchange;
    entry.token = req.headers.authorization?.split(" ")[1];
    res.once("finish", () => {
      entry.status = res.statusCode;
      this.changed();
    });
    this.#app(req, res);
  }

  /** Every token that came with a request, once. */
  tokens() {
    return [...new Set(this.log.map(({ token }) => token).filter(Boolean))];
  }

  /** How many requests had no token that was good enough. */
  refusals() {
    return this.log.filter(({ status }) => status === 401 || status === 403).length;
  }

  /** Listens again, on the same port, after `close`. */
  async reopen() {
    await new Promise((resolve) => this.http.listen(this.port, "127.0.0.1", resolve));
  }

  #express() {
    const app = createMcpExpressApp();
    const { issuer, metadata } = this.options;
    const document = { resource: this.url, authorization_servers: [issuer], scopes_supported: [READ], ...metadata };
    app.get(METADATA, (_req, res) => res.json(document));
    app.all("/mcp", this.#lock([READ]), this.#lockOfTool(), (req, res) => this.#serve(req, res));
    return app;
  }

  #lock(requiredScopes) {
    const verifyAccessToken = async (token) => {
      const said = await this.options.verify(token, this.url);
      if (!said) throw new InvalidTokenError("The token is unknown here");
      return said;
    };
    const resourceMetadataUrl = this.options.challenge ?? `${this.origin}${METADATA}`;
    return requireBearerAuth({ verifier: { verifyAccessToken }, requiredScopes, resourceMetadataUrl });
  }

  #lockOfTool() {
    const locks = Object.entries(NEEDED).map(([tool, scopes]) => [tool, this.#lock(scopes)]);
    const open = (_req, _res, next) => next();
    return (req, res, next) => {
      const [, lock] = locks.find(([tool]) => req.body?.params?.name === tool) ?? [];
      return (lock ?? open)(req, res, next);
    };
  }

  async #serve(req, res) {
    const session = this.#sessions.get(req.headers["mcp-session-id"]) ?? (await this.#newSession());
    return session.handleRequest(req, res, req.body);
  }

  async #newSession() {
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => this.#sessions.set(id, transport),
    });
    await mcpServer().connect(transport);
    return transport;
  }
}

function mcpServer() {
  const server = new McpServer({ name: "protected", version: "1" });
  for (const tool of ["echo", "write"])
    server.registerTool(tool, { inputSchema: { text: z.string() } }, ({ text }) => ({
      content: [{ type: "text", text }],
    }));
  return server;
}
