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
    const { id: last } = await waiting[0].until("an event id", () => waiting[0].events.at(-1));
    await server.seen("POST /messages tools/call", 2);

    // Here the edge lives in the same isolate, so the runtime answers; elsewhere it is the edge, with 503.
    const blamed = await guilty.startCall(word);
    assert.ok([500, 503].includes(blamed.status), `${blamed.status}`);
    await blamed.ended();
    for (const response of [...waiting, listening]) await response.ended();
    await server.deserted();

    // The sessions are still there, and what was open is told honestly.
    const rest = await one.listen(last);
    assert.equal((await rest.answer("waiting")).error.data.delivered, "maybe");
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
