// https: which authorities are trusted, client certificates, HTTP/1.1 and HTTP/2. Native only:
// stock wasmtime trusts the authorities that are compiled into it and no others.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import https from "node:https";
import net from "node:net";
import { fileURLToPath } from "node:url";
import { scenario } from "./scenario.mjs";

const path = (name) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const pair = (cert, key) => ({ key: readFileSync(path(key)), cert: readFileSync(path(cert)) });
const identity = pair("server.pem", "server.key");
const authority = readFileSync(path("ca.pem"));
const trust = ["--ca-cert", path("ca.pem")];

const native = (name, options, body) => scenario(name, { ...options, on: ["native"] }, body);

for (const [what, shown, given, [protocol, version]] of [
  ["of a private authority", identity, "ca.pem", ["http/1.1", "1.1"]],
  ["of a private authority", identity, "ca.pem", ["h2", "2.0"]],
  ["with this self-signed certificate", pair("self-signed.pem", "self-signed.key"), "self-signed.pem", ["http/1.1", "1.1"]],
  ["with this self-signed certificate", pair("self-signed.pem", "self-signed.key"), "self-signed.pem", ["h2", "2.0"]],
  ["with this certificate of any authority", identity, "server.pem", ["http/1.1", "1.1"]],
]) {
  native(
    `a server ${what} is reached with --ca-cert over ${protocol}`,
    { server: { tls: { ...shown, protocol } }, options: ["--ca-cert", path(given)] },
    async ({ open, server }) => {
      const client = await open();
      const calls = ["json", "sse"].flatMap((as) => Array.from({ length: 10 }, () => client.call("echo", { as })));
      for (const { result } of await Promise.all(calls)) assert.ok(result);
      await client.finish();
      assert.equal(server.requests("DELETE").length, 1);
      for (const { httpVersion, label } of server.log) assert.equal(httpVersion, version, label);
    },
  );
}

const initialize = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "c", version: "1" } };

/** Expects `initialize` to be refused for this reason, in words to the client, and the server to see nothing. */
async function refused(reason, client, server) {
  const { error } = await client.request("initialize", initialize);
  assert.equal(error.data.delivered, "no");
  assert.match(error.message, reason);
  await client.finish();
  assert.match(client.stderr, reason);
  assert.deepEqual(server.log, []);
}

native(
  "a server of an unknown authority is refused with a reason, and nothing is sent",
  { server: { tls: { ...identity, protocol: "http/1.1" } } },
  ({ connect, server }) => refused(/UnknownIssuer; --ca-cert FILE/, connect(), server),
);

for (const [what, shown, given, host, reason] of [
  ["that nobody gave", "self-signed.pem", "ca.pem", "127.0.0.1", /CaUsedAsEndEntity.*--ca-cert FILE/],
  ["with the key of the one that was given", "renewed.pem", "self-signed.pem", "127.0.0.1", /CaUsedAsEndEntity/],
  ["of another name", "self-signed.pem", "self-signed.pem", "localhost", /not valid for name "localhost"/],
  ["that has expired", "expired.pem", "expired.pem", "127.0.0.1", /certificate expired/],
]) {
  native(
    `a self-signed certificate ${what} is refused with a reason, and nothing is sent`,
    { server: { tls: { ...pair(shown, "self-signed.key"), protocol: "http/1.1" } }, options: ["--ca-cert", path(given)] },
    ({ connect, server }) => refused(reason, connect({ url: `https://${host}:${server.port}/mcp` }), server),
  );
}

native("a server that speaks no TLS is refused with a reason", {}, ({ connect, server }) =>
  refused(/does not speak TLS.*http:/, connect({ url: `https://127.0.0.1:${server.port}/mcp` }), server),
);

const strict = { ...identity, protocol: "http/1.1", ca: authority, requestCert: true, rejectUnauthorized: true };

native(
  "a client certificate is shown where the server asks for one",
  { server: { tls: strict }, options: [...trust, "--client-cert", path("client.pem"), "--client-key", path("client.key")] },
  async ({ open }) => {
    const client = await open();
    assert.ok((await client.call("echo")).result);
    await client.finish();
  },
);

native(
  "an https proxy on the way is not shown the client certificate",
  { server: { tls: strict }, options: [...trust, "--client-cert", path("client.pem"), "--client-key", path("client.key")] },
  async ({ t, open }) => {
    const proxy = await tunnelProxy(t, { ...identity, ca: authority, requestCert: true, rejectUnauthorized: false });
    const client = await open({ env: { HTTPS_PROXY: `https://127.0.0.1:${proxy.port}` } });
    assert.ok((await client.call("echo")).result);
    await client.finish();
    assert.ok(proxy.shown.length > 0);
    for (const certificate of proxy.shown) assert.deepEqual(certificate, {});
  },
);

native("without the client certificate that a server wants there is an error", { server: { tls: strict }, options: trust }, async ({ connect, server }) => {
  const client = connect();
  const { error } = await client.request("initialize", initialize);
  assert.equal(error.code, -32000);
  await client.finish();
  assert.deepEqual(server.log, []);
});

// In TLS 1.3 the alert comes after the first request, and may be lost with the connection.
native(
  "an alert of the server is named to the client",
  { server: { tls: { ...strict, maxVersion: "TLSv1.2" } }, options: trust },
  ({ connect, server }) => refused(/received fatal alert: \w+/, connect(), server),
);

/** An https proxy that opens tunnels and remembers which certificate each client showed: {} for none. */
async function tunnelProxy(t, tls) {
  const shown = [];
  const sockets = new Set();
  const server = https.createServer(tls);
  server.on("connection", (socket) => sockets.add(socket));
  server.on("connect", (req, socket) => {
    shown.push(socket.getPeerCertificate());
    const { hostname, port } = new URL(`http://${req.url}`);
    const onward = net.connect(Number(port), hostname, () => {
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      socket.pipe(onward).pipe(socket);
    });
    for (const end of [socket, onward]) end.on("error", () => [socket, onward].forEach((it) => it.destroy()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return { port: server.address().port, shown };
}
