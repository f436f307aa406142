// The runtime throws an object out that nobody has asked for anything for a little more than two
// minutes, and takes no account of what the object itself has opened. Local workerd does so too, which
// is why this takes its time.

import assert from "node:assert/strict";
import { scene } from "./scene.mjs";

const CALL = "POST /messages tools/call";
/** The server is asked for a sign of life every 30 s. */
const PULSE_MS = 30_000;
const PULSES = 6;

scene(
  "a session that nobody uses, and that is not idle for long enough, stays where it is",
  { lasts: PULSES * PULSE_MS, variables: { IDLE_SECONDS: "3600" } },
  async ({ server, join }) => {
    const client = await join();
    assert.ok((await client.call("echo")).result);
    for (const response of client.responses) assert.equal(await response.ended(), "ended");
    await server.seen("POST /messages ping", PULSES);
    const { result } = await client.call("echo", { text: "same session" });
    assert.equal(result.structuredContent.text, "same session");
    assert.equal(server.requests("GET /sse").length, 1);
    assert.equal(server.requests("POST /messages initialize").length, 1);
    const [first, last] = server.requests(CALL).map(({ query }) => query.get("sessionId"));
    assert.equal(last, first);
  },
);
