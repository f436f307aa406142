// Several processes share one login, and outages of either server open no browser. Refresh tokens rotate, and one
// that is used twice ends the whole login: `oidc-provider` then revokes everything.

import assert from "node:assert/strict";
import { assertServed, loginScenario, refusal } from "./auth/scene.mjs";

const LOGIN = "POST /token authorization_code";
const REFRESH = "POST /token refresh_token";
const MANY = 10;

/** Holds the next request of this label; resolves with it once it is there. */
const held = (server, label) => new Promise((resolve) => server.once(label, resolve));

/** Resolves once one of the clients says that it waits for another. */
const someoneWaits = (clients) => {
  const word = "waiting for another mcp-proxy";
  return Promise.any(clients.map((client) => client.until(word, () => client.stderr.includes(word))));
};

loginScenario("two processes with an expired token renew it once, and both work", {}, async (scene) => {
  const { as, server, desk } = scene;
  await (await scene.open()).finish();
  await scene.age();
  const renewal = held(as, REFRESH);
  const clients = [scene.connect(), scene.connect()];
  const hands = clients.map((client) => client.handshake());
  const exchange = await renewal;
  await someoneWaits(clients);
  as.dispatch(exchange);
  await Promise.all(hands);
  for (const client of clients) {
    await assertServed(client);
    await client.finish();
  }
  assert.deepEqual([as.requests(REFRESH).length, desk.visits.length, server.tokens().length], [1, 1, 2]);
});

loginScenario("five processes that start at once with an expired token renew it once", {}, async (scene) => {
  const { as, desk } = scene;
  await (await scene.open()).finish();
  await scene.age();
  const clients = Array.from({ length: 5 }, () => scene.connect());
  await Promise.all(clients.map((client) => client.handshake()));
  await Promise.all(clients.map((client) => assertServed(client)));
  for (const client of clients) await client.finish();
  assert.deepEqual([as.requests(REFRESH).length, desk.visits.length], [1, 1]);
});

loginScenario("a process that slept uses the newest refresh token, which another one has stored", {}, async (scene) => {
  const { as, server, desk } = scene;
  const sleeper = await scene.open();
  await server.seen("GET");
  await assertServed(sleeper);
  // From here on it asks nothing.
  await scene.age();
  await (await scene.open()).finish();
  // What the other one got has expired by now, too.
  await scene.age();
  await assertServed(sleeper);
  await sleeper.finish();
  const used = as.parameters(REFRESH).map((parameters) => parameters.refresh_token);
  assert.deepEqual([used.length, new Set(used).size], [2, 2]);
  assert.deepEqual([desk.visits.length, server.requests("POST initialize").length], [1, 2]);
});

loginScenario("two processes without a token open one browser, and both work", {}, async (scene) => {
  const { as, server, desk } = scene;
  desk.wait();
  const clients = [scene.connect(), scene.connect()];
  const hands = clients.map((client) => client.handshake());
  const visit = await desk.visit();
  await someoneWaits(clients);
  visit.act("log in");
  await Promise.all(hands);
  for (const client of clients) {
    await assertServed(client);
    await client.finish();
  }
  assert.deepEqual([desk.visits.length, as.requests(LOGIN).length, server.tokens().length], [1, 1, 1]);
});

loginScenario("many calls at once without a token open one browser", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  await as.forgetAll(server.tokens().at(-1));
  await Promise.all(Array.from({ length: MANY }, (_, n) => assertServed(client, `call ${n}`)));
  await client.finish();
  assert.deepEqual([desk.visits.length, as.requests(LOGIN).length, as.requests(REFRESH).length], [2, 2, 1]);
});

loginScenario("calls that wait for an authorization server that does not answer wait once", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  await server.seen("GET");
  await assertServed(client);
  await as.forget(server.tokens().at(-1));
  const renewal = held(as, REFRESH);
  as.always(REFRESH, (exchange) => exchange.reply(503));
  const answers = Array.from({ length: MANY }, (_, n) => client.call("echo", { text: `call ${n}` }));
  const exchange = await renewal;
  await server.until("all calls refused", () => server.refusals() > MANY);
  // Everything that reaches the server later comes after all of them.
  const later = client.request("tools/list");
  await server.until("one more refusal", () => server.refusals() > MANY + 1);
  exchange.reply(503);
  for (const { error } of await Promise.all(answers)) assert.match(error.message, /\/token answered 503/);
  await later;
  await client.finish();
  assert.equal(desk.visits.length, 1);
  // A few may come too late to share the failure.
  const count = as.requests(REFRESH).length;
  assert.ok(count <= MANY / 2, `${count} attempts`);
});

/** What makes the server of a scene unreachable; each returns what ends the outage. */
const outages = {
  "answers 503": (server, label) => server.always(label, (exchange) => exchange.reply(503)),
  "refuses connections": async (server) => {
    await server.close();
    return () => server.reopen();
  },
};

for (const [what, begin] of Object.entries(outages)) {
  loginScenario(`no browser opens while the MCP server ${what}`, { options: ["--retries", "0"] }, async (scene) => {
    const { as, server, desk } = scene;
    const client = await scene.open();
    const before = as.log.length;
    const end = await begin(server, "POST tools/call");
    for (let n = 0; n < MANY; n += 1) assert.ok((await client.call("echo", { text: "lost" })).error);
    await end();
    await assertServed(client);
    await client.finish();
    assert.deepEqual(as.labels().slice(before), []);
    assert.equal(desk.visits.length, 1);
  });

  loginScenario(`no browser opens while the authorization server ${what}`, {}, async (scene) => {
    const { as, desk } = scene;
    await (await scene.open()).finish();
    await scene.age();
    const client = scene.connect();
    const end = await begin(as, REFRESH);
    const assertRefused = async (refused) => {
      const error = await refusal(refused);
      assert.ok(error.message.includes(`127.0.0.1:${as.port}`), error.message);
      assert.equal(error.data.httpStatus, 401);
    };
    for (let n = 0; n < MANY; n += 1) await assertRefused(client);
    // A client may also start the program again and again.
    for (let n = 0; n < MANY; n += 1) {
      const restarted = scene.connect();
      await assertRefused(restarted);
      await restarted.finish();
    }
    await end();
    await client.handshake();
    await assertServed(client);
    await client.finish();
    assert.deepEqual([desk.visits.length, as.requests(LOGIN).length], [1, 1]);
  });
}

loginScenario("after a login that failed, nobody is asked again at once", {}, async (scene) => {
  const { as, desk } = scene;
  as.always(LOGIN, (exchange) => exchange.reply(503));
  const client = scene.connect();
  for (let n = 0; n < MANY; n += 1) {
    const { message } = await refusal(client);
    assert.ok(message.includes(`${as.origin}/token answered 503`), message);
    assert.equal(message.includes("the next attempt is possible in"), n > 0, message);
  }
  await client.finish();
  assert.equal(desk.visits.length, 1);
});

loginScenario("a login by hand counts at once, also after one that failed", {}, async (scene) => {
  const { as, desk } = scene;
  as.once(LOGIN, (exchange) => exchange.reply(503));
  const client = scene.connect();
  await refusal(client);
  assert.match((await refusal(client)).message, /the next attempt is possible in/);
  assert.equal((await scene.command(["login"])).code, 0);
  await client.handshake();
  await assertServed(client);
  await client.finish();
  assert.equal(desk.visits.length, 2);
});

loginScenario("a refusal that nobody waits for opens no browser and names the command", {}, async (scene) => {
  const { as, server, desk } = scene;
  const client = await scene.open();
  const listening = await server.seen("GET");
  await server.until("an open stream", () => listening.exchange);
  await as.forgetAll(server.tokens().at(-1));
  listening.exchange.reset();
  await client.until("the command", () => client.stderr.includes(`log in with \`mcp-proxy login ${server.url}\``));
  assert.equal(desk.visits.length, 1);
  await assertServed(client);
  await client.finish();
  assert.equal(desk.visits.length, 2);
});
