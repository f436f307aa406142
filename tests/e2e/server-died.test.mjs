// A server with sessions that is killed between two rounds of a parked call: the modern client gets one
// answer that says so, and the server that comes back at the same address does not carry the call out.

import assert from "node:assert/strict";
import { test } from "node:test";
import { envelope } from "../fixtures/modern-fixture.mjs";
import { StdioClient } from "./client.mjs";
import { startFixture } from "./processes.mjs";
import { shells } from "./shells.mjs";

const HUNG_MS = 60_000;
const ADA = { action: "accept", content: { name: "Ada" } };
const params = { message: "Who?", requestedSchema: { type: "object", properties: { name: { type: "string" } } } };
const questions = ["first", "second"].map((id) => ({ method: "elicitation/create", params, id }));
const asking = { name: "markedAsk", arguments: { mark: "once", requests: questions } };

/** Resolves with the answer to a request of a client that can be asked. */
const ask = (client, method, more) => client.request(method, { ...more, _meta: envelope({ elicitation: {} }) });

/** A result that asks `key`. */
function assertAsks({ result }, key) {
  assert.deepEqual([result?.resultType, Object.keys(result?.inputRequests ?? {})], ["input_required", [key]]);
  return result.requestState;
}

const answering = (key, requestState) => ({ ...asking, inputResponses: { [key]: ADA }, requestState });

for (const transport of ["streamableHttp", "sse"])
  for (const when of ["before", "after"])
    for (const shell of shells) {
      const name = `a parked call whose server died, continued ${when} it is back: ${transport} [${shell.name}]`;
      test(name, { timeout: HUNG_MS }, async (t) => {
        const server = await startFixture(transport);
        t.after(() => server.close());
        const client = new StdioClient(shell, server.url);
        t.after(() => client.kill());
        const first = assertAsks(await ask(client, "tools/call", asking), "first");
        const second = assertAsks(await ask(client, "tools/call", answering("first", first)), "second");
        await server.close();
        const retry = () => ask(client, "tools/call", answering("second", second));
        const early = when === "before" ? await retry() : undefined;
        const restarted = await startFixture(transport, server.port);
        t.after(() => restarted.close());
        assertLost(early ?? (await retry()));
        assert.equal((await retry()).error?.code, -32602, "the state is used up");
        const { result } = await ask(client, "tools/call", { name: "echo", arguments: { n: 1 } });
        assert.deepEqual(result?.structuredContent, { n: 1 });
        await client.finish();
        assert.equal(server.count("ran once;"), 1);
        assert.equal(restarted.count("ran once;"), 0, restarted.printed());
      });
    }

/** An error that does not promise that the call can be repeated. */
function assertLost({ result, error }) {
  assert.equal(result, undefined);
  assert.match(error?.message, /may have (been )?carried/, JSON.stringify(error));
  assert.notEqual(error.data?.retrySafe, true, JSON.stringify(error));
}
