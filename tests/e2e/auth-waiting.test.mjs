// While a person logs in: what waits says so, nothing times out, and the end of the client is the end of the wait.

import assert from "node:assert/strict";
import { startServer } from "../fixtures/server.mjs";
import { assertServed, loginScenario, refusal } from "./auth/scene.mjs";

const WORD = "waiting for you to log in at";

/** A call for which a person has to log in; resolves once the browser is open. */
async function waitingCall(scene, options = {}) {
  const { as, server, desk } = scene;
  const client = await scene.open(options);
  await as.forgetAll(server.tokens().at(-1));
  desk.wait();
  const answer = client.call("echo", { text: "late" }, "slow", { progressToken: "p" });
  const visit = await desk.visit(2);
  return { client, answer, visit };
}

loginScenario(
  "a call that waits for a person says so on stderr and as progress, and is answered after all",
  {},
  async (scene) => {
    const { client, answer, visit } = await waitingCall(scene);
    const progress = await client.message("progress", ({ method }) => method === "notifications/progress");
    assert.deepEqual(progress.params, { progressToken: "p", progress: 0, message: `${WORD} ${scene.as.issuer}` });
    await client.until("a word on stderr", () => client.stderr.includes(`mcp-proxy: ${WORD} ${scene.as.issuer}`));
    assert.ok(client.stderr.includes(`${scene.server.url} wants you to log in`), client.stderr);
    visit.act("log in");
    assert.equal((await answer).result.content[0].text, "late");
    await client.finish();
  },
);

loginScenario("no time limit of a request runs while a person logs in", {}, async (scene) => {
  const { client, answer, visit } = await waitingCall(scene, { options: ["--request-timeout", "1500ms"] });
  // A proxy with a longer limit begins to wait later, for a server that never answers: it gives up meanwhile.
  const other = await startServer();
  scene.t.after(() => other.close());
  const clock = await scene.open({ url: other.url, options: ["--request-timeout", "6s"] });
  assert.ok((await clock.call("never")).error);
  await clock.finish();
  visit.act("log in");
  assert.equal((await answer).result?.content[0].text, "late");
  await client.finish();
});

loginScenario("requests meanwhile wait for the same login", {}, async (scene) => {
  const { client, answer, visit } = await waitingCall(scene);
  const others = [1, 2, 3].map((n) => assertServed(client, `other ${n}`));
  await client.until("a word on stderr", () => client.stderr.includes(WORD));
  visit.act("log in");
  assert.ok((await answer).result);
  await Promise.all(others);
  await client.finish();
  assert.equal(scene.desk.visits.length, 2);
});

loginScenario(
  "a call that is cancelled while a person logs in has no answer, and the login still counts",
  {},
  async (scene) => {
    const { client, answer, visit } = await waitingCall(scene);
    // No answer comes, not even an error.
    answer.then(assert.fail, () => {});
    client.notify("notifications/cancelled", { requestId: "slow" });
    visit.act("log in");
    await scene.desk.page(2);
    await assertServed(client);
    await client.finish();
    assert.equal(scene.desk.visits.length, 2);
  },
);

loginScenario(
  "the end of stdin ends the wait: the call is answered, and the process leaves with 0",
  {},
  async (scene) => {
    const { client, answer } = await waitingCall(scene, { options: ["--drain-timeout", "300ms"] });
    client.eof();
    const { error } = await answer;
    assert.equal(error.code, -32000);
    await client.finish();
    await assertClosed(scene);
  },
);

for (const signal of ["SIGINT", "SIGTERM"]) {
  loginScenario(
    `${signal} ends the wait: the call is answered, and the process leaves with 0`,
    { skip: process.platform === "win32" },
    async (scene) => {
      const { client, answer } = await waitingCall(scene);
      client.child.kill(signal);
      const { error } = await answer;
      assert.equal(error.code, -32000);
      assert.deepEqual(await client.exit(), { code: 0, signal: null }, client.stderr);
      client.verify();
      await assertClosed(scene);
    },
  );
}

loginScenario("an initialize that waits is answered at the end, too", {}, async (scene) => {
  scene.desk.wait();
  const ends = [(client) => client.eof()];
  if (process.platform !== "win32") ends.push((client) => client.child.kill("SIGINT"));
  for (const [n, end] of ends.entries()) {
    const client = scene.connect({ options: ["--drain-timeout", "300ms"] });
    const refused = refusal(client);
    await scene.desk.visit(n + 1);
    end(client);
    assert.equal((await refused).code, -32000);
    assert.deepEqual(await client.exit(), { code: 0, signal: null }, client.stderr);
    client.verify();
  }
});

const onLinux = { skip: process.platform !== "linux" && "only Linux shows the group of a process" };

loginScenario("Ctrl-C in the proxy's terminal does not reach the browser", onLinux, async (scene) => {
  await (await scene.open()).finish();
  const [own, parent] = scene.desk.visits[0].groups;
  assert.ok(own && parent && own !== parent, `${own} and ${parent}`);
});

/** Nobody listens for the answer of the login any more. */
async function assertClosed({ desk }) {
  const callback = new URL((await desk.visit(2)).url).searchParams.get("redirect_uri");
  await assert.rejects(fetch(callback), ({ cause }) => cause.code === "ECONNREFUSED");
}
