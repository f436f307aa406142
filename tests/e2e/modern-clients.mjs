// The official SDK's clients of both generations, in the words of the first: what a test says to one
// it can say to every other. The first speaks revisions up to 2025-11-25, the second 2026-07-28.
// Each starts its server process itself, over its own stdio transport, as a desktop application does.

import { Client as ModernClient } from "@modelcontextprotocol/client";
import { StdioClientTransport as ModernStdio } from "@modelcontextprotocol/client/stdio";
import { Client as LegacyClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as LegacyStdio } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

/** The SDK forgets a call's token with its answer, but reads progress that came before it afterwards. */
const LATE_PROGRESS = /progress notification for an unknown token/;

const LOG_LEVEL = "io.modelcontextprotocol/logLevel";

export const INFO = { name: "e2e", version: "1" };

/** What the user of a client types into a form, by property. */
const ANSWERS = { name: "Ada", city: "London" };

/** How each request of a server is answered; a client has the handlers of what it declares. */
const handlers = [
  {
    capability: "elicitation",
    method: "elicitation/create",
    schema: ElicitRequestSchema,
    handle({ params }) {
      const typed = Object.entries(ANSWERS).filter(([name]) => name in params.requestedSchema.properties);
      return { action: "accept", content: Object.fromEntries(typed) };
    },
  },
  {
    capability: "sampling",
    method: "sampling/createMessage",
    schema: CreateMessageRequestSchema,
    handle({ params }) {
      const [{ content }] = params.messages;
      const [{ text }] = [content].flat();
      return { role: "assistant", model: "test", content: { type: "text", text: `re: ${text}` } };
    },
  },
  {
    capability: "roots",
    method: "roots/list",
    schema: ListRootsRequestSchema,
    handle: () => ({ roots: [{ uri: "file:///home/ada", name: "home" }] }),
  },
];

/** A subclass is not started twice by the client: the process that is probed is the one that serves. */
class InPlaceStdio extends ModernStdio {}

const processOf = (shell, url) => ({ command: shell.command, args: shell.args(url), stderr: "pipe" });

const legacy = {
  name: "v1 client",
  era: "legacy",
  /** Revision 2025-11-25 lets a client say that its roots change. */
  capabilities: { sampling: {}, elicitation: {}, roots: { listChanged: true } },
  transport: (shell, url) => new LegacyStdio(processOf(shell, url)),
  client(capabilities) {
    const client = new LegacyClient(INFO, { capabilities });
    for (const { capability, schema, handle } of handlers)
      if (capabilities[capability]) client.setRequestHandler(schema, handle);
    return client;
  },
  words: (client) => client,
  /** A proxy subscribes by itself for a client that cannot. */
  watchTools: async () => {},
};

const modern = {
  era: "modern",
  capabilities: { sampling: {}, elicitation: {}, roots: {} },
  transport: (shell, url) => new ModernStdio(processOf(shell, url)),
  client(capabilities) {
    const client = new ModernClient(INFO, { capabilities, versionNegotiation: { mode: this.mode } });
    for (const { capability, method, handle } of handlers)
      if (capabilities[capability]) client.setRequestHandler(method, handle);
    return client;
  },
  words: inLegacyWords,
  watchTools: (client) => client.listen({ toolsListChanged: true }),
};

const pinned = { ...modern, name: "v2 client, pinned", mode: { pin: "2026-07-28" } };
const auto = { ...modern, name: "v2 client, auto", mode: "auto" };

export const kinds = [legacy, auto, pinned];
export const modernKind = pinned;
export const inPlaceKind = {
  ...auto,
  name: "v2 client, auto, probing in place",
  transport: (shell, url) => new InPlaceStdio(processOf(shell, url)),
};

/**
 * Connects a client of this kind. `received` has every message as it came, `seen` resolves with the
 * first notification of a method that fits, `errors` has what the client complained of.
 */
export async function connect(kind, shell, url, capabilities = kind.capabilities) {
  const client = kind.client(capabilities);
  const transport = kind.transport(shell, url);
  const inbox = new Inbox(transport);
  const errors = [];
  client.onerror = (error) => LATE_PROGRESS.test(error.message) || errors.push(error);
  await client.connect(transport);
  return {
    kind,
    client: kind.words(client),
    transport,
    errors,
    received: inbox.messages,
    seen: (method, fits) => inbox.seen(method, fits),
    watchTools: () => kind.watchTools(client),
    close: () => client.close(),
  };
}

/** Every message that a transport delivers. The client chains a handler that was there before. */
class Inbox {
  messages = [];
  #watchers = new Set();

  constructor(transport) {
    transport.onmessage = (message) => {
      this.messages.push(message);
      for (const watcher of [...this.#watchers]) watcher();
    };
  }

  seen(method, fits = () => true) {
    return new Promise((resolve) => {
      const attempt = () => {
        const found = this.messages.find((message) => message.method === method && fits(message));
        if (!found) return;
        this.#watchers.delete(attempt);
        resolve(found);
      };
      this.#watchers.add(attempt);
      attempt();
    });
  }
}

/** The second generation's client with the first one's methods; 2026-07-28 has no `ping`. */
export function inLegacyWords(client) {
  const subscriptions = new Map();
  let level;
  const leveled = (params) => (level ? { ...params, _meta: { ...params._meta, [LOG_LEVEL]: level } } : params);
  const methods = {
    callTool: (params, _schema, options) => client.callTool(leveled(params), options),
    async setLoggingLevel(chosen) {
      level = chosen;
    },
    async subscribeResource({ uri }) {
      subscriptions.set(uri, await client.listen({ resourceSubscriptions: [uri] }));
    },
    unsubscribeResource: ({ uri }) => subscriptions.get(uri).close(),
  };
  return new Proxy(client, {
    get(target, name) {
      if (Object.hasOwn(methods, name)) return methods[name];
      const value = target[name];
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
