// The edge and the sessions in isolates of their own, as on the platform, where they are often not even
// on the same machine. What fails among the sessions then leaves the edge to tell of it.

import assert from "node:assert/strict";
import { converse, scene } from "./scene.mjs";
import { TYPES, initialize } from "./wire.mjs";

const CALL = "POST /messages tools/call";
const INITIALIZE = "POST /messages initialize";

scene("a session in another isolate than the edge", { apart: true }, async ({ server, connect }) => {
  await converse(server, connect());
});

scene("many calls at once, and a restart, apart from the edge", { apart: true }, async ({ server, worker, join }) => {
  const client = await join();
  const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => client.call("echo", { n })));
  for (const [n, { result }] of answers.entries()) assert.equal(result.structuredContent.n, n);
  client.verify();
  await worker.restart();
  await server.deserted();
  assert.ok((await client.call("echo")).result);
});

for (const word of ["crash at once", "crash in a task"]) {
  scene(
    `${word}: the edge tells whoever waits`,
    { apart: true, bundle: "worker-crash" },
    async ({ server, worker, connect, join }) => {
      const page = { headers: { origin: worker.url } };
      const [guilty, other] = await Promise.all([join(page), join()]);
      const listening = await other.listen();
      const streaming = await other.startCall("never", {}, { id: "streaming" });
      await server.seen(CALL);
      server.always(INITIALIZE, () => {});
      const waiting = [connect(page), connect()].map((client) =>
        client.send("POST", { headers: TYPES, body: initialize }),
      );
      await server.seen(INITIALIZE, 4);

      const [blamed, shared, plain] = await Promise.all([guilty.startCall(word), ...waiting]);
      await assertOver(blamed);
      for (const response of [shared, plain]) await assertTold(response);
      for (const { headers } of [blamed, shared]) {
        assert.equal(headers["access-control-allow-origin"], worker.url);
        assert.match(headers["access-control-expose-headers"], /mcp-session-id/);
        assert.match(headers.vary, /origin/i);
      }
      assert.equal(plain.headers["access-control-allow-origin"], undefined);
      for (const response of [listening, streaming]) await response.ended();
      await server.deserted();
    },
  );

  scene(`${word}: everybody can go on`, { apart: true, bundle: "worker-crash" }, async ({ server, join }) => {
    const [guilty, other] = await Promise.all([join(), join()]);
    await assertOver(await guilty.startCall(word));
    await server.deserted();
    const fresh = await join();
    for (const client of [fresh, guilty, other]) {
      const { result } = await client.call("echo", { text: "alive" });
      assert.equal(result.structuredContent.text, "alive");
    }
  });
}

/** The edge tells of it; where the response had begun, its end does. */
async function assertOver(response) {
  if (response.status !== 200) return assertTold(response);
  await response.ended();
  return assert.deepEqual(response.messages, []);
}

/** It says what has happened, and when to come back. */
async function assertTold(response) {
  assert.equal(response.status, 503);
  assert.equal(response.headers["retry-after"], "1");
  const { jsonrpc, error } = await response.json();
  assert.deepEqual([jsonrpc, error.code], ["2.0", -32000]);
  assert.match(error.message, /restarted/);
}
