// The page in a headless Chromium, with a legacy SSE server of another origin.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { serve } from "./serve.mjs";

const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const options = { timeout: 60_000, skip: !existsSync(executablePath) && `no Chromium at ${executablePath}` };
const args = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

async function open(t) {
  const served = await serve();
  const profile = mkdtempSync(join(tmpdir(), "mcp-page-"));
  const browser = await chromium.launchPersistentContext(profile, { executablePath, args, chromiumSandbox: false });
  t.after(async () => {
    await browser.close();
    await served.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
  });
  const page = await browser.newPage();
  await page.goto(served.page);
  return { ...served, page, state: (text) => page.getByText(text, { exact: true }).waitFor({ timeout: 20_000 }) };
}

test("a page lists tools, calls one and leaves", options, async (t) => {
  const { page, server, state } = await open(t);
  await page.click("#run");
  await state("connected");
  assert.ok((await page.locator("#tools li").allTextContents()).includes("echo"));
  assert.equal(await page.textContent("#echo"), '{"message":"from a page"}');
  await page.click("#close");
  await state("drained");
  await server.deserted();
});

test("a page is told that the server is not there", options, async (t) => {
  const { page, server } = await open(t);
  await server.close();
  await page.click("#run");
  await page.getByText("failed: the server could not be reached").waitFor({ timeout: 20_000 });
});
