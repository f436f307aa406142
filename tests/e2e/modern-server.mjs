// A real server that speaks 2026-07-28 and nothing else, on the official SDK, second generation.
// Every answer, refusal and subscription is the SDK's; here are only the tools, a log of every
// request (see fixture.mjs) and the way from node:http. As a process of its own it is
// `node modern-server.mjs [PORT]`, which prints its URL and the label of every request.

import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  McpServer,
  ResourceTemplate,
  acceptedContent,
  completable,
  createMcpHandler,
  createRequestStateCodec,
  fromJsonSchema,
  inputRequired,
  inputResponse,
} from "@modelcontextprotocol/server";
import { z } from "zod";
import { Fixture } from "../fixtures/fixture.mjs";

export const LEVELS = ["debug", "info", "warning", "error"];
export const WATCHED = "test://motto";

/** Starts the server. Options: those of every fixture. */
export async function startModernServer(options = {}) {
  const server = new ModernServer(options);
  await server.listen();
  return server;
}

class ModernServer extends Fixture {
  /** The names of the tools that `change_tools` has added. */
  grown = [];
  /** The marks of the calls of `wait` that have seen their cancellation. */
  aborted = [];
  #listens = new Set();

  constructor(options) {
    super(options);
    // The SDK asks for a new server with every request; what outlives a request is in `this`.
    this.handler = createMcpHandler(() => mcpServer(this), { legacy: "reject" });
  }

  async listen() {
    await super.listen();
    this.url = `${this.origin}/mcp`;
  }

  async close() {
    await this.handler.close();
    await super.close();
  }

  /** Resolves once a subscription is open whose filter fits. */
  listening(fits = () => true) {
    return this.until("open subscription that fits", () => [...this.#listens].some(fits));
  }

  labelOf({ method, message }) {
    if (method !== "POST") return method;
    return `POST ${message?.method ?? "without a method"}`;
  }

  async dispatch({ entry, res }) {
    const left = new AbortController();
    const subscription = entry.label === "POST subscriptions/listen" && entry.message.params.notifications;
    res.once("close", () => {
      entry.ended = res.writableFinished ? "in full" : "by the client";
      this.#listens.delete(subscription);
      if (!res.writableFinished) left.abort();
      this.changed();
    });
    const response = await this.handler.fetch(toRequest(this.origin, entry, left.signal));
    if (subscription && response.ok && !res.destroyed) this.#listens.add(subscription);
    send(res, response);
    this.changed();
  }
}

function toRequest(origin, { method, url, headers, body }, signal) {
  const fields = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new Request(new URL(url, origin), { method, headers: fields, body: body || undefined, signal });
}

function send(res, response) {
  if (res.destroyed) return;
  res.writeHead(response.status, Object.fromEntries(response.headers));
  if (!response.body) return res.end();
  res.flushHeaders();
  const body = Readable.fromWeb(response.body);
  res.once("close", () => body.destroy());
  body.on("error", () => res.destroy());
  body.pipe(res);
}

// ---- what the server has --------------------------------------------------------------------

const states = createRequestStateCodec({ key: randomUUID() });
const text = (value) => ({ content: [{ type: "text", text: value }] });

function mcpServer(state) {
  const server = new McpServer(
    { name: "modern", version: "1" },
    {
      instructions: "Be brief.",
      requestState: { verify: states.verify },
      capabilities: {
        logging: {},
        completions: {},
        tools: { listChanged: true },
        prompts: { listChanged: true },
        resources: { subscribe: true, listChanged: true },
      },
    },
  );
  addPlainTools(server, state);
  addAskingTools(server);
  addHeaderTools(server);
  addResources(server);
  addPrompts(server);
  return server;
}

function addPlainTools(server, state) {
  const tool = (name, shape, run) => server.registerTool(name, { inputSchema: z.object(shape) }, run);

  tool("echo", { text: z.string() }, (args) => text(args.text));
  server.registerTool(
    "add",
    { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ sum: z.number() }) },
    ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { sum: a + b } }),
  );
  tool("fail", {}, () => ({ isError: true, ...text("failed as asked") }));
  tool("slow", { steps: z.number() }, async ({ steps }, { mcpReq }) => {
    for (let step = 1; step <= steps; step += 1) await progress(mcpReq, step, steps);
    return text(`${steps} steps`);
  });
  tool("wait", { mark: z.string() }, async ({ mark }, { mcpReq }) => {
    await progress(mcpReq, 1, 2);
    if (!mcpReq.signal.aborted) await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve));
    state.aborted.push(mark);
    state.changed();
    return text("too late");
  });
  tool("log", { text: z.string() }, async (args, { mcpReq }) => {
    for (const level of LEVELS) await mcpReq.log(level, args.text);
    return text("logged");
  });
  tool("change_tools", { name: z.string() }, ({ name }) => {
    state.grown.push(name);
    state.handler.notify.toolsChanged();
    return text("changed");
  });
  tool("touch_resource", { uri: z.string() }, ({ uri }) => {
    state.handler.notify.resourceUpdated(uri);
    return text("touched");
  });
  for (const name of state.grown) tool(name, {}, () => text(`I am ${name}`));
}

function progress({ _meta, notify }, done, total) {
  const progressToken = _meta?.progressToken;
  return notify({ method: "notifications/progress", params: { progressToken, progress: done, total } });
}

// ---- tools that need something of the client ------------------------------------------------

const form = (message, property) =>
  inputRequired.elicit({
    message,
    requestedSchema: { type: "object", properties: { [property]: { type: "string" } }, required: [property] },
  });
const prompt = (question) => {
  const messages = [{ role: "user", content: { type: "text", text: question } }];
  return inputRequired.createMessage({ messages, maxTokens: 9 });
};

/** The text of the client's answer under this key, if it has one. */
function answerOf({ inputResponses }, key) {
  const answer = inputResponse(inputResponses, key);
  if (answer.kind === "elicit") return `${answer.action} ${Object.values(answer.content ?? {}).join()}`.trim();
  if (answer.kind === "sampling") return answer.result.content.text;
  if (answer.kind === "roots") return answer.roots.map(({ uri }) => uri).join();
  return undefined;
}

function addAskingTools(server) {
  const asking = (name, inputRequests) =>
    server.registerTool(name, {}, (context) => {
      const answers = Object.keys(inputRequests).map((key) => answerOf(context.mcpReq, key));
      return answers.includes(undefined) ? inputRequired({ inputRequests }) : text(answers.join(" | "));
    });

  asking("ask", { who: form("Who are you?", "name") });
  asking("sample", { thought: prompt("why?") });
  asking("roots", { here: inputRequired.listRoots() });
  asking("both", { who: form("Who are you?", "name"), thought: prompt("why?") });

  /** The first answer is in the state only: it is not asked for again. */
  server.registerTool("two_rounds", {}, async ({ mcpReq }) => {
    const known = mcpReq.requestState();
    const name = known?.name ?? acceptedContent(mcpReq.inputResponses, "who")?.name;
    if (!name) return inputRequired({ inputRequests: { who: form("Who are you?", "name") } });
    const city = acceptedContent(mcpReq.inputResponses, "where")?.city;
    if (city) return text(`${name} from ${city}`);
    const requestState = await states.mint({ name });
    return inputRequired({ inputRequests: { where: form("Where are you?", "city") }, requestState });
  });
}

// ---- tools whose arguments are mirrored in headers --------------------------------------------

function addHeaderTools(server) {
  const tool = (name, properties) =>
    server.registerTool(name, { inputSchema: fromJsonSchema({ type: "object", properties }) }, (args) =>
      text(JSON.stringify(args)),
    );
  // The SDK refuses a call whose headers are missing or do not match.
  tool("locate", {
    region: { type: "string", "x-mcp-header": "Region" },
    zoom: { type: "integer", "x-mcp-header": "Zoom" },
    exact: { type: "boolean", "x-mcp-header": "Exact" },
    place: { type: "object", properties: { street: { type: "string", "x-mcp-header": "Street" } } },
    note: { type: "string" },
  });
  tool("misplaced", { ratio: { type: "number", "x-mcp-header": "Ratio" } });
}

// ---- resources and prompts --------------------------------------------------------------------

function addResources(server) {
  const say = (uri, words) => ({ contents: [{ uri: uri.href, mimeType: "text/plain", text: words }] });
  server.registerResource("motto", WATCHED, { mimeType: "text/plain" }, (uri) => say(uri, "as above, so below"));
  server.registerResource("other", "test://other", {}, (uri) => say(uri, "something else"));
  server.registerResource("item", new ResourceTemplate("test://item/{n}", { list: undefined }), {}, (uri, { n }) =>
    say(uri, `item ${n}`),
  );
}

function addPrompts(server) {
  const say = (words) => ({ messages: [{ role: "user", content: { type: "text", text: words } }] });
  const city = completable(z.string(), (value) => ["Paris", "Prague", "Rome"].filter((name) => name.startsWith(value)));
  server.registerPrompt("visit", { argsSchema: z.object({ city }) }, (args) => say(`Visit ${args.city}`));
  server.registerPrompt("greet", {}, ({ mcpReq }) => {
    const name = acceptedContent(mcpReq.inputResponses, "who")?.name;
    return name ? say(`Greet ${name}`) : inputRequired({ inputRequests: { who: form("Whom?", "name") } });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const port = Number(process.argv[2] ?? 0);
  const { url } = await startModernServer({ port, trace: ({ label }) => console.log(label) });
  console.log(`listening on ${url}`);
}
