// The Worker's page: shows the endpoints, and checks one by being an MCP client of it, through the
// same public URL that every client uses. What a server says about itself is only ever shown as text.

const PROTOCOL_VERSION = "2025-11-25";
const PATIENCE_SECONDS = 30;
const MOST_PAGES = 100;
const LONGEST_QUOTE = 600;
const TOKEN = "<token>";
const HEADERS = { Authorization: `Bearer ${TOKEN}` };

const byId = (id) => document.getElementById(id);
const config = JSON.parse(byId("config").textContent);
const needsToken = config.auth !== "public";

// ---- the client

/** Why a check did not come to its end: in our words, in the peer's own, and where it happened. */
class Failure extends Error {
  constructor(words, quote = "", notes = [], status = 0) {
    super(words);
    Object.assign(this, { quote, notes, status });
  }
}

/** A session of Streamable HTTP. Each request is one POST, answered as JSON or as a stream of events. */
class Session {
  /** Those that the Worker still holds for us. */
  static open = new Set();

  /** How the Worker speaks to the server, once it has said so. */
  upstream;
  /** The era and the transport of the server. */
  server;
  #url;
  #token;
  #id;
  #version;
  #lastId = 0;

  constructor(url, token) {
    this.#url = url;
    this.#token = token;
  }

  async initialize() {
    const clientInfo = { name: "mcp-proxy-page", version: config.version };
    const params = { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo };
    const welcome = await this.request("initialize", params);
    this.#version = String(welcome.protocolVersion);
    return welcome;
  }

  request(method, params) {
    const id = ++this.#lastId;
    return this.#exchange("POST", method, { jsonrpc: "2.0", id, method, params }, async (response) => {
      const { error, result } = await this.#answer(response, id);
      if (error) throw new Failure("The answer is an error.", ...toldBy(error, [method]));
      if (!isObject(result)) throw new Failure("The answer has no result.", "", [method]);
      return result;
    });
  }

  notify(method) {
    return this.#exchange("POST", method, { jsonrpc: "2.0", method });
  }

  /** A session that is already gone (404) or that cannot be ended (405) is no failure. */
  async end() {
    if (!this.#id) return;
    try {
      await this.#exchange("DELETE", "end of the session");
    } catch (failure) {
      if (failure.status !== 404 && failure.status !== 405) throw failure;
    } finally {
      this.#id = undefined;
      Session.open.delete(this);
    }
  }

  /** One HTTP exchange, whatever way it fails. The session's id is kept as soon as it is known. */
  async #exchange(verb, what, message, read = () => {}) {
    try {
      const response = await fetch(this.#url, {
        method: verb,
        headers: this.#headers(),
        body: message && JSON.stringify(message),
        keepalive: verb === "DELETE",
        signal: AbortSignal.timeout(PATIENCE_SECONDS * 1000),
      });
      this.#take(response.headers);
      if (!response.ok) throw await refusal(response, what, this.#token);
      return await read(response);
    } catch (error) {
      throw error instanceof Failure ? error : lost(error, what);
    }
  }

  #headers() {
    const headers = { accept: "application/json, text/event-stream", "content-type": "application/json" };
    if (this.#token) headers.authorization = `Bearer ${this.#token}`;
    if (this.#id) headers["mcp-session-id"] = this.#id;
    if (this.#version) headers["mcp-protocol-version"] = this.#version;
    return headers;
  }

  #take(headers) {
    this.upstream ??= headers.get("mcp-proxy-upstream");
    this.server ??= headers.get("mcp-proxy-server");
    this.#id ??= headers.get("mcp-session-id");
    if (this.#id) Session.open.add(this);
  }

  async #answer(response, id) {
    if (!isOfType(response, "text/event-stream")) return parse(await response.text());
    for await (const data of events(response.body)) {
      if (data === "") continue;
      const message = parse(data);
      if (message.method === undefined && message.id === id) return message;
      if (message.method !== undefined && message.id !== undefined) this.#reply(message);
    }
    throw new Failure("The stream ended before the answer came.");
  }

  /** A server may ping whenever it likes; for anything else we offered no capability. */
  #reply({ id, method }) {
    const refused = { error: { code: -32601, message: "Method not found" } };
    const message = { jsonrpc: "2.0", id, ...(method === "ping" ? { result: {} } : refused) };
    this.#exchange("POST", method, message).catch(() => {});
  }
}

/** The data of each event of an event stream, however its bytes are cut and its lines are ended. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let isAfterReturn = false;
  let event = { data: [], type: "" };
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      // A CR ends its line at once; an LF that follows it, perhaps in the next piece, is part of it.
      const text = isAfterReturn && value.startsWith("\n") ? value.slice(1) : value;
      if (value !== "") isAfterReturn = value.endsWith("\r");
      const lines = (rest + text).split(/\r\n|\r|\n/);
      rest = lines.pop();
      for (const line of lines) {
        if (line !== "") takeField(event, line);
        else {
          if (event.data.length > 0 && /^(message)?$/.test(event.type)) yield event.data.join("\n");
          event = { data: [], type: "" };
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function takeField(event, line) {
  const [, name, value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line);
  if (name === "data") event.data.push(value);
  if (name === "event") event.type = value;
}

function parse(text) {
  const message = parsed(text);
  if (!isObject(message)) throw new Failure("The answer is not JSON-RPC.", cut(text));
  return message;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isObject = (value) => typeof value === "object" && value !== null;
const isOfType = ({ headers }, type) => (headers.get("content-type") ?? "").toLowerCase().startsWith(type);

// ---- what goes wrong, in words

async function refusal(response, what, token) {
  const { status } = response;
  const text = await response.text();
  const notes = [what, `HTTP ${status}`];
  const error = parsed(text)?.error;
  const told = isObject(error) ? toldBy(error, notes) : [isOfType(response, "text/html") ? "" : cut(text), notes];
  return new Failure(wordsFor(status, token), ...told, status);
}

function wordsFor(status, token) {
  if (status === 401 && token) return "The token was refused (401).";
  if (status === 401) return "A token is needed (401): enter it above and check again.";
  if (status === 403) return "This request is forbidden (403).";
  if (status === 404) return "There is no such endpoint or session (404).";
  if (status === 429) return "Too many requests (429): wait a moment and check again.";
  if (status === 503) return "The Worker cannot serve requests now (503).";
  if (status === 502 || status === 504) return `The Worker could not reach the server (${status}).`;
  return `The Worker answered with HTTP ${status}.`;
}

function lost(error, what) {
  if (error.name === "TimeoutError") return new Failure(`No answer came within ${PATIENCE_SECONDS} seconds.`, "", [what]);
  return new Failure("The connection to the Worker failed.", cut(error.message), [what]);
}

/** The quote and the notes for a JSON-RPC error. */
function toldBy({ message, code, data }, notes) {
  return [cut(String(message)), [...notes, `code ${code}`, ...(data === undefined ? [] : [cut(JSON.stringify(data))])]];
}

const cut = (text) => (text.length > LONGEST_QUOTE ? `${text.slice(0, LONGEST_QUOTE)}…` : text);

// ---- a check

/** What a session shows of the server. It is ended whatever happens; the first failure is told. */
async function check(url, token) {
  const found = {};
  const session = new Session(url, token);
  try {
    if (/[^!-~]/.test(token)) throw new Failure("The token has a character that no token can have.");
    await look(session, found);
  } catch (failure) {
    found.failure = failure;
  }
  await session.end().catch((failure) => (found.failure ??= failure));
  return found;
}

async function look(session, found) {
  [found.welcome, found.initialize] = await timed(() => session.initialize());
  found.upstream = session.upstream;
  found.server = session.server;
  await session.notify("notifications/initialized");
  [, found.ping] = await timed(() => session.request("ping"));
  found.tools = found.welcome.capabilities?.tools ? await toolsOf(session) : [];
}

async function toolsOf(session) {
  const names = [];
  let params = {};
  for (let page = 0; page < MOST_PAGES; page++) {
    const { tools, nextCursor } = await session.request("tools/list", params);
    for (const tool of Array.isArray(tools) ? tools : []) names.push(String(tool?.name));
    if (nextCursor === undefined || nextCursor === null) return names;
    params = { cursor: nextCursor };
  }
  throw new Failure("The list of tools has no end.");
}

async function timed(work) {
  const start = performance.now();
  const result = await work();
  return [result, performance.now() - start];
}

// ---- how to connect

const json = (value) => JSON.stringify(value, null, 2);
const word = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
const remote = (url) => ({ type: "http", url, ...(needsToken ? { headers: HEADERS } : {}) });

function commandLine(name, url) {
  const header = needsToken ? ` --header "Authorization: ${HEADERS.Authorization}"` : "";
  return `claude mcp add --transport http ${word(name)} ${word(url)}${header}`;
}

function program(url) {
  const options = needsToken ? `, {\n  requestInit: { headers: ${JSON.stringify(HEADERS)} },\n}` : "";
  return `import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const url = new URL(${JSON.stringify(url)});
const transport = new StreamableHTTPClientTransport(url${options});
const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(transport);
console.log((await client.listTools()).tools.map((tool) => tool.name));
await transport.terminateSession();
await client.close();`;
}

function throughStdio(url) {
  const command = "mcp-proxy";
  return needsToken ? { command, args: ["--bearer-token-env", "TOKEN", url], env: { TOKEN } } : { command, args: [url] };
}

/** Label, where it goes, and the text itself. */
const CLIENTS = [
  ["Claude Code", "In a terminal", commandLine],
  ["VS Code", ".vscode/mcp.json", (name, url) => json({ servers: { [name]: remote(url) } })],
  [
    "Cursor and others",
    ".cursor/mcp.json, or where your client keeps its mcpServers",
    (name, url) => json({ mcpServers: { [name]: remote(url) } }),
  ],
  ["TypeScript", "With @modelcontextprotocol/sdk", (name, url) => program(url)],
  [
    "stdio only",
    "For a client that can only start programs",
    (name, url) => json({ mcpServers: { [name]: throughStdio(url) } }),
  ],
];

function fillTabs(root, number, name, url) {
  const list = root.querySelector("[role=tablist]");
  const panel = root.querySelector("[role=tabpanel]");
  const code = panel.querySelector("code");
  panel.id = `panel-${number}`;
  const tabs = CLIENTS.map(([label], index) => {
    const tab = make("button", label, { type: "button", id: `tab-${number}-${index}` });
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    tab.addEventListener("click", () => select(index));
    return tab;
  });
  const select = (chosen) => {
    const [, where, write] = CLIENTS[chosen];
    tabs.forEach((tab, index) => {
      tab.setAttribute("aria-selected", index === chosen);
      tab.tabIndex = index === chosen ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", tabs[chosen].id);
    panel.querySelector(".where").textContent = where;
    const [first, ...others] = write(name || "my-server", url).split(TOKEN);
    code.replaceChildren(first, ...others.flatMap((piece) => [make("mark", TOKEN), piece]));
  };
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(event.target);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = steps[event.key] % tabs.length;
    tabs[next].focus();
    select(next);
  });
  list.append(...tabs);
  select(0);
  onCopy(panel.querySelector(".copy"), code, "snippet", name);
}

// ---- what is seen

function make(tag, text, properties = {}) {
  return Object.assign(document.createElement(tag), { textContent: text }, properties);
}

function onCopy(button, source, thing, name) {
  const what = `the ${thing}${name && ` of ${name}`}`;
  let timer;
  const say = (label, words) => {
    button.textContent = label;
    byId("said").textContent = words;
  };
  button.setAttribute("aria-label", `Copy ${what}`);
  button.addEventListener("click", async () => {
    if (await copy(source.textContent)) say("Copied", `Copied ${what}`);
    else {
      getSelection().selectAllChildren(source);
      say("Selected", `Selected ${what}: copy it with your keyboard`);
    }
    clearTimeout(timer);
    timer = setTimeout(say, 2000, "Copy", "");
  });
}

/** Where a page may not use the clipboard (plain HTTP), it can still copy what is selected. */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement;
    const area = make("textarea", text, { className: "unseen" });
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    focused.focus();
    return isDone;
  }
}

/** Shows an endpoint and returns a function that checks it. */
function showEndpoint({ name, path, era, transport }, number, all) {
  const url = new URL(path, location.origin).href;
  const root = byId("endpoint").content.firstElementChild.cloneNode(true);
  const [title, address, button] = ["h3", ".url", ".check"].map((selector) => root.querySelector(selector));
  title.textContent = name;
  title.hidden = name === "";
  address.textContent = url;
  showServer(root, [era, transport]);
  onCopy(root.querySelector(".copy"), address, "URL", name);
  fillTabs(root, number, name, url);
  root.querySelector(".connect").open = all.length === 1;
  if (name) button.setAttribute("aria-label", `Check ${name}`);
  const run = () => runCheck(root, button, url);
  button.addEventListener("click", run);
  byId("endpoints").append(root);
  return run;
}

async function runCheck(root, button, url) {
  if (button.ariaDisabled) return;
  button.ariaDisabled = "true";
  showState(root, "busy", "Checking…");
  showFound(root, await check(url, byId("token").value.trim()));
  button.ariaDisabled = null;
}

const NOT_KNOWN = "not known yet";

/** Shows how the Worker speaks to the server: the era and the transport that it has detected. */
function showServer(root, [era = NOT_KNOWN, transport = NOT_KNOWN]) {
  const words = era === NOT_KNOWN ? era : `${TRANSPORTS[transport] ?? transport}, ${ERAS[era] ?? era}`;
  root.querySelector(".server").textContent = `Server: ${words}`;
}

function showState(root, state, text) {
  const element = root.querySelector(".state");
  element.dataset.state = state;
  element.textContent = text;
}

function showFound(root, found) {
  const { failure, welcome, server, tools = [] } = found;
  if (server) showServer(root, server.split(" "));
  fill(root, "dl", welcome ? factsOf(found) : []);
  fill(root, ".tools", tools.map((name) => make("li", name)), "ul");
  fill(root, ".trouble", failure ? [failure.quote] : [], "blockquote");
  root.querySelector(".trouble p").textContent = failure?.notes.join(" · ") ?? "";
  byId("token").setAttribute("aria-invalid", failure?.status === 401);
  showState(root, failure ? "bad" : "good", summaryOf(found));
}

/** Puts these into a part of the endpoint, or hides the part if there are none. */
function fill(root, selector, items, inner) {
  const part = root.querySelector(selector);
  part.hidden = items.length === 0;
  (inner ? part.querySelector(inner) : part).replaceChildren(...items);
}

function summaryOf({ failure, welcome }) {
  if (!failure) return "Reachable. The server answers.";
  if (welcome) return `Reachable, but not all went well. ${failure.message}`;
  return `${[401, 403, 429].includes(failure.status) ? "No access" : "Not reachable"}. ${failure.message}`;
}

const ERAS = { legacy: "with sessions", modern: "2026-07-28" };
const TRANSPORTS = { "http+sse": "HTTP+SSE", "streamable-http": "Streamable HTTP" };

function factsOf({ welcome, upstream, tools, initialize, ping }) {
  const { name = "Unnamed", version = "unknown" } = welcome.serverInfo ?? {};
  return [
    fact("Server", name, `version ${version}`),
    fact("Transport", TRANSPORTS[upstream] ?? upstream ?? "unknown", "to the server"),
    fact("Protocol", welcome.protocolVersion, "agreed upon"),
    fact("Tools", tools ? tools.length : "–", "on offer"),
    fact("Initialize", duration(initialize), "for a new session"),
    fact("Ping", duration(ping), "there and back"),
  ];
}

const duration = (time) => (time === undefined ? "–" : `${Math.max(1, Math.round(time))} ms`);

function fact(term, description, remark) {
  const row = document.createElement("div");
  row.append(make("dt", term, { className: "quiet" }), make("dd", description));
  row.lastChild.append(make("small", remark, { className: "quiet" }));
  return row;
}

const ACCESS = {
  public: "Everyone who knows the URL can connect, without a token.",
  token: `Clients need a token: they send Authorization: Bearer ${TOKEN} with every request.`,
  forwarded: "The server decides who has access: it gets each client's Authorization header.",
};

function showEndpoints() {
  const isOne = config.endpoints.length === 1;
  byId("endpoints").hidden = false;
  byId("endpoints").querySelector("h2").textContent = isOne ? "Your endpoint" : "Your endpoints";
  byId("access").textContent = ACCESS[config.auth];
  byId("token-row").hidden = !needsToken;
  const checks = config.endpoints.map(showEndpoint);
  const checkAll = () => checks.forEach((run) => run());
  byId("check-all").hidden = isOne;
  byId("check-all").addEventListener("click", checkAll);
  byId("token").addEventListener("keydown", ({ key }) => key === "Enter" && checkAll());
}

function showProblems() {
  byId("problems").hidden = false;
  byId("problems").querySelector("ul").append(...config.problems.map((problem) => make("li", problem)));
}

byId("version").textContent = config.version;
byId("host").textContent = location.host;
if (config.problems.length > 0) showProblems();
else showEndpoints();
addEventListener("pagehide", () => Session.open.forEach((session) => session.end().catch(() => {})));
