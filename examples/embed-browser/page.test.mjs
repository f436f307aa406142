// The page in a headless Chromium, with servers of both eras on another origin.

import assert from "node:assert/strict";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { HUNG_MS, inChromium, startChromium } from "../../tests/fixtures/chromium.mjs";
import { serve } from "./serve.mjs";

async function open(t, kind) {
  const served = await serve(kind);
  t.after(() => served.close());
  const { browser, close } = await startChromium(chromium);
  t.after(close);
  const page = await browser.newPage();
  await page.goto(served.page);
  return { ...served, page, state: (text) => page.getByText(text, { exact: true }).waitFor({ timeout: HUNG_MS }) };
}

test("a page lists tools, calls one and leaves", inChromium, async (t) => {
  const { page, server, state } = await open(t);
  await page.click("#run");
  await state("connected");
  assert.ok((await page.locator("#tools li").allTextContents()).includes("echo"));
  assert.equal(await page.textContent("#echo"), '{"message":"from a page"}');
  await page.click("#close");
  await state("drained");
  await server.deserted();
});

test("a page uses a modern server", inChromium, async (t) => {
  const { page, server, state } = await open(t, "modern");
  await page.click("#run");
  await state("connected");
  assert.equal(await page.textContent("#echo"), '{"message":"from a page"}');
  const labels = ["POST server/discover", "POST tools/list", "POST tools/call"];
  assert.deepEqual(server.labels().filter((label) => label !== "POST subscriptions/listen"), labels);
  await page.click("#close");
  await state("drained");
});

test("a page is told that the server is not there", inChromium, async (t) => {
  const { page, server } = await open(t);
  await server.close();
  await page.click("#run");
  // A browser does not tell a page why a fetch has failed.
  await page.getByText("failed: connection lost, or not HTTP").waitFor({ timeout: HUNG_MS });
});
