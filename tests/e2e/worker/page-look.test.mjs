// How the page looks, and whether everybody can use it: contrast, names, headings and focus, in every
// state that the page has. The page is served by a fixture, so that each state can be had.
// Where MCP_PROXY_SCREENSHOTS names a folder, pictures of each state are left there.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { inChromium, startChromium } from "../../fixtures/chromium.mjs";
import { openServed } from "./page-driver.mjs";

const SCHEMES = ["light", "dark"];
const WIDTHS = [1000, 360];
/** What WCAG 2.2 asks of what is no text (1.4.11), such as the ring around what has the focus. */
const PLAIN = 3;
const NAMED = ["button", "textbox", "link", "tab", "tablist", "tabpanel", "DisclosureTriangle"];

const SEVERAL = ["docs", "tickets"].map((name) => ({ name, path: `/${name}/mcp` }));
const PROBLEMS = ["No server is set: UPSTREAM_URL for /mcp, or UPSTREAMS for /<name>/mcp.", "PUBLIC must be 1 or 0."];

/** Each with what the Worker tells the page, what a person does then, and what is seen in the end. */
const states = {
  "a page that was just opened": [{}, () => {}, "Not checked yet."],
  "an endpoint that answers": [{}, checkAndUnfold, "Reachable. The server answers."],
  "a check under way": [{}, leaveWaiting, "Checking…"],
  "several endpoints that refuse a token": [{ auth: "token", endpoints: SEVERAL }, tryToken, "The token was refused"],
  "a configuration that cannot work": [{ endpoints: [], problems: PROBLEMS }, () => {}, PROBLEMS[0]],
};

describe("the look of the page", { skip: inChromium.skip }, () => {
  let chrome;
  before(async () => (chrome = await startChromium(chromium)));
  after(() => chrome?.close());

  for (const [state, [config, act, words]] of Object.entries(states)) {
    test(state, inChromium, async (t) => {
      const { opened, server } = await openServed(t, chrome.browser, { config, prepare });
      await act(opened, server);
      const { page } = opened;
      await page.getByText(words).first().waitFor();
      await t.test("fits every window", () => assertFits(page, state));
      await t.test("has one heading of its own, and skips no level of headings", () => assertOrdered(page));
      await t.test("has a name for whatever can be used", () => assertNamed(page));
      for (const colorScheme of SCHEMES) {
        await page.emulateMedia({ colorScheme });
        await t.test(`${colorScheme}: every text stands out from its ground`, () => assertReadable(page));
        await t.test(`${colorScheme}: the keyboard gets everywhere, and is seen there`, () => assertReached(page));
      }
    });
  }
});

/** Colours on their way to others would be measured at random. */
async function prepare(page) {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.addInitScript(measure);
}

// ---- what a person does ---------------------------------------------------------------------

async function checkAndUnfold(opened, server) {
  server.once("POST initialize", (exchange) => {
    exchange.res.setHeader("mcp-proxy-upstream", "http+sse");
    return server.dispatch(exchange);
  });
  await opened.check();
  await opened.card().getByText("Names of the tools").click();
}

async function leaveWaiting(opened, server) {
  server.once("POST initialize", () => {});
  await opened.card().locator(".check").click();
}

async function tryToken(opened, server) {
  const error = { code: -32000, message: "this endpoint wants a bearer token" };
  server.always("POST initialize", (exchange) => exchange.reply(401, {}, JSON.stringify({ jsonrpc: "2.0", error })));
  await opened.page.getByLabel("Your token").fill("not-the-token");
  await opened.page.getByRole("button", { name: "Check all" }).click();
  for (const n of SEVERAL.keys()) {
    await opened.shown(n);
    await opened.card(n).getByText("Connect a client").click();
  }
}

// ---- what is asked of the page --------------------------------------------------------------

async function assertFits(page, state) {
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
    for (const colorScheme of SCHEMES) await takePicture(page, `${state}, ${colorScheme}, ${width}`, colorScheme);
  }
}

async function takePicture(page, name, colorScheme) {
  const folder = process.env.MCP_PROXY_SCREENSHOTS;
  if (!folder) return;
  await page.emulateMedia({ colorScheme });
  await page.screenshot({ path: join(folder, `${name.replaceAll(/\W+/g, "-")}.png`), fullPage: true });
}

async function assertOrdered(page) {
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  const headings = await page.getByRole("heading").evaluateAll((all) => all.map(({ tagName }) => tagName));
  const levels = headings.map((name) => Number(name.slice(1)));
  assert.equal(levels.indexOf(1), 0);
  assert.equal(levels.lastIndexOf(1), 0);
  for (const [at, level] of levels.slice(1).entries()) assert.ok(level <= levels[at] + 1, headings.join(", "));
}

/** Names are those that the browser tells a screen reader. */
async function assertNamed(page) {
  const session = await page.context().newCDPSession(page);
  const { nodes } = await session.send("Accessibility.getFullAXTree");
  const seen = nodes.filter(({ ignored, role }) => !ignored && NAMED.includes(role.value));
  const told = seen.map(({ role, name }) => `${role.value}: ${name.value}`);
  assert.ok(told.includes("link: Health"), told.join("\n"));
  assert.deepEqual(
    told.filter((line) => line.endsWith(": ")),
    [],
    "without a name",
  );
  const buttons = told.filter((line) => line.startsWith("button: "));
  assert.deepEqual(buttons, [...new Set(buttons)], "no two buttons are called the same");
}

/** Also where the mouse is. */
async function assertReadable(page) {
  for (const place of [page.locator("h1"), ...(await page.getByRole("button").all())]) {
    await place.hover();
    const texts = await page.evaluate(TEXTS);
    assert.ok(texts.length >= 10, "there are texts");
    const faint = texts.filter(({ contrast, least }) => !(contrast >= least));
    assert.deepEqual(faint, []);
  }
}

async function assertReached(page) {
  const stops = await page.evaluate(STOPS);
  const reached = [];
  // Where one has clicked last, the tabulator goes on from there.
  await page.locator("h1").click();
  for (const _ of stops) {
    await page.keyboard.press("Tab");
    reached.push(await page.evaluate(FOCUS));
  }
  assert.deepEqual(
    reached.map(({ what }) => what),
    stops,
  );
  const unseen = reached.filter(({ width, contrast }) => !(width >= 2 && contrast >= PLAIN));
  assert.deepEqual(unseen, []);
}

// ---- what runs in the page ------------------------------------------------------------------

/**
 * Gives the page what the others use: `contrastOf` tells how much a colour stands out from the ground
 * of an element (WCAG 2.2, 1.4.3), or NaN where that cannot be told; `isSeen` and `nameOf`.
 */
function measure() {
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = context.getImageData(0, 0, 1, 1).data;
    return { parts: [red, green, blue], alpha: alpha / 255 };
  };
  const over = (top, ground) => {
    const rest = ground.alpha * (1 - top.alpha);
    const alpha = top.alpha + rest;
    const mix = (part, at) => (alpha ? (part * top.alpha + ground.parts[at] * rest) / alpha : 0);
    return { parts: top.parts.map(mix), alpha };
  };
  const shown = (element, top) => {
    if (!element) return over(top, read("white"));
    const { backgroundColor, backgroundImage, filter, opacity } = getComputedStyle(element);
    if (backgroundImage !== "none" || filter !== "none") return { parts: [NaN, NaN, NaN] };
    const { parts, alpha } = over(top, read(backgroundColor));
    return shown(element.parentElement, { parts, alpha: alpha * opacity });
  };
  const luminance = ({ parts }) => {
    const linear = (part) => (part <= 10.31475 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
    const [red, green, blue] = parts.map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  window.contrastOf = (element, colour) => {
    const both = [colour, "transparent"].map((top) => luminance(shown(element, read(top))) + 0.05);
    return Math.max(...both) / Math.min(...both);
  };
  window.isSeen = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 1 && height > 1 && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  };
  window.nameOf = ({ localName, ariaLabel, textContent, id }) =>
    `${localName} ${ariaLabel ?? (textContent.trim().slice(0, 80) || id)}`;
}

/** How much each text stands out, and how much it has to: big letters are seen more easily. */
const TEXTS = () => {
  const elements = new Set([...document.querySelectorAll("input")].filter(({ value }) => value));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.data.trim()) elements.add(walker.currentNode.parentElement);
  return [...elements].filter(isSeen).map((element) => {
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    const size = parseFloat(fontSize);
    const isBig = size >= 24 || (size >= 18.66 && fontWeight >= 700);
    return { what: nameOf(element), contrast: contrastOf(element, color), least: isBig ? 3 : 4.5 };
  });
};

/** Where the tabulator should stop, in this order. */
const STOPS = () =>
  [...document.querySelectorAll("a, button, input, summary, [tabindex]")]
    .filter((element) => isSeen(element) && element.tabIndex >= 0)
    .map(nameOf);

/** What has the focus, and the ring around it. */
const FOCUS = () => {
  const element = document.activeElement;
  const { outlineColor, outlineStyle, outlineWidth } = getComputedStyle(element);
  const width = outlineStyle === "none" ? 0 : parseFloat(outlineWidth);
  return { what: nameOf(element), width, contrast: contrastOf(element.parentElement, outlineColor) };
};
