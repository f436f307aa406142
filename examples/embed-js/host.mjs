// `node host.mjs URL`: a client on stdin and stdout, the server behind the URL.

import { Readable, Writable } from "node:stream";
import { Host } from "./drive.mjs";
import { machine } from "./engine/engine.js";

const config = configure(process.argv[2] ?? "");
const client = { readable: Readable.toWeb(process.stdin), writable: Writable.toWeb(process.stdout) };
const host = new Host(config, client, ({ blame, tag, text }) => {
  if (blame !== "nobody" || process.env.DEBUG) console.error(`${tag} ${text}`);
});
// A polite stop is the same as a client that closes its side.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.stdin.destroy());
await host.exited;
process.exit(0);

function configure(url) {
  try {
    return machine.defaults(url);
  } catch ({ payload }) {
    console.error(`usage: node host.mjs URL (${payload.tag}: ${payload.val})`);
    process.exit(2);
  }
}
