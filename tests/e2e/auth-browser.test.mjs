// A person's whole login in a real browser: the pages of `oidc-provider` and the page of ours that ends it. What is
// seen there is readable in both colour schemes and in a narrow window, and nothing is an error in the console.
// Where MCP_PROXY_SCREENSHOTS names a folder, pictures of our page are left there.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";
import { HUNG_MS, inChromium, startChromium } from "../fixtures/chromium.mjs";
import { assertServed, setScene } from "./auth/scene.mjs";

const WIDTHS = [1000, 360];
/** What WCAG 2.2 asks of texts (1.4.3). */
const LEAST_CONTRAST = 4.5;

/** As everything else, this may be skipped unless nothing may be. */
const options = process.env.MCP_PROXY_TEST_ALL ? { ...inChromium, skip: false } : inChromium;

describe("a login in a browser", { skip: options.skip }, () => {
  let chrome;
  before(async () => (chrome = await startChromium(chromium)));
  after(() => chrome?.close());

  test("ends on a page that says so, and the call goes on", options, async (t) => {
    const scene = await setScene(t, { options: ["--no-browser"] });
    const { client, page } = await begin(t, scene, chrome.browser);
    const hands = client.handshake();
    await page.goto(await shownUrl(client));
    await page.getByPlaceholder("Enter any login").fill("ada");
    await page.getByPlaceholder("and password").fill("x");
    await page.getByRole("button", { name: "Sign-in" }).click();
    await page.getByText(scene.server.url).first().waitFor();
    await page.getByRole("button", { name: "Continue" }).click();
    await assertEnds(page, "You are logged in", `mcp-proxy can now use ${scene.server.url}. You can close this tab.`);
    await hands;
    await assertServed(client);
    await client.finish();
  });

  test("that the person cancels ends on a page that says why", options, async (t) => {
    const scene = await setScene(t, { options: ["--no-browser"] });
    const { client, page } = await begin(t, scene, chrome.browser);
    const answer = client.request("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {} });
    await page.goto(await shownUrl(client));
    await page.getByRole("link", { name: "Cancel" }).click();
    const cause = `${scene.as.issuer} says: access_denied: End-User aborted interaction`;
    await assertEnds(page, "The login did not work", cause);
    assert.ok((await answer).error.message.includes(cause));
    await client.finish();
  });
});

/** A proxy, and a page in a browser that has not been there before; nothing may be an error there. */
async function begin(t, scene, browser) {
  await browser.clearCookies();
  const page = await browser.newPage();
  const errors = [];
  page.setDefaultTimeout(HUNG_MS);
  page.on("console", (message) => isError(message) && errors.push(message.text()));
  page.on("pageerror", (error) => errors.push(String(error)));
  // The provider's pages want a font from the web.
  const isElsewhere = ({ hostname }) => hostname !== "127.0.0.1";
  await page.route(isElsewhere, (route) => route.fulfill({ contentType: "text/css", body: "" }));
  t.after(async () => {
    await page.close();
    assert.deepEqual(errors, []);
  });
  return { client: scene.connect(), page };
}

/** A browser calls the status of a failed login an error; the page tells it. */
function isError(message) {
  const isStatus = message.text().includes("status of 400") && new URL(message.location().url).pathname === "/callback";
  return message.type() === "error" && !isStatus;
}

function shownUrl(client) {
  return client.until("the URL", () => client.stderr.match(/wants you to log in: open (\S+)/)?.[1]);
}

/** Our page has this heading and this text, and everybody can read it. */
async function assertEnds(page, title, text) {
  await page.getByRole("heading", { name: title, level: 1 }).waitFor();
  assert.equal(await page.title(), `mcp-proxy: ${title}`);
  assert.equal(await page.locator("html").getAttribute("lang"), "en");
  assert.equal(await page.locator("p").innerText(), text);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    const texts = await page.evaluate(CONTRASTS);
    assert.deepEqual(
      texts.map(({ name }) => name),
      ["H1", "P"],
    );
    for (const { name, contrast, grounds } of texts) {
      assert.ok(contrast >= LEAST_CONTRAST, `${colorScheme}: ${name} has ${contrast}`);
      assert.equal(grounds < 0.5, colorScheme === "dark", `${colorScheme}: the ground has ${grounds}`);
    }
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 640 });
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width);
      await takePicture(page, `${title}-${colorScheme}-${width}`);
    }
  }
}

async function takePicture(page, name) {
  const folder = process.env.MCP_PROXY_SCREENSHOTS;
  if (folder) await page.screenshot({ path: join(folder, `login-${name.replaceAll(/\W+/g, "-")}.png`) });
}

/** Runs in the page: how much each text stands out from its ground, and how bright that is (WCAG 2.2). */
function CONTRASTS() {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const brightness = (colour) => {
    const [red, green, blue] = numbers(colour).map((value) => linear(value / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const groundOf = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return numbers(colour)[3] === 0 ? groundOf(element.parentElement) : colour;
  };
  return [...document.querySelectorAll("h1, p")].map((element) => {
    const grounds = brightness(groundOf(element));
    const [high, low] = [brightness(getComputedStyle(element).color), grounds].sort((one, other) => other - one);
    return { name: element.tagName, contrast: (high + 0.05) / (low + 0.05), grounds };
  });
}
