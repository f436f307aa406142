// Requests that are refused for want of a token, and then sent again: long ones, and such that the server refuses before
// it has read them. And other transports than Streamable HTTP.

import assert from "node:assert/strict";
import { startSseServer } from "../fixtures/sse-server.mjs";
import { startHostileServer } from "./auth/hostile-server.mjs";
import { assertServed, loginScenario } from "./auth/scene.mjs";

const MIB = 1024 * 1024;

for (const size of [1, 4, 7]) {
  loginScenario(`a request of ${size} MiB that is refused is sent again, whole`, {}, async (scene) => {
    const { as, server, desk } = scene;
    const client = await scene.open();
    await as.forget(server.tokens().at(-1));
    await assertServed(client, "x".repeat(size * MIB));
    await client.finish();
    assert.equal(desk.visits.length, 1);
  });
}

loginScenario("a request that is too long to be kept is an error, and works the second time", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  await server.seen("GET");
  await assertServed(client);
  await as.forget(server.tokens().at(-1));
  const text = "x".repeat(9 * MIB);
  const { error } = await client.call("echo", { text });
  assert.match(error.message, /too long to be sent again/);
  assert.deepEqual([error.data.httpStatus, error.data.retrySafe], [401, true]);
  await assertServed(client, text);
  await client.finish();
  assert.deepEqual([desk.visits.length, as.requests("POST /token refresh_token").length], [1, 1]);
});

for (const size of [0.1, 4]) {
  loginScenario(
    `a server that refuses ${size} MiB before it has read them gets them again, whole`,
    {},
    async (scene) => {
      const { as, server, desk } = scene;
      const client = await scene.open();
      await server.seen("GET");
      await assertServed(client);
      // From now on, nobody without a good token is read.
      const [read] = server.http.listeners("request");
      server.http.removeAllListeners("request");
      server.http.on("request", async (req, res) => {
        const said = await as.verify(req.headers.authorization?.split(" ")[1], server.url);
        return said ? read(req, res) : res.writeHead(401, { "www-authenticate": "Bearer" }).end();
      });
      await as.forget(server.tokens().at(-1));
      const text = Array.from({ length: (size * MIB) / 8 }, (_, n) => String(n).padStart(8, "0")).join("");
      await assertServed(client, text);
      await client.finish();
      assert.equal(desk.visits.length, 1);
    },
  );
}

loginScenario("a server on HTTP+SSE is logged in at, too", { issuer: startHostileServer }, async (scene) => {
  const { as, desk } = scene;
  const server = await startSseServer();
  scene.t.after(() => server.close());
  const place = "/.well-known/oauth-protected-resource";
  const metadata = { resource: server.origin, authorization_servers: [as.issuer] };
  const served = server.dispatch.bind(server);
  const tokens = new Set();
  server.dispatch = (exchange) => {
    if (exchange.entry.path === place) return exchange.json(metadata);
    const token = exchange.entry.headers.authorization?.split(" ")[1];
    if (!as.verify(token))
      return exchange.reply(401, { "www-authenticate": `Bearer resource_metadata="${server.origin}${place}"` });
    tokens.add(token);
    return served(exchange);
  };
  const client = await scene.open({ url: `${server.origin}/sse` });
  assert.ok((await client.call("echo", { word: "by-stream" })).result);
  await client.finish();
  assert.deepEqual([desk.visits.length, tokens.size], [1, 1]);
});
