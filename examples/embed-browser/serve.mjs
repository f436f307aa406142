// `node serve.mjs`: the page on one port and, on another, a legacy SSE server that lets it in.
// `node serve.mjs modern` has a server of 2026-07-28 in its place.

import { createReadStream, existsSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { complete, startModernFixture } from "../../tests/fixtures/modern-fixture.mjs";
import { startSseServer } from "../../tests/fixtures/sse-server.mjs";

/** The page takes the host and the engine from `../embed-js`. */
const root = fileURLToPath(new URL("..", import.meta.url));
const TYPES = { ".html": "text/html", ".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm" };

const servers = {
  sse: () => startSseServer({ cors: true }),
  modern: () => startModernFixture({ cors: true, calls: { echo } }),
};

/** Says what it was given, as the SSE server's tool does. */
function echo(exchange) {
  const text = JSON.stringify(exchange.message.params.arguments);
  exchange.result(complete({ content: [{ type: "text", text }] }));
}

/** Resolves with the page's URL, the server of this kind, and a way to close both. */
export async function serve(kind = "sse") {
  const server = await servers[kind]();
  const pages = createServer(sendFile);
  await new Promise((resolve) => pages.listen(0, "127.0.0.1", resolve));
  const page = `http://127.0.0.1:${pages.address().port}/embed-browser/index.html`;
  const close = () => {
    pages.closeAllConnections();
    return Promise.all([server.close(), new Promise((resolve) => pages.close(resolve))]);
  };
  return { page: `${page}?server=${encodeURIComponent(server.url)}`, server, close };
}

function sendFile(request, response) {
  const file = join(root, normalize(new URL(request.url, "http://page").pathname));
  const isServed = TYPES[extname(file)] && existsSync(file) && statSync(file).isFile();
  response.writeHead(isServed ? 200 : 404, { "content-type": TYPES[extname(file)] ?? "text/plain" });
  if (isServed) createReadStream(file).pipe(response);
  else response.end();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log((await serve(process.argv[2])).page);
