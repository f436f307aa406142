// The client under test of the official conformance suite: the SDK's client, speaking stdio to a
// proxy, which speaks HTTP to the suite's server. The suite appends its URL as the last argument
// and names the scenario in MCP_CONFORMANCE_SCENARIO; MCP_PROXY_SHELL names the shell.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { shells } from "./shells.mjs";

const scenarios = {
  initialize: (client) => client.listTools(),
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
};

const url = process.argv.at(-1);
const shell = shells.find(({ name }) => name === process.env.MCP_PROXY_SHELL);
const client = new Client(
  { name: "conformance", version: "1" },
  { capabilities: { elicitation: { form: { applyDefaults: true } } } },
);
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: {} }));
await client.connect(new StdioClientTransport({ command: shell.command, args: shell.args(url), stderr: "inherit" }));
await scenarios[process.env.MCP_CONFORMANCE_SCENARIO](client);
await client.close();
