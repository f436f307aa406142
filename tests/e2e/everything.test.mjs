// Real peers: the official SDK's stdio client, and the reference server "everything" as its own
// process, exactly as it is installed.

import { steps } from "./everything.mjs";
import { startEverything } from "./processes.mjs";
import { peers } from "./sdk.mjs";

/** What the server prints when a session opens its GET stream. */
const LISTENING = "Establishing new SSE stream";

const peer = peers("everything", startWithListeners);

async function startWithListeners() {
  const server = await startEverything("streamableHttp");
  const nextListener = () => {
    const already = server.count(LISTENING);
    return () => server.said(LISTENING, already + 1);
  };
  return { ...server, nextListener };
}

for (const [name, body] of steps) peer(name, body);

peer("the session is ended with the client", async ({ client, server: { said, count } }) => {
  const before = count("Received session termination request");
  await client.close();
  await said("Received session termination request", before + 1);
});
