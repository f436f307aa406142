// A panic ends the WebAssembly instance that all sessions of an isolate share. Nothing that waits in it
// is ever woken again; so the test is that nobody waits for ever. A Worker made for this test panics at
// a client's word.

import assert from "node:assert/strict";
import { scene } from "./scene.mjs";

for (const word of ["crash at once", "crash in a task"]) {
  scene(`${word}: nobody hangs, and everybody can go on`, { bundle: "worker-crash" }, async ({ server, join }) => {
    const [guilty, one, other] = await Promise.all([join(), join(), join()]);
    const listening = await one.listen();
    const waiting = await Promise.all([one, other].map((client) => client.startCall("never", {}, { id: "waiting" })));
    const last = await Promise.all(waiting.map((each) => each.until("an event id", () => each.events.at(-1))));
    await server.seen("POST /messages tools/call", 2);

    // Here the edge lives in the same isolate, so the runtime answers; elsewhere it is the edge, with 503.
    const blamed = await guilty.startCall(word);
    assert.ok([500, 503].includes(blamed.status), `${blamed.status}`);
    await blamed.ended();
    for (const response of [...waiting, listening]) await response.ended();
    await server.deserted();

    // The sessions are still there, and whoever comes back for what was open is told honestly.
    for (const [at, client] of [one, other].entries()) {
      const rest = await client.listen(last[at].id);
      assert.equal((await rest.answer("waiting")).error.data.delivered, "maybe");
    }
    for (const client of [guilty, one, other]) {
      const { result } = await client.call("echo", { text: "alive" });
      assert.equal(result.structuredContent.text, "alive");
    }
    const fresh = await join();
    assert.ok((await fresh.call("echo")).result);
    for (const client of [guilty, one, other, fresh]) await client.leave();
    await server.deserted();
  });
}

/** Nothing of a response is there before its answer. */
const held = { STREAM_AFTER_MS: "60000" };

for (const word of ["crash at once", "crash in a task"]) {
  for (const apart of [false, true]) {
    scene(
      `${word}, ${apart ? "apart from" : "together with"} the edge: every request that is open is answered, and the next call works`,
      { bundle: "worker-crash", variables: held, apart },
      async ({ server, join }) => {
        const [guilty, ...others] = await Promise.all([join(), join(), join()]);
        const waiting = others.map((client) => client.startCall("never"));
        await server.seen("POST /messages tools/call", waiting.length);
        const answers = await Promise.all([guilty.startCall(word), ...waiting]);
        for (const answer of answers) {
          assert.ok([500, 503].includes(answer.status), `${answer.status}`);
          assert.equal(await answer.ended(), "ended");
        }
        // The watch ends every object of the isolate, and with it what the server has of each.
        await server.deserted();
        for (const client of [guilty, ...others]) assert.ok((await client.call("echo")).result);
      },
    );
  }
}
