// Chaos on a real workerd: sessions of HTTP clients, the Worker, bad weather, and a mortal server; the
// runtime is mortal too, and comes back on its port with what it has stored. A client does what the
// specification says: it comes back with the last event id for the rest of a stream that was cut.
// Each request has at most one answer, none is carried out twice, an answer is right or says how far the
// request came, and only where the runtime died, or a connection before its first event, is there none.

import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { Dice, Weather } from "../../fixtures/weather.mjs";
import { assertBalanced, assertServed, CALLS, faultOf, Mortal, SEED, servers, summary, told } from "../chaos.mjs";
import { WireClient } from "./wire.mjs";
import { startWorker } from "./workerd.mjs";

/** A hung test is a failed test; nothing here measures speed. */
const HUNG_MS = 120_000 + CALLS * 400;
const SESSIONS = 4;
/** Requests that a session may have open at once. */
const OPEN = 6;
/** How long a client waits before it tries again. */
const PAUSE_MS = 20;
const variables = {
  PUBLIC: "1",
  ALLOW_HTTP: "1",
  REQUEST_TIMEOUT_SECONDS: "4",
  STREAM_AFTER_MS: "20",
  HEARTBEAT_SECONDS: "1",
};

for (const [at, kind] of servers.entries()) {
  test(`${CALLS} calls in bad weather behind the Worker, before ${kind.name}`, { timeout: HUNG_MS }, async (t) => {
    t.diagnostic(`MCP_PROXY_CHAOS_SEED=${SEED}`);
    const dice = new Dice(SEED + at);
    const server = new Mortal(kind.start);
    await server.begin();
    t.after(() => server.close());
    // One path to the server, and one to the Worker.
    const behind = new Weather(dice.split(), server.port);
    await behind.listen();
    t.after(() => behind.close());
    const worker = await startWorker({ ...variables, UPSTREAM_URL: `http://127.0.0.1:${behind.port}${server.path}` });
    t.after(() => worker.stop());
    const before = new Weather(dice.split(), worker.port);
    before.log = behind.log;
    await before.listen();
    t.after(() => before.close());
    await told(behind, async () => t.diagnostic(await play({ kind, server, worker, before, behind, dice })));
  });
}

async function play({ kind, server, worker, before, behind, dice }) {
  const clients = Array.from({ length: SESSIONS }, () => new Follower(before));
  await Promise.all(clients.map((client) => client.open()));
  for (const weather of [before, behind]) weather.storm();
  const asked = [];
  let restarting = Promise.resolve();
  for (let mark = 1; mark <= CALLS; mark += 1) {
    const client = dice.pick(clients);
    await client.below(OPEN);
    asked.push(client.ask(dice.pick(kind.calls), mark));
    if (dice.once(60)) kill(server, behind, mark);
    if (dice.once(80)) restarting = restart(restarting, worker, behind, mark);
    if (dice.once(40)) dice.pick([before, behind]).strike();
    // Whoever waits for a process that starts must not use up all the calls meanwhile.
    if (mark % 5 === 0) await Promise.all([server.back(), restarting]);
  }
  for (const weather of [before, behind]) weather.clear();
  await Promise.all([server.back(), restarting]);
  const answers = await Promise.all(asked.map(({ answer }) => answer));
  const ran = kind.marks ? server.ran() : undefined;
  assertBalanced(
    [
      ...answers.map((answer, at) => answer && faultOf(asked[at], answer, ran)),
      ...clients.flatMap((client) => client.faults()),
      ...unaskedRuns(ran, asked, answers),
    ].filter(Boolean),
  );
  for (const client of clients) await assertServed(kind.calls[1], (...call) => client.request(...call));
  await Promise.all(clients.map((client) => client.leave()));
  const lost = answers.filter((answer) => answer === undefined).length;
  return `${summary(answers.filter(Boolean))}, ${lost} lost with their connections`;
}

/** Whoever has no answer was carried out once at most, too. */
function unaskedRuns(ran, asked, answers) {
  if (ran === undefined) return [];
  const silent = asked.filter((_, at) => answers[at] === undefined);
  return silent
    .filter(({ mark }) => ran.get(mark) > 1)
    .map(({ mark }) => `${mark} was carried out twice, without an answer`);
}

function kill(server, weather, mark) {
  weather.note(`at call ${mark}: kill the server`);
  server.kill();
}

async function restart(last, worker, weather, mark) {
  await last;
  weather.note(`at call ${mark}: kill workerd`);
  await worker.restart();
}

/** A client that follows its streams to their end, and answers what it is asked on them. */
class Follower extends WireClient {
  #open = new Set();
  #answers = new Map();
  #replied = new Set();
  #refusals = [];

  /** Makes a request; `answer` resolves with its answer, or with nothing where it went with its connection. */
  ask(kind, mark) {
    const { method, params } = kind.message(mark);
    const answer = this.#follow({ jsonrpc: "2.0", id: mark, method, params });
    this.#open.add(answer);
    answer.finally(() => this.#open.delete(answer)).catch(() => {});
    return { kind, mark, answer };
  }

  /** Resolves once fewer than so many are open. */
  async below(most) {
    while (this.#open.size >= most) await Promise.race(this.#open);
  }

  /** What was answered too often, or refused. */
  faults() {
    const repeated = [...this.#answers].filter(([, count]) => count > 1);
    return [...this.#refusals, ...repeated.map(([id, count]) => `${count} answers to ${id}`)];
  }

  async #follow(message) {
    const body = JSON.stringify(message);
    let response = await this.send("POST", { headers: this.named(), body }).catch(() => undefined);
    for (let last; response !== undefined; response = last && (await this.#resume(last))) {
      const found = (await this.#read(response)).filter(({ method, id }) => method === undefined && id === message.id);
      this.#answers.set(message.id, (this.#answers.get(message.id) ?? 0) + found.length);
      if (found.length > 0) return found[0];
      if (response.status >= 400) return undefined;
      last = response.events.findLast(({ id }) => id)?.id ?? last;
    }
    return undefined;
  }

  /** All messages of a response, which has ended in one way or another. */
  async #read(response) {
    const isStream = response.headers["content-type"] === "text/event-stream";
    await response.until("the end of the response", () => {
      if (isStream) this.#reply(response.messages.filter(({ method, id }) => method && id !== undefined));
      return response.over;
    });
    if (response.status >= 400 && response.status < 500)
      this.#refusals.push(`${response.status}: ${response.text.slice(0, 300)}`);
    return isStream || (response.status === 200 && response.over === "ended") ? response.messages : [];
  }

  /** Comes back for the rest of a stream, as often as the connection is lost before it begins. */
  async #resume(last) {
    for (;;) {
      const response = await this.listen(last).catch(() => undefined);
      if (response && response.status < 500) return response;
      await delay(PAUSE_MS);
    }
  }

  /** Answers questions, each until the answer was taken. */
  #reply(questions) {
    for (const { id } of questions.filter(({ id: each }) => !this.#replied.has(each))) {
      this.#replied.add(id);
      this.#insist(JSON.stringify({ jsonrpc: "2.0", id, result: {} }));
    }
  }

  async #insist(body) {
    for (let response; response === undefined;) {
      response = await this.send("POST", { headers: this.named(), body }).catch(() => delay(PAUSE_MS));
    }
  }
}
