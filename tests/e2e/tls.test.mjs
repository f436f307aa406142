// https: which authorities are trusted, client certificates, HTTP/1.1 and HTTP/2. Native only:
// stock wasmtime trusts the authorities that are compiled into it and no others.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import https from "node:https";
import net from "node:net";
import { fileURLToPath } from "node:url";
import { scenario } from "./scenario.mjs";

const path = (name) => fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const identity = { key: readFileSync(path("server.key")), cert: readFileSync(path("server.pem")) };
const authority = readFileSync(path("ca.pem"));
const trust = ["--ca-cert", path("ca.pem")];

const native = (name, options, body) => scenario(name, { ...options, on: ["native"] }, body);

for (const [protocol, version] of [
  ["http/1.1", "1.1"],
  ["h2", "2.0"],
]) {
  native(
    `a server of a private authority is reached with --ca-cert over ${protocol}`,
    { server: { tls: { ...identity, protocol } }, options: trust },
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

native(
  "a server of an unknown authority is refused with a reason, and nothing is sent",
  { server: { tls: { ...identity, protocol: "http/1.1" } } },
  async ({ connect, server }) => {
    const client = connect();
    const { error } = await client.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "c", version: "1" },
    });
    assert.match(error.message, /TLS/);
    assert.equal(error.data.delivered, "no");
    await client.finish();
    assert.match(client.stderr, /certificate|UnknownIssuer|issuer/i);
    assert.deepEqual(server.log, []);
  },
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
  const answer = await client.request("initialize", {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "c", version: "1" },
  });
  assert.equal(answer.error.code, -32000);
  await client.finish();
  assert.deepEqual(server.log, []);
});

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
