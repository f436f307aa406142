// What has to hold whatever a peer does: the next call works, every request has its one answer, memory
// and stderr stay within bounds, and nobody's text passes for ours.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { attacks, FORGED, MIB } from "../fixtures/attacks.mjs";
import { scenario } from "./scenario.mjs";

/** The longest message by default (`--max-message-bytes`). */
export const DEFAULT_LIMIT = 64 * MIB;
/** What a call may cost while it is open, beside its messages. */
const OPEN_CALL_BYTES = 64 * 1024;
const STDERR_BYTES = 64 * 1024;
/** The longest error of our own; what a server says in its own error is its own affair. */
const ERROR_BYTES = 16 * 1024;
/** Control characters of ASCII and of Latin 1, but for the end of a line; and the separators of Unicode. */
export const CONTROL = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]/;

/**
 * A scenario with an attack. Options: those of a scenario, `limit` (the longest message) and `calls` (how many
 * are open at once, where there are thousands).
 * The body attacks as it likes and returns its client, which has to be unharmed afterwards.
 */
export function hostile(name, { limit = DEFAULT_LIMIT, calls = 0, options = [], server = {}, ...more }, body) {
  const settings = {
    skip: process.platform !== "linux" && "needs /proc",
    options: [...(limit === DEFAULT_LIMIT ? [] : ["--max-message-bytes", String(limit)]), ...options],
    server: { ...server, tools: { ...attacks, ...server.tools } },
    ...more,
  };
  scenario(name, settings, async (scene) => {
    const client = await body(scene);
    const { result } = await client.call("echo", { still: "here" }, "afterwards");
    assert.deepEqual(result?.structuredContent, { still: "here" }, "the next call");
    const peak = peakMemory(client.child.pid);
    await client.finish();
    assert.deepEqual(harm(client, peak, memoryBound(scene.shell, limit, calls)), []);
  });
}

/**
 * The stated bound: 6 messages of the longest kind and 64 MiB. Beside that, an open call takes its connection and
 * its buffers, and a stock wasmtime up to 64 MiB for itself.
 */
export const memoryBound = (shell, limit, calls = 0) =>
  6 * limit + (shell.name === "wasmtime" ? 128 : 64) * MIB + calls * OPEN_CALL_BYTES;

/** What went beyond its bounds, as sentences. */
function harm(client, peak, bound) {
  const { stderr } = client;
  const lines = stderr.split("\n");
  const control = lines.find((line) => CONTROL.test(line));
  const forged = lines.find((line) => line.startsWith(FORGED));
  const errors = client.messages
    .filter(({ error }) => error?.data?.phase)
    .map((message) => JSON.stringify(message.error));
  const longest = Math.max(0, ...errors.map((error) => error.length));
  return [
    peak > bound && `peak memory ${mib(peak)} of ${mib(bound)}`,
    stderr.length > STDERR_BYTES && `${stderr.length} bytes on stderr, the first of them ${stderr.slice(0, 200)}`,
    control !== undefined && `raw controls on stderr: ${JSON.stringify(control.slice(0, 300))}`,
    forged !== undefined && `a forged line on stderr: ${JSON.stringify(forged)}`,
    longest > ERROR_BYTES && `an error of ${longest} bytes`,
  ].filter(Boolean);
}

const mib = (bytes) => `${Math.round(bytes / MIB)} MiB`;

/** An answer of the server, or an error that says how far the request came. */
export function assertHonest({ result, error }) {
  if (result !== undefined) return;
  assert.equal(typeof error.data?.phase, "string", JSON.stringify(error).slice(0, 500));
  assert.ok(["no", "maybe", "yes"].includes(error.data.delivered), JSON.stringify(error).slice(0, 500));
}

/** The most memory that the process ever had, from the kernel. */
export function peakMemory(pid) {
  const [, kilobytes] = readFileSync(`/proc/${pid}/status`, "utf8").match(/^VmHWM:\s+(\d+) kB$/m);
  return Number(kilobytes) * 1024;
}
