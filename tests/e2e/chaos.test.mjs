// Chaos on real processes: a client, a proxy, bad weather and a mortal server. Whatever happens, every
// request has exactly one answer, which is right or says how far the request came; nothing is carried out
// twice; when the weather clears, the next call works, and the proxy leaves with 0 at the end of its input.

import { test } from "node:test";
import { Dice, Weather } from "../fixtures/weather.mjs";
import { assertBalanced, assertServed, CALLS, faultOf, Mortal, SEED, servers, summary, told } from "./chaos.mjs";
import { StdioClient } from "./client.mjs";
import { shells } from "./shells.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 120_000 + CALLS * 400;
/** Requests that may be open at once. */
const OPEN = 24;

for (const shell of shells) {
  for (const [at, kind] of servers.entries()) {
    test(`${CALLS} calls in bad weather before ${kind.name} [${shell.name}]`, { timeout: HUNG_MS }, async (t) => {
      t.diagnostic(`MCP_PROXY_CHAOS_SEED=${SEED}`);
      const dice = new Dice(SEED + at);
      const server = new Mortal(kind.start);
      await server.begin();
      t.after(() => server.close());
      const weather = new Weather(dice.split(), server.port);
      await weather.listen();
      t.after(() => weather.close());
      const url = `http://127.0.0.1:${weather.port}${server.path}`;
      const client = new StdioClient(shell, url, { options: ["--request-timeout", "4s"] });
      t.after(() => client.kill());
      await told(weather, async () => t.diagnostic(await play({ kind, client, server, weather, dice })));
    });
  }
}

async function play({ kind, client, server, weather, dice }) {
  client.onMessage = (message) => {
    if (message.method !== undefined && message.id !== undefined) client.send({ id: message.id, result: {} });
  };
  await client.handshake();
  weather.storm();
  const asked = [];
  const gusts = [];
  for (let mark = 1; mark <= CALLS; mark += 1) {
    asked.push(ask(client, dice.pick(kind.calls), mark));
    gusts.push(gust({ client, server, weather, dice, mark }));
    await below(asked, OPEN);
    // Whoever waits for a server that starts must not use up all the calls meanwhile.
    if (mark % 10 === 0) await server.back();
  }
  weather.clear();
  await Promise.all(gusts);
  await server.back();
  const answers = await Promise.all(asked.map(({ answer }) => answer));
  const ran = kind.marks ? server.ran() : undefined;
  assertBalanced(answers.map((answer, at) => faultOf(asked[at], answer, ran)).filter(Boolean));
  const [, next] = kind.calls;
  await assertServed(next, (...call) => client.request(...call));
  await client.finish();
  return summary(answers);
}

/** Sends a request; `answer` resolves with its answer. */
function ask(client, kind, mark) {
  const { method, params } = kind.message(mark);
  const entry = { kind, mark, isOpen: true };
  entry.answer = client.request(method, params, mark + 1000).finally(() => (entry.isOpen = false));
  entry.answer.catch(() => {});
  return entry;
}

/** Resolves once fewer than so many are open. */
async function below(asked, most) {
  for (
    let open = asked.filter(({ isOpen }) => isOpen);
    open.length >= most;
    open = asked.filter(({ isOpen }) => isOpen)
  )
    await Promise.race(open.map(({ answer }) => answer));
}

/** What happens to the processes while this call is made; mostly nothing. */
async function gust({ client, server, weather, dice, mark }) {
  const what = dice.pick(["kill", "refuse", "freeze", "deafen", "strike"]);
  const length = dice.between(20, 400);
  if (!dice.once(what === "kill" ? 20 : 10)) return;
  weather.note(`at call ${mark}: ${what}`);
  if (what === "kill") await server.kill();
  if (what === "strike") weather.strike();
  if (what === "freeze") await freeze(client, weather, length);
  if (what === "deafen") await deafen(client, weather, length);
  if (what === "refuse") await refuse(weather, length);
}

/** Stops the proxy's process for a while. */
async function freeze(client, weather, length) {
  client.child.kill("SIGSTOP");
  await weather.wait(length);
  client.child.kill("SIGCONT");
}

/** Lets the client not read for a while. */
async function deafen(client, weather, length) {
  client.stall();
  await weather.wait(length);
  client.resume();
}

/** One at a time: a listener that is away cannot go away. */
let refusing = Promise.resolve();
function refuse(weather, length) {
  refusing = refusing.then(() => weather.refuse(length));
  return refusing;
}
