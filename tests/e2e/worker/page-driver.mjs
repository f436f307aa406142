// The Worker's page in a browser, as a person uses it, and the page's files as the Worker serves them.

import { readFileSync } from "node:fs";
import { HUNG_MS } from "../../fixtures/chromium.mjs";

/** What the page may load and do. */
export const POLICY =
  "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const FILES = { "/": "page.html", "/page.css": "page.css", "/page.js": "page.js" };
const TYPES = { html: "text/html", css: "text/css", js: "text/javascript" };

/** The text of a file of the page. */
export const source = (name) => readFileSync(new URL(`../../../worker/page/${name}`, import.meta.url), "utf8");

/** Handles the GETs of a fixture server as the Worker does that has this configuration. */
export const servePage = (config) => (exchange) => {
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

/** Opens a page of its own; `prepare` gets it before anything is loaded. */
export async function openPage(t, browser, url, prepare = () => {}) {
  const page = await browser.newPage();
  t.after(() => page.close());
  page.setDefaultTimeout(HUNG_MS);
  const opened = new Opened(page);
  await prepare(page);
  opened.response = await page.goto(new URL("/", url).href);
  return opened;
}

class Opened {
  /** What the console called an error; a violation of the policy is one. */
  errors = [];
  /** The origins that were asked for anything. */
  origins = new Set();

  constructor(page) {
    this.page = page;
    page.on("console", (message) => message.type() === "error" && this.errors.push(message.text()));
    page.on("pageerror", (error) => this.errors.push(String(error)));
    page.on("request", (request) => {
      if (!request.url().startsWith("data:")) this.origins.add(new URL(request.url()).origin);
    });
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
