// The page of the real Worker in a real browser, with the reference server "everything" behind it.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { chromium } from "playwright-core";
import { inChromium, startChromium } from "../../fixtures/chromium.mjs";
import { startSseServer } from "../../fixtures/sse-server.mjs";
import { startEverything } from "../processes.mjs";
import { POLICY, openPage } from "./page-driver.mjs";
import { startWorker } from "./workerd.mjs";

const SECRET = "s3cret-token";
/** Nothing listens there. */
const NOWHERE = "http://127.0.0.1:1/sse";

describe("the page", { skip: inChromium.skip }, () => {
  let everything, truth, chrome;

  before(async () => {
    everything = await startEverything("sse");
    truth = await ask(everything.url);
    chrome = await startChromium(chromium);
  });

  after(async () => {
    await chrome?.close();
    await everything?.close();
  });

  const worker = async (t, vars) => {
    const started = await startWorker({ ALLOW_HTTP: "1", ...vars });
    t.after(() => started.stop());
    return started;
  };
  /** A public Worker with one endpoint, and its page. */
  const openOne = async (t, prepare) => {
    const { url } = await worker(t, { UPSTREAM_URL: everything.url, PUBLIC: "1" });
    const opened = await openPage(t, chrome.browser, url, prepare);
    return { opened, origin: new URL(url).origin, endpoint: new URL("/mcp", url).href };
  };
  const assertTruth = ({ state, facts }) => {
    assert.match(state, /^Reachable\./);
    assert.equal(facts.Server, truth.name);
    assert.equal(facts.Tools, String(truth.tools));
    assert.equal(facts.Protocol, truth.protocol);
    assert.equal(facts.Transport, "HTTP+SSE");
  };

  test("says what this is and where, and loads nothing from elsewhere", inChromium, async (t) => {
    const { opened, origin, endpoint } = await openOne(t);
    assert.equal(opened.response.headers()["content-security-policy"], POLICY);
    assert.match(await opened.page.title(), /MCP endpoint/);
    assert.match(await opened.page.locator("header").innerText(), /Streamable HTTP[^]*HTTP\+SSE/);
    assert.equal(await opened.card().locator(".url").innerText(), endpoint);
    assert.equal(await opened.page.locator("#token").isVisible(), false);
    assert.equal(await opened.card().locator(".server").textContent(), "Server: not known yet");
    assertTruth(await opened.check());
    assert.equal(await opened.card().locator(".server").textContent(), "Server: HTTP+SSE, with sessions");
    assert.deepEqual([...new Set(opened.urls.map((url) => url.origin))], [origin]);
  });

  test("checks an endpoint as often as one likes, and ends every session", inChromium, async (t) => {
    const { opened } = await openOne(t);
    const [begun, ended] = ["Client Connected", "Client Disconnected"].map((words) => everything.count(words));
    for (let n = 1; n <= 2; n++) {
      const shown = await opened.check();
      assertTruth(shown);
      for (const term of ["Initialize", "Ping"]) assert.match(shown.facts[term], /^\d+ ms$/);
      await everything.said("Client Disconnected", ended + n);
      assert.equal(everything.count("Client Connected"), begun + n);
    }
    await opened.card().getByText("Names of the tools").click();
    await opened.card().getByText("echo", { exact: true }).waitFor();
  });

  test("leaves the server alone until it is told to check", inChromium, async (t) => {
    const server = await startSseServer();
    t.after(() => server.close());
    const { url } = await worker(t, { UPSTREAM_URL: server.url, PUBLIC: "1" });
    const opened = await openPage(t, chrome.browser, url);
    assert.deepEqual(opened.urls.map(({ pathname }) => pathname).sort(), ["/", "/page.css", "/page.js"]);
    assert.equal(await opened.card().locator(".state").textContent(), "Not checked yet.");
    assert.deepEqual(server.log, []);
    await opened.check();
    assert.equal(server.requests("GET /sse").length, 1);
    await server.deserted();
  });

  test("copies the URL and the snippets", inChromium, async (t) => {
    const { opened, origin, endpoint } = await openOne(t);
    await chrome.browser.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
    const copied = () => opened.page.evaluate(() => navigator.clipboard.readText());
    await opened.page.getByRole("button", { name: "Copy the URL" }).click();
    await opened.page.getByRole("status").getByText("Copied the URL").waitFor({ state: "attached" });
    assert.equal(await copied(), endpoint);
    const snippet = await opened.snippet("VS Code");
    await opened.page.getByRole("button", { name: "Copy the snippet" }).click();
    await opened.page.getByRole("status").getByText("Copied the snippet").waitFor({ state: "attached" });
    assert.equal(await copied(), snippet);
  });

  test("shows snippets that say what each client needs", inChromium, async (t) => {
    const { opened, endpoint } = await openOne(t);
    const server = { type: "http", url: endpoint };
    assert.equal(await opened.snippet("Claude Code"), `claude mcp add --transport http my-server ${endpoint}`);
    assert.deepEqual(JSON.parse(await opened.snippet("VS Code")), { servers: { "my-server": server } });
    assert.deepEqual(JSON.parse(await opened.snippet("Cursor")), { mcpServers: { "my-server": server } });
    const stdio = { command: "mcp-proxy", args: [endpoint] };
    assert.deepEqual(JSON.parse(await opened.snippet("stdio")), { mcpServers: { "my-server": stdio } });
    assert.match(await runProgram(await opened.snippet("TypeScript")), /'echo'/);
  });

  test("is used with the keyboard alone", inChromium, async (t) => {
    const { opened } = await openOne(t);
    const { keyboard } = opened.page;
    await opened.tab("Claude Code").focus();
    await keyboard.press("ArrowRight");
    await opened.card().getByText(".vscode/mcp.json").waitFor();
    await keyboard.press("End");
    assert.equal(await opened.tab("stdio only").getAttribute("aria-selected"), "true");
    await keyboard.press("ArrowRight");
    assert.equal(await opened.page.evaluate(() => document.activeElement.textContent), "Claude Code");
    await opened.card().locator(".check").focus();
    await keyboard.press("Enter");
    assertTruth(await opened.shown());
    assert.notEqual(await opened.page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), "none");
  });

  test("is dark for those who want it dark", inChromium, async (t) => {
    const { opened } = await openOne(t, (page) => page.emulateMedia({ colorScheme: "light" }));
    const light = await opened.page.evaluate(COLOURS);
    await opened.page.emulateMedia({ colorScheme: "dark" });
    const dark = await opened.page.evaluate(COLOURS);
    assert.ok(light.ground > light.text && dark.ground < dark.text, JSON.stringify({ light, dark }));
  });

  test("fits a width of 360 pixels", inChromium, async (t) => {
    const { opened } = await openOne(t, (page) => page.setViewportSize({ width: 360, height: 640 }));
    await opened.check();
    await opened.card().getByText("Names of the tools").click();
    for (const label of ["Claude Code", "VS Code", "Cursor", "TypeScript", "stdio"]) {
      await opened.snippet(label);
      assert.deepEqual(await opened.page.evaluate(WIDTHS), [360, 360], label);
    }
  });

  test("asks for a token, uses it, and shows it nowhere", inChromium, async (t) => {
    const { url } = await worker(t, { UPSTREAM_URL: everything.url, FRONT_TOKEN: SECRET });
    const opened = await openPage(t, chrome.browser, url);
    const without = await opened.check();
    assert.match(without.state, /No access\. A token is needed \(401\)/);
    assert.match(without.trouble, /initialize · HTTP 401/);
    const field = opened.page.getByLabel("Your token");
    assert.equal(await field.getAttribute("aria-invalid"), "true");
    await field.fill("wrong");
    await field.press("Enter");
    await opened.card().getByText("The token was refused (401)").waitFor();
    await field.fill(SECRET);
    await field.press("Enter");
    await opened.card().locator("[data-state=good]").waitFor();
    assertTruth(await opened.shown());
    assert.equal(await field.getAttribute("type"), "password");
    assert.equal(await opened.page.evaluate(() => localStorage.length + sessionStorage.length), 0);
    for (const label of ["Claude Code", "VS Code", "Cursor", "TypeScript", "stdio"]) {
      const snippet = await opened.snippet(label);
      assert.ok(snippet.includes("<token>") && !snippet.includes(SECRET), snippet);
    }
    const program = (await opened.snippet("TypeScript")).replace("<token>", SECRET);
    assert.match(await runProgram(program), /'echo'/);
  });

  test("lists several endpoints and checks them all", inChromium, async (t) => {
    const upstreams = { docs: everything.url, gone: NOWHERE };
    const { url } = await worker(t, { UPSTREAMS: JSON.stringify(upstreams), PUBLIC: "1" });
    const opened = await openPage(t, chrome.browser, url);
    const names = await opened.page.locator("h3").allInnerTexts();
    assert.deepEqual([...names].sort(), ["docs", "gone"]);
    const addresses = await opened.page.locator(".url").allInnerTexts();
    assert.deepEqual(
      addresses,
      names.map((name) => new URL(`/${name}/mcp`, url).href),
    );
    await opened.page.getByRole("button", { name: "Check all" }).click();
    assertTruth(await opened.shown(names.indexOf("docs")));
    const { state, trouble } = await opened.shown(names.indexOf("gone"));
    assert.match(state, /^Not reachable\./);
    assert.notEqual(trouble, "");
  });

  test("tells what is wrong with the configuration", inChromium, async (t) => {
    const { url } = await worker(t, { PUBLIC: "1" });
    const opened = await openPage(t, chrome.browser, url);
    await opened.page.getByText("This Worker is not set up yet").waitFor();
    assert.match(await opened.page.locator("#problems li").first().innerText(), /UPSTREAM/);
    assert.equal(await opened.page.locator("article").count(), 0);
  });
});

/** What the server says to a client without capabilities, asked without the Worker. */
async function ask(url) {
  const client = new Client({ name: "page-test", version: "1" });
  const transport = new SSEClientTransport(new URL(url));
  let protocol;
  transport.setProtocolVersion = (version) => (protocol = version);
  await client.connect(transport);
  const { tools } = await client.listTools();
  const { name } = client.getServerVersion();
  await client.close();
  return { name, protocol, tools: tools.length };
}

/** Runs a snippet as a program of its own and resolves with what it prints. */
async function runProgram(text) {
  const options = { cwd: fileURLToPath(new URL("..", import.meta.url)), timeout: 30_000 };
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", text], options);
  return stdout;
}

/** Runs in the page: how bright its ground and its text are. */
const COLOURS = () => {
  const { backgroundColor, color } = getComputedStyle(document.body);
  const brightness = (colour) =>
    colour
      .match(/\d+/g)
      .slice(0, 3)
      .map(Number)
      .reduce((sum, part) => sum + part);
  return { ground: brightness(backgroundColor), text: brightness(color) };
};

/** Runs in the page: how wide its content and its window are. */
const WIDTHS = () => [document.documentElement.scrollWidth, window.innerWidth];
