// The Worker's page in a browser, as a person uses it, and the page's files as the Worker serves them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { HUNG_MS } from "../../fixtures/chromium.mjs";
import { startServer } from "../../fixtures/server.mjs";

/** What the page may load and do. */
export const POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const FILES = { "/": "page.html", "/page.css": "page.css", "/page.js": "page.js" };
const TYPES = { html: "text/html", css: "text/css", js: "text/javascript" };
const CONFIG = { version: "0.1.0", auth: "public", endpoints: [{ name: "", path: "/mcp" }], problems: [] };

/** The text of a file of the page. */
export const source = (name) => readFileSync(new URL(`../../../worker/page/${name}`, import.meta.url), "utf8");

/** Handles the GETs of a fixture server as the Worker does that has this configuration. */
const servePage = (config) => (exchange) => {
  const name = FILES[exchange.entry.path];
  if (!name) return exchange.reply(404);
  const type = `${TYPES[name.split(".")[1]]}; charset=utf-8`;
  const json = JSON.stringify(config).replaceAll("<", "\\u003c");
  const text = source(name).replace("{{CONFIG}}", () => json);
  return exchange.reply(200, { "content-type": type, "content-security-policy": POLICY }, text);
};

/** Runs in the page: the terms and what is said of each. */
const FACTS = (rows) =>
  rows.map((row) => [row.querySelector("dt").textContent, row.querySelector("dd").firstChild.textContent]);

/**
 * Opens the page of a fixture that is also its MCP endpoint. Options: `config` (what the Worker would
 * tell the page), `host` (under which name it is opened), `prepare`, and those of the fixture server.
 */
export async function openServed(t, browser, { config, prepare, host, ...options } = {}) {
  const server = await startServer(options);
  t.after(() => server.close());
  server.always("GET", servePage({ ...CONFIG, ...config }));
  const url = host ? server.origin.replace("127.0.0.1", host) : server.origin;
  return { server, opened: await openPage(t, browser, url, prepare) };
}

/** Opens a page of its own, which has to stay without errors; `prepare` gets it before anything is loaded. */
export async function openPage(t, browser, url, prepare = () => {}) {
  const page = await browser.newPage();
  const opened = new Opened(page);
  t.after(async () => {
    await page.close();
    assert.deepEqual(opened.errors, []);
  });
  page.setDefaultTimeout(HUNG_MS);
  await prepare(page);
  opened.response = await page.goto(new URL("/", url).href);
  return opened;
}

class Opened {
  /** What the page threw and the console called an error; a violation of the policy is one. */
  errors = [];
  /** What was asked for, beside what the page brings with it. */
  urls = [];

  constructor(page) {
    this.page = page;
    page.on("console", (message) => isError(message) && this.errors.push(message.text()));
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("request", (request) => request.url().startsWith("data:") || this.urls.push(new URL(request.url())));
  }

  /** The n-th endpoint. */
  card(n = 0) {
    return this.page.locator("article").nth(n);
  }

  /** Checks the n-th endpoint and resolves with what is shown. */
  async check(n) {
    await this.card(n).locator(".check").click();
    return this.shown(n);
  }

  /** Resolves with what the check of the n-th endpoint shows, once it has ended. */
  async shown(n) {
    const card = this.card(n);
    await card.locator(".state:is([data-state=good], [data-state=bad])").waitFor();
    const trouble = card.locator(".trouble");
    return {
      state: await card.locator(".state").textContent(),
      facts: Object.fromEntries(await card.locator("dl div").evaluateAll(FACTS)),
      trouble: (await trouble.isVisible()) ? await trouble.innerText() : "",
    };
  }

  tab(label) {
    return this.card().getByRole("tab", { name: label });
  }

  /** The snippet of this tab. */
  async snippet(label) {
    await this.tab(label).click();
    return this.card().locator("pre").textContent();
  }
}

/** A browser calls every refused request an error; at an endpoint it is what the check has to tell. */
function isError(message) {
  const isRefused = message.text().startsWith("Failed to load resource") && message.location().url.endsWith("/mcp");
  return message.type() === "error" && !isRefused;
}
