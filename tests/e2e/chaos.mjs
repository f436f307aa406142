// What every run of chaos has, whichever shell is in it: dice with a seed that can be set, calls whose right
// answers are known, and books that have to balance. The seed is in the name of the test and in every failure.
// MCP_PROXY_CHAOS_SEED plays a run again, MCP_PROXY_CHAOS_CALLS makes it longer.

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { startEverything, startFixture } from "./processes.mjs";

export const SEED = Number(process.env.MCP_PROXY_CHAOS_SEED ?? randomInt(2 ** 32));
export const CALLS = Number(process.env.MCP_PROXY_CHAOS_CALLS ?? 150);

const text = ({ content }) => content?.[0]?.text;
const call = (name, args, meta) => ({ method: "tools/call", params: { name, arguments: args, _meta: meta } });
const list = { message: () => ({ method: "tools/list" }), isRight: ({ tools }) => tools.length > 5 };

/** What a client may ask of a fixture server, each with what is right for an answer. */
const fixtureCalls = [
  list,
  ...["json", "sse"].map((as) => ({
    message: (mark) => call("markedEcho", { mark, as }),
    isRight: ({ structuredContent }, mark) => structuredContent.mark === mark,
  })),
  {
    message: (mark) => call("markedEcho", { mark, delay: mark % 90 }),
    isRight: ({ structuredContent }, mark) => structuredContent.mark === mark,
  },
  {
    message: (mark) => call("markedEcho", { mark, filling: "f".repeat(mark * 100) }),
    isRight: ({ structuredContent }, mark) => structuredContent.filling.length === mark * 100,
  },
  {
    message: (mark) => call("markedProgress", { mark, steps: 5, every: 5 }, { progressToken: `t${mark}` }),
    isRight: (result) => text(result) === "5 steps",
  },
  {
    message: (mark) => call("markedAsk", { mark, requests: [{ method: "ping" }] }),
    isRight: ({ structuredContent }) => structuredContent.answers.length === 1,
  },
];

/** The same of "everything". */
const everythingCalls = [
  list,
  {
    message: (mark) => call("echo", { message: `m${mark}` }),
    isRight: (result, mark) => text(result) === `Echo: m${mark}`,
  },
  {
    message: (mark) => call("get-sum", { a: mark, b: 1 }),
    isRight: (result, mark) => text(result).includes(String(mark + 1)),
  },
  {
    message: (mark) =>
      call("trigger-long-running-operation", { duration: 0.1, steps: 2 }, { progressToken: `t${mark}` }),
    isRight: (result) => /completed/.test(text(result)),
  },
];

/** The servers of chaos; `marks` says whether they print which calls they have carried out. */
export const servers = [
  ...["streamableHttp", "sse"].map((transport) => ({
    name: `the fixture over ${transport}`,
    start: (port) => startFixture(transport, port),
    calls: fixtureCalls,
    marks: true,
  })),
  ...["streamableHttp", "sse"].map((transport) => ({
    name: `everything over ${transport}`,
    start: (port) => startEverything(transport, port),
    calls: everythingCalls,
    marks: false,
  })),
];

/** A server that is killed and started again on its port. */
export class Mortal {
  #start;
  #lives = [];
  #restarting = Promise.resolve();

  constructor(start) {
    this.#start = start;
  }

  async begin() {
    this.#lives.push(await this.#start(this.#lives[0]?.port));
    const [{ port, url }] = this.#lives;
    Object.assign(this, { port, path: new URL(url).pathname });
  }

  /** Kills it; it is back as soon as it can. */
  kill() {
    this.#restarting = this.#restarting.then(async () => {
      await this.#lives.at(-1).close();
      await this.begin();
    });
    return this.#restarting;
  }

  /** Resolves once it is there. */
  back() {
    return this.#restarting;
  }

  /** How often each mark was carried out, in all its lives. */
  ran() {
    const counts = new Map();
    for (const life of this.#lives) {
      for (const [, mark] of life.printed().matchAll(/^ran (\d+);$/gm))
        counts.set(Number(mark), (counts.get(Number(mark)) ?? 0) + 1);
    }
    return counts;
  }

  async close() {
    await this.#restarting;
    await this.#lives.at(-1).close();
  }
}

/** What is wrong with an answer, if anything: it is right, or an error that says how far the request came. */
export function faultOf({ kind, mark }, { result, error }, ran) {
  const shown = JSON.stringify(error ?? result).slice(0, 400);
  if (result && !kind.isRight(result, mark)) return `a wrong answer to ${mark}: ${shown}`;
  const { phase, delivered, retrySafe, attempt } = error?.data ?? {};
  const isHonest = typeof phase === "string" && typeof retrySafe === "boolean" && attempt >= 0;
  if (error && !(isHonest && ["no", "maybe", "yes"].includes(delivered))) return `no honest error to ${mark}: ${shown}`;
  const isMarked = kind.message(mark).params?.arguments?.mark !== undefined;
  if (ran === undefined || !isMarked) return undefined;
  const times = ran.get(mark) ?? 0;
  if (times > 1) return `${mark} was carried out ${times} times: ${shown}`;
  if (delivered === "no" && times > 0) return `${mark} was carried out, and the error denies it: ${shown}`;
  if (result && times === 0) return `${mark} has an answer and was not carried out: ${shown}`;
  return undefined;
}

/**
 * The next call works. One that is under way when the news of a dead server session arrives may have been carried out;
 * then the one after it works.
 */
export async function assertServed(kind, request) {
  const { method, params } = kind.message(0);
  let answer = await request(method, params, "afterwards");
  if (answer.error?.data.delivered === "maybe") answer = await request(method, params, "after that");
  const { result, error } = answer;
  assert.ok(result && kind.isRight(result, 0), `the next call: ${JSON.stringify(error ?? result)}`);
}

/** Runs the body; a failure says under which seed and in which weather. */
export async function told(weather, body) {
  try {
    return await body();
  } catch (error) {
    const log = weather.log.slice(-150).join("\n");
    throw new Error(`MCP_PROXY_CHAOS_SEED=${SEED}: ${error.message}\n--- weather, the last of it\n${log}`, {
      cause: error,
    });
  }
}

/** How the answers came out, in words. Weather in which nothing is right shows nothing. */
export function summary(answers) {
  assert.ok(answers.some(({ result }) => result), "no answer was right");
  const counts = Object.groupBy(answers, ({ result, error }) =>
    result ? "right" : `delivered: ${error.data.delivered}`,
  );
  return Object.entries(counts)
    .map(([what, { length }]) => `${length} ${what}`)
    .join(", ");
}

/** Fails with all faults at once. */
export function assertBalanced(faults) {
  assert.equal(faults.length, 0, faults.slice(0, 20).join("\n"));
}
