// The client under test of the official conformance suite: a client of the SDK, speaking stdio to a
// proxy, which speaks HTTP to the suite's server. The suite appends its URL as the last argument,
// names the scenario in MCP_CONFORMANCE_SCENARIO and may say more in MCP_CONFORMANCE_CONTEXT.
// MCP_PROXY_SHELL names the shell, MCP_PROXY_CLIENT the client. Without a shell there is no proxy: the
// client then speaks HTTP itself, for comparison. At a protected server, the proxy logs in.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as ModernClient, StreamableHTTPClientTransport as ModernHttp } from "@modelcontextprotocol/client";
import { StdioClientTransport as ModernStdio } from "@modelcontextprotocol/client/stdio";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { shells } from "./shells.mjs";

const INFO = { name: "conformance", version: "1" };
const capabilities = { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} };

/** What a scenario does while the server waits for the user. */
let duringElicitation = async () => {};

async function elicit() {
  await duringElicitation();
  return { action: "accept", content: {} };
}

const clients = {
  v1() {
    const client = new Client(INFO, { capabilities });
    client.setRequestHandler(ElicitRequestSchema, elicit);
    return [client, StdioClientTransport, StreamableHTTPClientTransport];
  },
  "v2 auto": () => modern("auto"),
  "v2 pinned": () => modern({ pin: "2026-07-28" }),
};

function modern(mode) {
  const client = new ModernClient(INFO, { capabilities, versionNegotiation: { mode } });
  client.setRequestHandler("elicitation/create", elicit);
  return [client, ModernStdio, ModernHttp];
}

async function list(client) {
  await client.listTools();
}

/** The second generation insists on a type that the specification lets a client take for granted. */
function allowMissingType(error) {
  if (!error.message.includes("missing required resultType")) throw error;
}

const scenarios = {
  initialize: list,
  async tools_call(client) {
    await client.listTools();
    await client.callTool({ name: "add_numbers", arguments: { a: 5, b: 3 } });
  },
  async "elicitation-sep1034-client-defaults"(client) {
    await client.listTools();
    await client.callTool({ name: "test_client_elicitation_defaults", arguments: {} });
  },
  async "sse-retry"(client) {
    await client.listTools();
    await client.callTool({ name: "test_reconnection", arguments: {} });
  },
  "request-metadata": list,
  async "http-standard-headers"(client) {
    for (const { name } of (await client.listTools()).tools) await client.callTool({ name, arguments: {} });
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
  },
  async "http-custom-headers"(client, { toolCalls }) {
    await client.listTools();
    for (const call of toolCalls) await client.callTool(call);
  },
  /** Calls whatever it is shown. */
  async "http-invalid-tool-headers"(client) {
    for (const { name, inputSchema } of (await client.listTools()).tools) {
      const args = Object.fromEntries(inputSchema.required.map((property) => [property, "x"]));
      await client.callTool({ name, arguments: args });
    }
  },
  async "sep-2322-client-request-state"(client) {
    await client.listTools();
    duringElicitation = async () => {
      duringElicitation = async () => {};
      await client.callTool({ name: "test_mrtr_unrelated", arguments: {} });
    };
    await client.callTool({ name: "test_mrtr_echo_state", arguments: {} });
    await client.callTool({ name: "test_mrtr_no_state", arguments: {} });
    await client.callTool({ name: "test_mrtr_no_result_type", arguments: {} }).catch(allowMissingType);
  },
  "json-schema-ref-no-deref": list,
  async "json-schema-2020-12-preservation"(client) {
    const { tools } = await client.listTools();
    const { inputSchema } = tools.find(({ name }) => name === "json_schema_2020_12_tool");
    await client.callTool({ name: "json_schema_echo", arguments: { schema: inputSchema } });
  },
};

/** A protected server: the scenarios differ in what happens before the answers. */
async function authorized(client) {
  await client.listTools();
  await client.callTool({ name: "test-tool", arguments: {} });
}

/** How the proxy logs in: with the client that the scenario names, or whatever the server allows. */
function login({ client_id, client_secret, private_key_pem }) {
  const folder = mkdtempSync(join(tmpdir(), "mcp-proxy-conformance-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const env = { ...process.env, MCP_PROXY_CONFIG_DIR: folder };
  const options = ["--token-store", "file", "--browser-command", "node auth/browser.mjs"];
  const known = client_id ? ["--oauth-client-id", client_id] : ["--oauth-client-metadata", DOCUMENT];
  options.push(...known);
  if (client_secret) {
    env.CLIENT_SECRET = client_secret;
    options.push("--oauth-client-secret-env", "CLIENT_SECRET");
  }
  if (private_key_pem) {
    writeFileSync(join(folder, "key.pem"), private_key_pem);
    options.push("--oauth-key", join(folder, "key.pem"));
  }
  if (scenario.startsWith("auth/client-credentials-")) options.push("--oauth-grant", "client-credentials");
  return { options, env };
}

/** Where the suite expects the metadata of a client to be; nothing is fetched from there. */
const DOCUMENT = "https://conformance-test.local/client-metadata.json";

const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? "{}");
const isProtected = scenario.startsWith("auth/");
const { options, env } = isProtected ? login(context) : { options: [], env: process.env };
const url = process.argv.at(-1);
const shell = shells.find(({ name }) => name === process.env.MCP_PROXY_SHELL);
const [client, Stdio, Http] = clients[process.env.MCP_PROXY_CLIENT]();
const proxy = shell && { command: shell.command, args: shell.args(url, options), env, stderr: "inherit" };
await client.connect(shell ? new Stdio(proxy) : new Http(new URL(url)));
await (isProtected ? authorized : scenarios[scenario])(client, context);
await client.close();
