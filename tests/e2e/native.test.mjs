// What only the native binary can do, because a component cannot: files, variables in headers,
// proxies, another build of the component.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { scenario } from "./scenario.mjs";
import { component } from "./shells.mjs";

const native = (name, options, body) => scenario(name, { ...options, on: ["native"] }, body);

const SECRET = "n4tive-s3cret";

native(
  "${NAME} in a header is the variable's value",
  { options: ["--header", "X-Key:a-${E2E_KEY}-z", "--debug"], env: { E2E_KEY: SECRET } },
  async ({ open, server }) => {
    const client = await open();
    await client.finish();
    for (const { headers, label } of server.log) assert.equal(headers["x-key"], `a-${SECRET}-z`, label);
    assert.ok(!client.stderr.includes(SECRET));
  },
);

native("--header-file adds the headers of a file", {}, async ({ t, open, server }) => {
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-e2e-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "headers");
  writeFileSync(file, `# a comment\n\nX-One: ${SECRET}\r\nX-Two=2\n`);
  const client = await open({ options: ["--header-file", file] });
  await client.finish();
  for (const { headers, label } of server.log)
    assert.deepEqual([headers["x-one"], headers["x-two"]], [SECRET, "2"], label);
});

native("a header file that is not there is a usage error", {}, async ({ connect }) => {
  const client = connect({ options: ["--header-file", join(tmpdir(), "no", "such", "file")] });
  assert.equal((await client.exit()).code, 2);
  assert.equal(client.stderr.trimEnd().split("\n").length, 1);
});

native("HTTP_PROXY is gone through, with credentials for the server only", {}, async ({ t, open, server }) => {
  const forward = await forwardProxy(t, server.port);
  // The name does not exist: only a proxy can reach it.
  const url = "http://mcp.invalid/mcp";
  const client = await open({
    url,
    options: ["--header", `X-Key:${SECRET}`],
    env: { HTTP_PROXY: `http://user:pass@127.0.0.1:${forward.port}` },
  });
  assert.ok((await client.call("echo", { as: "sse" })).result);
  await client.finish();
  assert.ok(forward.log.every(({ url: asked }) => asked === url));
  assert.ok(forward.log.every(({ headers }) => headers["proxy-authorization"] === `Basic ${btoa("user:pass")}`));
  assert.ok(
    server.log.every(({ headers }) => headers["x-key"] === SECRET && headers["proxy-authorization"] === undefined),
  );
});

native("NO_PROXY goes around the proxy", {}, async ({ t, open, server }) => {
  const forward = await forwardProxy(t, server.port);
  const client = await open({ env: { HTTP_PROXY: `http://127.0.0.1:${forward.port}`, NO_PROXY: "127.0.0.1" } });
  await client.finish();
  assert.deepEqual(forward.log, []);
});

native("-v says once which proxy is used, without its password", {}, async ({ t, open, server }) => {
  const forward = await forwardProxy(t, server.port);
  const value = `http://user:${SECRET}@127.0.0.1:${forward.port}`;
  for (const [options, env, said] of [
    [["-v"], { HTTP_PROXY: value }, `[HTTP] through the proxy http://127.0.0.1:${forward.port}`],
    [["--debug"], { ALL_PROXY: value, NO_PROXY: "127.0.0.1" }, "[HTTP] not through the proxy: NO_PROXY exempts the URL"],
    [["-v"], { HTTPS_PROXY: value }, undefined],
    [["-v"], {}, undefined],
    [[], { HTTP_PROXY: value }, undefined],
  ]) {
    const client = await open({ options, env });
    assert.ok((await client.call("echo")).result);
    await client.finish();
    const lines = client.stderr.split("\n").filter((line) => line.includes("through the proxy"));
    assert.deepEqual(lines, said ? [said] : [], client.stderr);
    assert.ok(!client.stderr.includes(SECRET));
  }
});

for (const [what, value] of [
  ["an unknown scheme", `garbage://${SECRET}`],
  ["no host", "http://"],
  ["a port that is none", `http://${SECRET}:port`],
  ["a password that is not escaped", `http://user:a/${SECRET}@127.0.0.1:9`],
  ["nothing like a URL", `${SECRET} ${SECRET}`],
]) {
  native(`a proxy variable with ${what} is a usage error, not a direct connection`, {}, async ({ connect, server }) => {
    for (const name of ["HTTP_PROXY", "http_proxy", "ALL_PROXY"]) {
      const client = connect({ env: { [name]: value } });
      assert.equal((await client.exit()).code, 2, client.stderr);
      assert.equal(client.stderr.trimEnd().split("\n").length, 1, client.stderr);
      assert.ok(client.stderr.includes(name) && !client.stderr.includes(SECRET), client.stderr);
    }
    assert.deepEqual(server.log, []);
  });
}

native("an unusable proxy variable that does not apply to the URL is no error", {}, async ({ open }) => {
  const unusable = "garbage://127.0.0.1";
  for (const env of [
    { HTTPS_PROXY: unusable },
    { HTTP_PROXY: unusable, NO_PROXY: "127.0.0.1" },
    { ALL_PROXY: unusable, no_proxy: "*" },
  ]) {
    const client = await open({ env });
    assert.ok((await client.call("echo")).result);
    await client.finish();
  }
});

native("a proxy is found without a scheme and with a path", {}, async ({ t, open, server }) => {
  const forward = await forwardProxy(t, server.port);
  for (const value of [`127.0.0.1:${forward.port}`, `user:pass@127.0.0.1:${forward.port}/`]) {
    const client = await open({ url: "http://mcp.invalid/mcp", env: { HTTP_PROXY: value } });
    assert.ok((await client.call("echo")).result);
    await client.finish();
  }
});

/** The error that `initialize` is answered with at this URL. */
async function refusal(client) {
  const clientInfo = { name: "c", version: "1" };
  const { error } = await client.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo });
  await client.finish();
  return error;
}

for (const scheme of ["http", "https"]) {
  native(`a server that speaks only HTTP/2 without TLS is named as such at an ${scheme} URL`, {}, async ({ t, connect }) => {
    const port = await h2cServer(t);
    const client = connect({ url: `${scheme}://127.0.0.1:${port}/mcp`, options: ["--retries", "0"] });
    const { message } = await refusal(client);
    const words = "the server speaks HTTP/2 without TLS (h2c), which is not supported";
    assert.ok(message.includes(words), message);
    assert.ok(client.stderr.includes(words), client.stderr);
  });
}

native("a name that cannot be resolved is answered with the resolver's words", {}, async ({ connect }) => {
  // Too long for a name: no resolver asks anybody for it.
  const url = `http://${"a".repeat(64)}.invalid/mcp`;
  const { message } = await refusal(connect({ url, options: ["--retries", "0"] }));
  assert.match(message, /could not be resolved: \S.*(name|lookup|host)/i);
});

native("a port that is none is a usage error that names it", {}, async ({ connect }) => {
  for (const [url, port] of [
    ["http://127.0.0.1:99999/mcp", "99999"],
    ["https://[::1]:65536/", "65536"],
    ["http://127.0.0.1:0/", "0"],
  ]) {
    const client = connect({ url });
    assert.equal((await client.exit()).code, 2, client.stderr);
    assert.equal(client.stderr, `mcp-proxy: the URL's port ${port} is not a number between 1 and 65535\n`);
  }
});

native("connections are kept and used again", {}, async ({ open, server }) => {
  const sockets = new Set();
  server.http.on("connection", (socket) => sockets.add(socket));
  const client = await open();
  await server.listening();
  for (let n = 0; n < 20; n += 1) await client.call("echo", { n });
  await client.finish();
  assert.ok(sockets.size <= 4, `${sockets.size} connections for one call at a time`);
});

native("--component runs another build of the component", {}, async ({ open }) => {
  const client = await open({ options: ["--component", component] });
  assert.ok((await client.call("echo")).result);
  await client.finish();
});

native("a --component that is none is a usage error that says why", {}, async ({ t, connect }) => {
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-e2e-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const text = join(folder, "text.cwasm");
  writeFileSync(text, "no component");
  for (const [file, reason] of [
    [join(folder, "nope"), /No such file|cannot find/],
    [join(folder, "nope.cwasm"), /No such file|cannot find/],
    [folder, /not a file/],
    [text, /text\.cwasm: \S/],
  ]) {
    const client = connect({ options: ["--component", file] });
    assert.equal((await client.exit()).code, 2, client.stderr);
    assert.equal(client.stderr.trimEnd().split("\n").length, 1, client.stderr);
    assert.ok(client.stderr.includes(`--component ${file}`), client.stderr);
    assert.match(client.stderr, reason);
  }
});

/** A forward proxy that sends everything to one port of this machine. */
async function forwardProxy(t, port) {
  const log = [];
  const server = http.createServer((req, res) => {
    log.push({ url: req.url, headers: req.headers });
    const { "proxy-authorization": _, ...headers } = req.headers;
    const path = new URL(req.url).pathname;
    const onward = http.request({ port, host: "127.0.0.1", method: req.method, path, headers }, (answer) => {
      res.writeHead(answer.statusCode, answer.headers);
      answer.on("error", () => res.destroy());
      answer.pipe(res);
    });
    onward.on("error", () => res.destroy());
    res.on("close", () => onward.destroy());
    req.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { port: server.address().port, log };
}

/** The port of a server that speaks HTTP/2 with prior knowledge, and nothing else. */
async function h2cServer(t) {
  const sockets = new Set();
  const server = http2.createServer();
  server.on("connection", (socket) => sockets.add(socket));
  for (const event of ["sessionError", "error"]) server.on(event, () => {});
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((resolve) => server.close(resolve));
  });
  return server.address().port;
}
