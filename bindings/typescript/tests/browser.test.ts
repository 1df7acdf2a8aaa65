import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, describe, test } from "node:test";
import { build } from "esbuild";
import { chromium, type Browser } from "playwright-core";
import { Server } from "./server.js";

const CHROMIUM = "/usr/bin/chromium";
const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}; install the package chromium`;

describe("a page", { skip }, () => {
  let browser: Browser;
  let pages: HttpServer;
  let server: Server;
  let script = "";
  before(async () => {
    const options = { bundle: true, minify: true, format: "iife", platform: "browser", write: false } as const;
    const { outputFiles } = await build({ entryPoints: ["tests/page.ts"], ...options });
    script = outputFiles[0]?.text ?? "";
    console.log(`the client with its program, bundled: ${script.length} bytes`);
    const html = `<!doctype html><title>t</title><script>${script}</script>`;
    pages = createServer((_, response) => response.setHeader("content-type", "text/html").end(html));
    await new Promise<void>((resolve) => pages.listen(0, "127.0.0.1", resolve));
    server = await Server.start("--allow-origin", origin());
    browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  });
  after(async () => {
    await browser?.close();
    pages?.close();
    await server?.stop();
  });
  const origin = () => `http://127.0.0.1:${(pages.address() as AddressInfo).port}`;

  test("of an allowed origin uses the memory", async () => {
    const page = await browser.newPage();
    await page.goto(`${origin()}/?url=${encodeURIComponent(server.url)}`);
    await page.waitForFunction(() => document.title !== "t");
    const expected = { found: "I row on Thursdays.", documents: 1, history: 2, error: "urn:mnemon:invalid-query", reindexed: true };
    assert.deepEqual(JSON.parse(await page.title()), expected);
  });

  test("of another origin is refused", async () => {
    const page = await browser.newPage();
    await page.goto(`${origin().replace("127.0.0.1", "localhost")}/?url=${encodeURIComponent(server.url)}`);
    await page.waitForFunction(() => document.title !== "t");
    assert.match(await page.title(), /failed before there was an answer|origin/);
  });
});
