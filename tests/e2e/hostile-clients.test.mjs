// Clients that mean harm, or do not know better. Every request that can be told from noise has its one
// answer, the next call works, and neither memory nor stderr grows beyond its bound.

import assert from "node:assert/strict";
import { CONTROLS, MIB } from "../fixtures/attacks.mjs";
import { hostile, memoryBound, peakMemory } from "./hostile.mjs";
import { standstill } from "./standstill.mjs";

const small = { limit: MIB };
const ping = (id) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}\n`;

/** How many messages have come in that fit. */
const countOf = (client, fits) => client.messages.filter(fits).length;

for (const member of ["1", "{}", "[]"]) {
  hostile(`a client with a batch of 12 MiB of ${member}`, {}, async ({ open }) => {
    const client = await open();
    await client.bytes(`[${`${member},`.repeat((12 * MIB) / (member.length + 1))}${member}]\n`);
    return client;
  });
}

hostile("a client with a line that never ends", small, async ({ open }) => {
  const client = await open();
  await client.bytes('{"jsonrpc":"2.0","method":"');
  for (let mib = 0; mib < 200; mib += 1) await client.bytes("x".repeat(MIB));
  await client.bytes('"}\n');
  return client;
});

hostile("a client with a line over the default limit", {}, async ({ open }) => {
  const client = await open();
  const { error } = await client.call("echo", { text: "x".repeat(64 * MIB) }, "too long");
  assert.match(error.message, /64 ?MiB|67108864/);
  return client;
});

hostile("a client that uses one id 20,000 times", small, async ({ open, server }) => {
  const client = await open();
  const count = 20_000;
  client.owe('"same"', count);
  const call =
    '{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"holdHead","arguments":{"gate":"same"}}}\n';
  await client.bytes(call.repeat(count));
  const same = ({ id, error }) => id === "same" && error;
  await client.until("all but one refused", () => countOf(client, same) === count - 1);
  server.gate("same").open();
  return client;
});

hostile("a client with 100 ids of 1 MB", { limit: 2 * MIB }, async ({ open }) => {
  const client = await open();
  const ids = Array.from({ length: 100 }, (_, n) => `${n}${"i".repeat(1_000_000)}`);
  for (const id of ids) await client.send({ id, method: "tools/call", params: { name: "echo" } });
  await client.until("all answers", () => countOf(client, ({ id }) => id?.length > 1_000_000) === ids.length);
  return client;
});

hostile("a client with a batch of 20,000 requests", {}, async ({ open }) => {
  const client = await open();
  const ids = Array.from({ length: 20_000 }, (_, n) => `"b${n}"`);
  for (const id of ids) client.owe(id);
  await client.bytes(`[${ids.map((id) => `{"jsonrpc":"2.0","id":${id},"method":"ping"}`).join()}]\n`);
  await client.until("all answers", () => client.lines.length > ids.length);
  return client;
});

hostile("a client with tokens and methods of 500 kB", small, async ({ open }) => {
  const client = await open();
  const long = "t".repeat(500_000);
  for (let n = 0; n < 20; n += 1) {
    await client.call("echo", {}, undefined, { progressToken: `${n}${long}` });
    await client.request(`${n}${long}`);
    await client.notify(`notifications/${long}`);
  }
  return client;
});

hostile("a client whose bytes are no text", small, async ({ open }) => {
  const client = await open();
  const bad = Buffer.of(0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80, 0x00, 0x1b, 0x1e);
  for (let n = 0; n < 2000; n += 1) {
    client.bytes(Buffer.concat([bad, Buffer.from("\n")]));
    client.bytes(
      Buffer.concat([
        Buffer.from(`{"jsonrpc":"2.0","method":"notifications/x","params":{"t":"`),
        bad,
        Buffer.from('"}}\n'),
      ]),
    );
  }
  return client;
});

for (const [what, line] of Object.entries({
  "a line a million arrays deep": `${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}\n`,
  "a line of a million open brackets": `${"[".repeat(1_000_000)}\n`,
  "a notification a million objects deep": `{"jsonrpc":"2.0","method":"x","params":${'{"a":'.repeat(1_000_000)}1${"}".repeat(1_000_000)}}\n`,
})) {
  hostile(`a client with ${what}`, {}, async ({ open }) => {
    const client = await open();
    await client.bytes(line);
    return client;
  });
}

hostile(
  "a client that never reads while 1 GB of answers wait",
  { limit: 16 * MIB },
  async ({ shell, open, server }) => {
    const client = await open();
    client.stall();
    const args = { bytes: 16 * MIB - 4096, gate: "enough" };
    const calls = Promise.all(Array.from({ length: 64 }, () => client.call("longAnswer", args)));
    await standstill(() => server.flooded);
    assert.ok(server.flooded < 512 * MIB, `the server could send ${server.flooded} bytes to nobody`);
    const peak = peakMemory(client.child.pid);
    assert.ok(peak < memoryBound(shell, 16 * MIB), `${peak} bytes`);
    server.gate("enough").open();
    client.resume();
    for (const { result } of await calls) assert.ok(result);
    return client;
  },
);

hostile("a client with 5,000 cancellations of what was never asked", { ...small, calls: 5000 }, async ({ open }) => {
  const client = await open();
  const cancel = (n) => `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none-${n}"}}\n`;
  for (let n = 0; n < 5_000; n += 1000)
    await client.bytes(Array.from({ length: 1000 }, (_, at) => cancel(n + at)).join(""));
  return client;
});

hostile("a client with 50,000 answers to what was never asked", small, async ({ open }) => {
  const client = await open();
  await client.bytes('{"jsonrpc":"2.0","id":"never","result":{}}\n'.repeat(50_000));
  return client;
});

hostile("a client with 100,000 lines of noise", small, async ({ open }) => {
  const client = await open();
  await client.bytes("this is not JSON\n".repeat(100_000));
  return client;
});

hostile("a client with 3,000 pings that does not read", { ...small, calls: 3000 }, async ({ open }) => {
  const client = await open();
  client.stall();
  const count = 3000;
  for (let n = 0; n < count; n += 1) client.owe(`"p${n}"`);
  const sent = client.bytes(Array.from({ length: count }, (_, n) => ping(`"p${n}"`)).join(""));
  client.resume();
  await sent;
  await client.until("all answers", () => client.lines.length > count);
  return client;
});

hostile("a client that cancels each of its calls at once", { ...small, calls: 2000 }, async ({ open }) => {
  const client = await open();
  for (let n = 0; n < 2000; n += 1) {
    client.send({ id: `c${n}`, method: "tools/call", params: { name: "never" } });
    client.notify("notifications/cancelled", { requestId: `c${n}` });
  }
  return client;
});

hostile("a client whose words would pass for lines of ours", { ...small, options: ["-v"] }, async ({ open }) => {
  const client = await open();
  const oneLine = CONTROLS.replaceAll(/[\r\n]/g, "");
  await client.bytes(`${oneLine}\n{"jsonrpc":"2.0","method":"${oneLine}"}\n`);
  await client.request(CONTROLS);
  await client.notify(CONTROLS);
  await client.send({ id: CONTROLS, result: {} });
  await client.notify("notifications/cancelled", { requestId: 77, reason: CONTROLS });
  return client;
});
