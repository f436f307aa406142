// A real authorization server that none of us wrote: `oidc-provider`, with dynamic registration, resource
// indicators, rotating refresh tokens, and its own pages for the login and the consent. It runs behind a fixture: a
// test sees every request, and can hold or refuse any. Labels are "GET /auth", "POST /token refresh_token", and so on.

import { generateKeyPairSync, verify } from "node:crypto";
import Provider from "oidc-provider";
import { Fixture } from "../../fixtures/fixture.mjs";

/** What the resource knows. */
export const SCOPES = ["mcp:read", "mcp:write"];

/**
 * Options: those of every fixture, `format` of the access tokens ("opaque" or "jwt"), `clients` that are known
 * already, `methods` (how clients may authenticate), `listed` (whether the server's metadata lists the scopes of the
 * resource; default true).
 */
export async function startAuthorizationServer(options) {
  const server = new AuthorizationServer({ format: "opaque", listed: true, ...options });
  await server.listen();
  return server;
}

class AuthorizationServer extends Fixture {
  #keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  #handle;

  async listen() {
    await super.listen();
    this.issuer = this.origin;
    this.provider = new Provider(this.issuer, configuration(this.options, this.#keys.privateKey));
    this.#handle = this.provider.callback();
  }

  labelOf({ method, path, body }) {
    const grant = path === "/token" ? new URLSearchParams(body).get("grant_type").split(":").at(-1) : "";
    return `${method} ${path} ${grant}`.trimEnd();
  }

  dispatch({ entry, req, res }) {
    req.body = entry.body;
    this.#handle(req, res);
  }

  /** Listens again, on the same port, after `close`. */
  async reopen() {
    await new Promise((resolve) => this.http.listen(this.port, "127.0.0.1", resolve));
  }

  /** The parameters of every request with this label. */
  parameters(label) {
    return this.requests(label).map(({ body }) => Object.fromEntries(new URLSearchParams(body)));
  }

  /** What an access token says, if it is good for this resource: for the middleware of the SDK. */
  async verify(token, resource) {
    const found = this.options.format === "jwt" ? await this.#claims(token) : await this.#stored(token);
    if (!found || found.aud !== resource) return undefined;
    return { token, clientId: found.clientId, scopes: (found.scope ?? "").split(" "), expiresAt: found.exp };
  }

  /** Revokes an access token: the resource no longer takes it. */
  async forget(token) {
    await (await this.#stored(token)).destroy();
  }

  /** Revokes everything that was issued for this access token's consent. */
  async forgetAll(token) {
    const { grantId } = await this.#stored(token);
    for (const kind of ["AccessToken", "RefreshToken"]) await this.provider[kind].revokeByGrantId(grantId);
    await (await this.provider.Grant.find(grantId)).destroy();
  }

  async #stored(token) {
    const { AccessToken, ClientCredentials } = this.provider;
    return (await AccessToken.find(token)) ?? ClientCredentials.find(token);
  }

  /** What a token says that is signed with ES256, by this server. */
  #claims(token) {
    const [head, body, signature] = token.split(".");
    const key = { key: this.#keys.publicKey, dsaEncoding: "ieee-p1363" };
    if (!verify("sha256", `${head}.${body}`, key, Buffer.from(signature ?? "", "base64url"))) return undefined;
    const claims = JSON.parse(Buffer.from(body, "base64url"));
    return claims.iss === this.issuer ? { ...claims, clientId: claims.client_id } : undefined;
  }
}

function configuration({ format, clients, methods, listed }, key) {
  const resourceServer = (resource) => ({
    scope: SCOPES.join(" "),
    audience: resource,
    accessTokenFormat: format,
    accessTokenTTL: TTL.AccessToken,
    jwt: { sign: { alg: "ES256" } },
  });
  return {
    clients,
    clientAuthMethods: methods,
    enabledJWA: { clientAuthSigningAlgValues: ["RS256", "ES256", "ES384", "EdDSA"] },
    jwks: { keys: [{ ...key.export({ format: "jwk" }), alg: "ES256", use: "sig" }] },
    clientDefaults: { id_token_signed_response_alg: "ES256" },
    cookies: { keys: ["e2e"] },
    scopes: ["openid", "offline_access", ...(listed ? SCOPES : [])],
    ttl: TTL,
    rotateRefreshToken: true,
    features: {
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      registration: { enabled: true },
      resourceIndicators: { enabled: true, getResourceServerInfo: (_ctx, resource) => resourceServer(resource) },
      revocation: { enabled: true },
    },
  };
}

const HOUR_S = 3600;
const TTL = {
  AccessToken: HOUR_S,
  ClientCredentials: HOUR_S,
  DeviceCode: HOUR_S,
  Grant: HOUR_S,
  IdToken: HOUR_S,
  Interaction: HOUR_S,
  RefreshToken: HOUR_S,
  Session: HOUR_S,
};

// The provider tells at length what a server on the web must not do.
for (const level of ["info", "warn"]) {
  const say = console[level];
  console[level] = (text, ...rest) => String(text).includes("oidc-provider ") || say(text, ...rest);
}
