// Tests of the server's page in a real browser: MNEMON=path/to/mnemon node --test page.mjs
//
// They start servers on databases of their own. $SCREENSHOTS, if set, is a folder for pictures of the page.

import assert from "node:assert/strict";
import { spawn, execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, test } from "node:test";
import { chromium } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";
const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}; install the package chromium`;
const { MNEMON, SCREENSHOTS } = process.env;
if (!MNEMON) throw new Error("set MNEMON to the path of the mnemon binary");

// Texts that would run if anything parsed them as HTML or as a script.
const HOSTILE = [
  `<img src=x onerror="window.pwned=1">`,
  `</script><script>window.pwned=1</script>`,
  `"><svg onload=alert(1)>`,
  `<iframe srcdoc="<script>parent.pwned=1</script>"></iframe>`,
  `' onfocus=window.pwned=1 autofocus x='`,
  `javascript:window.pwned=1`,
];
const HOSTILE_SPACE = `evil/<img src=x onerror=window.pwned=1>`;

// Blocks are of programs that link the library; an export has theirs.
const BLOCKS = [
  { kind: "header", format: 1, mnemon: "0.2.0" },
  { kind: "namespace", namespace: "acme/ada", next_seq: 0 },
  { kind: "shared_block", name: "facts", state: JSON.stringify(HOSTILE), revision: 3 },
  { kind: "session", session: "garden" },
  { kind: "block", name: "summary", next_batch: 0, shared: false, state: JSON.stringify("Ada grows tomatoes."), revision: 1 },
  { kind: "end", messages: 0 },
];

const LONG = [
  "The meeting began late — the projector wouldn’t start, and nobody had the right cable. ☕ ".repeat(40),
  "Zoë’s telescope 🔭 needs a new mirror: the silver coating has peeled off at the edge, so the moons of Jupiter look blurred. ".repeat(3),
  "Afterwards we spoke about the budget of the canteen, the broken lift, and the plants in the hall. ".repeat(25),
].join("");

const topics = [
  ["garden", "The tomatoes in the greenhouse need water every morning", "Slugs ate the lettuce again", "We planted two apple trees by the fence"],
  ["travel", "The train to Lisbon leaves at seven in the evening", "Our hotel in Porto has a view of the river", "My passport expires in March"],
  ["kitchen", "Ada is allergic to walnuts", "The sourdough starter must be fed on Fridays", "We are out of olive oil"],
  ["work", "The release was moved to Thursday", "Grace reviews the storage layer this week", "The build fails when the cache is cold"],
];

class Server {
  static async start(args = [], exported = []) {
    const server = new Server();
    server.folder = mkdtempSync(join(tmpdir(), "mnemon-page-"));
    const database = join(server.folder, "memory.redb");
    if (exported.length) {
      const lines = exported.map((line) => `${JSON.stringify(line)}\n`).join("");
      execFileSync(MNEMON, ["import", "--quiet", "--db", database, "-"], { input: lines, stdio: ["pipe", "ignore", "inherit"] });
    }
    server.process = spawn(MNEMON, ["--format", "json", "serve", "--db", database, "--listen", "127.0.0.1:0", ...args],
      { stdio: ["ignore", "ignore", "pipe"] });
    for await (const line of createInterface({ input: server.process.stderr })) {
      server.url = JSON.parse(line).listening;
      if (server.url) break;
    }
    assert.ok(server.url, "the server ended before it listened");
    server.process.stderr.resume();
    return server;
  }

  async call(method, path, body, token) {
    const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    const response = await fetch(this.url + path, { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${text}`);
    return text && JSON.parse(text);
  }

  put(namespace, messages, token) {
    return this.call("POST", `/v1/namespaces/${encodeURIComponent(namespace)}/messages`, { messages, flush: true }, token);
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGTERM");
    await ended;
    rmSync(this.folder, { recursive: true });
  }
}

function messages(prefix, sessions = topics, minutes = 0) {
  return sessions.flatMap(([session, ...texts]) => texts.map((content, at) => ({
    id: `${prefix}-${session}-${at}`, session, role: at % 2 ? "assistant" : "user", name: at % 2 ? undefined : "Ada", content,
    created_at: new Date(Date.UTC(2026, 2, 1, 9, minutes++)).toISOString(),
  })));
}

async function fill(server) {
  await server.put("acme/ada", [
    ...messages("m"),
    { id: "rent-1", session: "money", role: "user", name: "Ada", content: "My rent is 900 euros a month", created_at: "2026-01-02T10:00:00Z" },
    { id: "rent-2", session: "money", role: "user", name: "Ada", content: "My rent is 950 euros a month", created_at: "2026-03-02T10:00:00Z" },
    { id: "rent-3", session: "money", role: "user", name: "Grace", content: "Is your rent paid monthly?", created_at: "2026-03-02T10:05:00Z" },
    { id: "long", session: "work", role: "user", name: "Grace", content: LONG, created_at: "2026-03-03T10:00:00Z" },
    { id: "tool", session: "work", role: "assistant", created_at: "2026-03-03T10:01:00Z", metadata: { source: "calendar" },
      content: [{ type: "tool_call", id: "call-1", name: "calendar", arguments: { day: "Friday" } }, { type: "text", text: "I looked at the calendar." }] },
  ]);
  await server.call("POST", "/v1/namespaces/acme%2Fada/sessions/garden/messages",
    { messages: [{ id: "buffered-1", role: "user", name: "Ada", content: "The greenhouse window is broken" }] });
  await server.put("acme/many", Array.from({ length: 120 }, (_, at) => ({ id: `n${at}`, session: "one", role: "user", content: `Note ${at} of the long conversation` })));
  await server.put("acme/many", Array.from({ length: 60 }, (_, at) => ({ id: `s${at}`, session: `session ${String(at).padStart(2, "0")}`, role: "user", content: `Short note ${at}` })));
  for (let at = 0; at < 55; at++) await server.put(`team/${String(at).padStart(2, "0")}`, [{ role: "user", content: "hello" }]);
  for (let at = 0; at < 25; at++) {
    await server.call("PUT", `/v1/namespaces/acme%2Fada/documents/note-${at}`, { value: { title: `Note ${at}`, body: at === 3 ? "the walnut allergy card" : "a plain page" } });
  }
  const hostile = HOSTILE.map((text, at) => ({ id: `${at}${text}`, session: text, role: "user", name: text, content: text, metadata: { [text]: text } }));
  await server.put(HOSTILE_SPACE, hostile);
  for (const text of HOSTILE) {
    await server.call("PUT", `/v1/namespaces/${encodeURIComponent(HOSTILE_SPACE)}/documents/${encodeURIComponent(text)}`, { value: { [text]: text } });
  }
}

// What is said to a server with a language model, and what that answers: to the kind of block that asks, by a word of the conversation.
const SAID = {
  boat: [
    { id: "b1", role: "user", name: "Ada", content: "I have bought a boat, the Petrel. She lies at the harbour of Porto.", created_at: "2026-03-02T18:00:00Z" },
    { id: "b2", role: "assistant", content: "Congratulations! Will you row her on Thursdays, as the old one?", created_at: "2026-03-02T18:01:00Z" },
  ],
  work: [
    { id: "w1", role: "user", name: "Ada", content: "The release moved to Thursday, so I row on Fridays now.", created_at: "2026-03-03T09:00:00Z" },
    { id: "w2", role: "assistant", content: "Noted: the release on Thursday, the boat on Friday.", created_at: "2026-03-03T09:01:00Z" },
  ],
};
const text = (...facts) => JSON.stringify({ insert: facts.map((text) => ({ text })) });
const ANSWERS = {
  "You keep a collection": {
    Petrel: text("Ada owns a boat called Petrel.", "Ada keeps her boat at the harbour of Porto."), Fridays: text("Ada rows on Fridays."),
    walnuts: text("Ada is allergic to walnuts."),
  },
  "You keep a profile": { Petrel: `{"name": "Ada", "boat": "Petrel"}`, Fridays: "{}", walnuts: `{"allergies": ["walnuts"]}` },
  "You keep the summary": { Petrel: "Ada bought the boat Petrel, which lies in Porto.", Fridays: "Ada rows on Fridays, as the release is on Thursday.", walnuts: "Ada told of an allergy." },
};
const RULES = `[[namespaces]]
blocks = [{ collection = { name = "facts" } }, { profile = { name = "profile" } }, { summary = { name = "so_far" } }]
`;

// A server with OpenAI's protocol, whose model answers as recorded. Its first answer about Fridays to the collection is of no use.
async function recordedModel() {
  let isWrong = true;
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part) => body += part);
    request.on("end", () => {
      const [{ content: instructions }, { content: asked }] = JSON.parse(body).messages;
      const kind = Object.keys(ANSWERS).find((beginning) => instructions.startsWith(beginning));
      const said = asked.split(/onversation:\n|New messages:\n/).at(-1);
      let content = Object.entries(ANSWERS[kind]).find(([word]) => said.includes(word))?.[1];
      // The model is not there for anything else.
      if (content === undefined) return response.writeHead(503).end();
      if (isWrong && content === ANSWERS["You keep a collection"].Fridays) [isWrong, content] = [false, "Gladly! What shall I do?"];
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({
        choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
        usage: { prompt_tokens: 800, completion_tokens: Math.ceil(content.length / 4) },
      }));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

describe("the page", { skip }, () => {
  let browser, server, origin;
  before(async () => {
    if (SCREENSHOTS) mkdirSync(SCREENSHOTS, { recursive: true });
    [browser, server] = await Promise.all([chromium.launch({ executablePath: CHROMIUM, args: FLAGS }), Server.start([], BLOCKS)]);
    origin = server.url;
    await fill(server);
  });
  after(async () => {
    await browser?.close();
    await server?.stop();
  });

  // Runs a test on a page of its own, and checks that nothing ran, was blocked, or was asked of another host.
  function check(name, run, options = {}) {
    test(name, { timeout: 60_000 }, async () => {
      const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light", ...options });
      const page = await context.newPage();
      page.setDefaultTimeout(10_000);
      const bad = [];
      const base = options.at?.() ?? origin;
      page.on("dialog", (dialog) => { bad.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
      page.on("pageerror", (error) => bad.push(`error ${error}`));
      page.on("console", (message) => { if (/Content Security Policy|Trusted/i.test(message.text())) bad.push(message.text()); });
      page.on("request", (request) => { if (!request.url().startsWith(`${base}/`) && !request.url().startsWith("data:")) bad.push(request.url()); });
      await page.addInitScript(() => {
        window.blocked = [];
        addEventListener("securitypolicyviolation", (event) => window.blocked.push(`${event.violatedDirective} ${event.blockedURI}`));
      });
      const open = async (hash = "") => {
        await page.goto(`${base}/${hash}`);
        await page.getByRole("heading", { name: "mnemon" }).waitFor();
      };
      await run(page, open, context);
      const state = await page.evaluate(() => [window.pwned, window.blocked]);
      assert.deepEqual([...state, bad], [undefined, [], []]);
      await context.close();
    });
  }

  const shot = async (page, name) => {
    if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
  };
  const until = async (what, holds, most = 100) => {
    for (let tries = 0; tries < most; tries++) {
      if (await holds()) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.fail(`never: ${what}`);
  };
  const ask = async (page, question) => {
    await page.getByLabel("Question", { exact: true }).fill(question);
    await page.getByRole("button", { name: "Recall" }).click();
    await page.getByRole("list", { name: "Hits" }).waitFor();
  };

  test("the policy has the hashes of the script and the style", async () => {
    const response = await fetch(`${origin}/`);
    const page = await response.text();
    const policy = response.headers.get("content-security-policy");
    for (const tag of ["script", "style"]) {
      const content = page.split(`<${tag}>`)[1].split(`</${tag}>`)[0];
      assert.ok(policy.includes(`${tag}-src 'sha256-${createHash("sha256").update(content).digest("base64")}'`), policy);
    }
    for (const part of ["default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'", "connect-src 'self'"]) assert.ok(policy.includes(part), part);
    assert.match(response.headers.get("content-type"), /^text\/html/);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
  });

  check("namespaces have pages and a search", async (page, open) => {
    await open();
    const links = page.locator("#namespaces a");
    await until("the first page", async () => await links.count() === 50);
    await page.getByRole("button", { name: "More namespaces" }).click();
    await until("all of them", async () => await links.count() === 58);
    assert.equal(await page.getByRole("button", { name: "More namespaces" }).isVisible(), false);
    await page.getByLabel("Name contains").fill("ADA");
    await until("one of them", async () => await links.count() === 1);
    await page.getByLabel("Name contains").fill("no such name");
    await page.getByText("No name contains this.").waitFor();
    await page.getByLabel("Name contains").fill("ada");
    await page.getByRole("link", { name: /acme\/ada/ }).click();
    await page.getByRole("heading", { name: "acme/ada" }).waitFor();
    await page.getByText("18 messages").waitFor();
    assert.equal(new URL(page.url()).hash, "#/acme%2Fada/ask");
    assert.equal(await links.first().getAttribute("aria-current"), "page");
  });

  check("a session is a conversation, with its buffer marked", async (page, open) => {
    await open("#/acme%2Fada/sessions");
    await page.getByText("Pending: 0 messages").waitFor();
    await page.getByText("4 messages, 1 buffered").waitFor();
    await page.getByRole("list", { name: "Sessions" }).getByRole("link", { name: "garden" }).click();
    const shown = page.locator(".message");
    await until("the messages", async () => await shown.count() === 4);
    assert.deepEqual(await page.locator(".part").allTextContents(), ["Long-term memory", "Short-term buffer: found by words, without vectors yet"]);
    assert.equal(await page.locator(".message.buffered").getAttribute("data-id"), "buffered-1");
    assert.equal(await page.locator(".message.buffered .tag").textContent(), "buffered");
    await shot(page, "conversation");
    await open("#/acme%2Fada/sessions/work");
    await page.getByRole("button", { name: /Show all [\d,]+ characters/ }).click();
    assert.equal(await page.locator("[data-id=long] .text").textContent(), LONG);
    await page.locator("[data-id=tool]").getByText(`"day": "Friday"`).waitFor();
  });

  check("sessions and messages have pages, and a message has an address", async (page, open) => {
    await open("#/acme%2Fmany/sessions");
    const sessions = page.locator("ul[aria-label=Sessions] > li");
    await until("the first page", async () => await sessions.count() === 50);
    await page.getByRole("button", { name: "More sessions" }).click();
    await until("all of them", async () => await sessions.count() === 61);
    await open("#/acme%2Fmany/sessions/one");
    const shown = page.locator(".message");
    await until("the first page", async () => await shown.count() === 50);
    await page.getByRole("button", { name: "More messages" }).click();
    await until("the second page", async () => await shown.count() === 100);
    await open("#/acme%2Fmany/sessions/one?message=n77");
    await page.locator(".message.target[data-id=n77]").waitFor();
    assert.equal(await shown.first().getAttribute("data-id"), "n50");
    await page.getByRole("link", { name: "Show from the beginning" }).click();
    await page.locator("[data-id=n0]").waitFor();
  });

  check("hits have bars of terms, numbers, and the passage that matched", async (page, open) => {
    await open("#/acme%2Fada/ask");
    await ask(page, "What does Ada pay for rent each month?");
    const sent = await server.call("POST", "/v1/namespaces/acme%2Fada/recall", { query: "What does Ada pay for rent each month?", k: 10, strategy: "hybrid" });
    const bars = page.locator(".bar");
    assert.equal(await bars.count(), sent.hits.length);
    const names = ["dense", "lexical", "neighbor", "speaker", "question", "length", "time", "recency", "weight"];
    const written = (x) => x.toFixed(3).replace("-", "\u2212");
    for (const [at, hit] of sent.hits.entries()) {
      const used = names.filter((name) => hit.breakdown[name]);
      const label = await bars.nth(at).getAttribute("aria-label");
      for (const name of used) assert.ok(label.includes(`${name} ${written(hit.breakdown[name])}`), `${label} / ${name}`);
      assert.equal(await bars.nth(at).locator("rect").count(), used.length);
      // Negative terms are left of the axis, positive ones right of it.
      const axis = Number(await bars.nth(at).locator("line").getAttribute("x1"));
      for (const name of used) {
        const x = Number(await bars.nth(at).locator(`.term-${name}`).getAttribute("x"));
        assert.ok(hit.breakdown[name] < 0 ? x < axis : x >= axis - .01, `${hit.id} ${name} ${x} ${axis}`);
      }
    }
    assert.ok(sent.hits.some((hit) => names.some((name) => hit.breakdown[name] < 0)), "a negative term to test with");
    const legend = await page.getByRole("list", { name: "Terms of the scores" }).getByRole("listitem").allTextContents();
    assert.deepEqual(legend, names.filter((name) => sent.hits.some((hit) => hit.breakdown[name])));
    await page.getByText(`answerability ${sent.answerability.toFixed(2)}`).waitFor();
    await page.getByText(/10 hits in [\d.]+ ms/).waitFor();
    await page.getByText("1 message searched by words alone").waitFor();

    const tip = page.locator("#tip");
    await bars.first().hover();
    await tip.getByText(written(sent.hits[0].score)).waitFor();
    await shot(page, "hits");
    await page.mouse.move(5, 5);
    await tip.waitFor({ state: "hidden" });
    await bars.nth(1).focus();
    await tip.getByText(written(sent.hits[1].score)).waitFor();
    await page.keyboard.press("Escape");
    await tip.waitFor({ state: "hidden" });

    const newer = page.locator(".hit[data-id=rent-2]");
    const supersedes = sent.hits.find((hit) => hit.id === "rent-2").supersedes;
    assert.deepEqual(supersedes, ["rent-1"]);
    await newer.getByText(/Supersedes rent-1 \(hit \d+\)/).waitFor();
    await newer.getByText("Numbers").click();
    await newer.getByRole("rowheader", { name: "BM25" }).waitFor();
    await newer.getByRole("link", { name: "money" }).click();
    await page.locator(".message.target[data-id=rent-2]").waitFor();
    await page.goBack();
    await page.getByRole("list", { name: "Hits" }).waitFor();
    assert.equal(await page.getByLabel("Question", { exact: true }).inputValue(), "What does Ada pay for rent each month?");
  });

  check("the passage of a long message is marked at its byte offsets", async (page, open) => {
    const question = "Why do the moons of Jupiter look blurred in the telescope?";
    await open(`#/acme%2Fada/ask?q=${encodeURIComponent(question)}`);
    const { hits } = await server.call("POST", "/v1/namespaces/acme%2Fada/recall", { query: question });
    const { passage } = hits.find((hit) => hit.id === "long");
    const bytes = Buffer.from(LONG);
    assert.ok(passage.start > 0 && passage.end < bytes.length, "a window, after letters of several bytes");
    const hit = page.locator(".hit[data-id=long]");
    await hit.waitFor();
    assert.equal(await hit.locator("mark").textContent(), bytes.subarray(passage.start, passage.end).toString());
    await shot(page, "passage");
    await hit.getByRole("button", { name: "Show the whole message" }).click();
    assert.equal(await hit.locator(".text").textContent(), LONG);
    assert.equal(await hit.locator("mark").textContent(), bytes.subarray(passage.start, passage.end).toString());
  });

  check("other strategies, a session, and the number of hits", async (page, open) => {
    await open("#/acme%2Fada/ask");
    for (const strategy of ["dense", "lexical", "rrf"]) {
      await page.getByRole("combobox", { name: "Strategy" }).selectOption(strategy);
      await page.getByRole("spinbutton", { name: "Hits" }).fill("2");
      await page.getByRole("textbox", { name: "Session" }).fill("kitchen");
      await ask(page, "walnuts");
      await until(strategy, async () => new URL(page.url()).hash.includes(`strategy=${strategy}`) && await page.locator(".hit").count() === 2);
      assert.deepEqual(new Set(await page.locator(".hit a").allTextContents()), new Set(["kitchen"]));
    }
  });

  check("documents have pages and a search", async (page, open) => {
    await open("#/acme%2Fada/documents");
    const shown = page.locator(".document");
    await until("the first page", async () => await shown.count() === 20);
    await page.getByRole("link", { name: "Next documents" }).click();
    await until("the second page", async () => await shown.count() === 5);
    await page.getByLabel("Search documents").fill("walnut allergy");
    await page.getByRole("button", { name: "Search" }).click();
    await page.getByText(/^score /).first().waitFor();
    assert.equal(await shown.first().locator("code").textContent(), "note-3");
    assert.deepEqual(JSON.parse(await shown.first().locator("pre").textContent()), { title: "Note 3", body: "the walnut allergy card" });
    await shot(page, "documents");
  });

  check("blocks show what they made", async (page, open) => {
    await open("#/acme%2Fada/blocks");
    const shown = page.locator("ul[aria-label=Blocks] > li");
    await until("the blocks", async () => await shown.count() === 2);
    assert.deepEqual(await shown.locator("code").allTextContents(), ["summary", "facts"]);
    assert.match(await page.locator("#view > .stack").innerText(), /^States of blocks\nsummary/);
    assert.deepEqual(JSON.parse(await shown.nth(1).locator("pre").textContent()), HOSTILE);
    assert.equal(await page.locator("img, iframe, svg[onload], script:not(body > script)").count(), 0);
    await shot(page, "blocks");
    await shown.first().getByRole("link", { name: "garden" }).click();
    await page.getByText("Slugs ate the lettuce again").waitFor();
  });

  check("the map has points with texts, for mouse and keyboard", async (page, open) => {
    await open("#/acme%2Fada/map");
    const points = page.locator(".map > svg > path");
    await until("the points", async () => await points.count() === 18);
    const legend = page.getByRole("list", { name: "Sessions" });
    assert.deepEqual((await legend.getByRole("button").allTextContents()).sort(), ["garden (4)", "kitchen (3)", "money (3)", "travel (3)", "work (5)"]);
    await points.nth(3).hover({ force: true });
    await page.locator("#tip").waitFor();
    await shot(page, "map");
    await page.getByRole("button", { name: "garden (4)" }).click();
    await until("others are faded", async () => await page.locator(".map path.faded").count() === 14);
    await page.getByRole("button", { name: "garden (4)" }).click();
    await points.first().focus();
    const reached = new Set();
    for (let step = 0; step < 18; step++) await page.keyboard.press("ArrowLeft");
    for (let step = 0; step < 18; step++) {
      const label = await page.evaluate(() => document.activeElement.getAttribute("aria-label"));
      reached.add(label);
      const [session, text] = label.split(/: (.*)/s);
      assert.equal(await page.locator("#tip").textContent(), session + text);
      await page.keyboard.press("ArrowRight");
    }
    assert.equal(reached.size, 18, "the keyboard reaches every point");
    await page.keyboard.press("Enter");
    await page.locator(".message.target").waitFor();
    await open("#/acme%2Fmany/map?sample=200");
    await page.getByText("49 other sessions").waitFor();
    assert.equal(await legend.getByRole("button").count(), 12);
    await shot(page, "map-many");
  });

  check("index, statistics and live latency", async (page, open) => {
    await open("#/acme%2Fada/index");
    const fact = (name) => page.locator("dl > div", { has: page.getByText(name, { exact: true }) }).locator("dd");
    const { index } = await server.call("GET", "/v1/namespaces/acme%2Fada");
    assert.match(await fact("Vectors").textContent(), new RegExp(`^${index.vectors}`));
    assert.match(await fact("ef_search").textContent(), new RegExp(`^${index.ef_search}`));
    assert.match(await fact("Model").textContent(), /static-en-256/);
    assert.match(await fact("Pending").textContent(), /^0/);
    const large = page.locator("#latency-large svg");
    const requests = async () => Number((await large.getAttribute("aria-label")).match(/last (\d+) requests/)[1]);
    const first = await requests();
    await until("more requests", async () => await requests() >= first + 2);
    assert.match(await fact("Median").textContent(), /ms$/);
    await page.getByLabel("Ask /health every second").uncheck();
    await shot(page, "index");
  });

  check("deleting and forgetting ask first, and show what is gone", async (page, open) => {
    await server.put("gone/one", messages("g"));
    const left = async () => (await server.call("GET", "/v1/namespaces?prefix=gone/one")).namespaces[0]?.messages ?? 0;
    const dialog = page.getByRole("dialog");
    await open("#/gone%2Fone/sessions/kitchen");
    // A message: cancelled, then deleted.
    await page.getByRole("button", { name: "Delete message g-kitchen-0" }).click();
    await dialog.getByText("Ada is allergic to walnuts").waitFor();
    await dialog.getByText("There is no way back.").waitFor();
    await shot(page, "dialog");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.equal(await left(), 12);
    await page.getByRole("button", { name: "Delete message g-kitchen-0" }).click();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByText("1 message deleted.").waitFor();
    await until("the page behind the dialog follows", async () => await page.locator(".message").count() === 2);
    await shot(page, "deleted");
    await dialog.getByRole("button", { name: "Close" }).click();
    assert.equal(await left(), 11);
    // A message, forgotten from a hit.
    await open("#/gone%2Fone/ask?q=sourdough%20starter");
    await page.locator(".hit[data-id=g-kitchen-1]").getByRole("button", { name: "Delete" }).click();
    await dialog.getByLabel("Forget").check();
    await dialog.getByRole("button", { name: "Forget", exact: true }).click();
    await dialog.getByRole("heading", { name: "Forgotten" }).waitFor();
    await dialog.getByText("The receipt as JSON").click();
    const receipt = JSON.parse(await dialog.locator("pre").textContent());
    assert.deepEqual([receipt.event.forgotten.messages, receipt.event.requested.by, receipt.hash.length], [1, "messages", 64]);
    await shot(page, "receipt");
    await dialog.getByRole("button", { name: "Close" }).click();
    assert.equal(await left(), 10);
    // A session, deleted from its list, and one forgotten from its conversation.
    await open("#/gone%2Fone/sessions");
    await page.getByRole("button", { name: "Delete session travel" }).click();
    await dialog.getByText("with its 3 messages").waitFor();
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByText("It is gone.").waitFor();
    await until("the list behind the dialog follows", async () => await page.locator("ul[aria-label=Sessions] > li").count() === 3);
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "work" }).click();
    await page.getByRole("button", { name: "Delete session…" }).click();
    await dialog.getByLabel("Forget").check();
    await dialog.getByRole("button", { name: "Forget", exact: true }).click();
    await dialog.getByRole("button", { name: "Close" }).click();
    await until("the list is back", async () => new URL(page.url()).hash === "#/gone%2Fone/sessions");
    assert.equal(await left(), 4);
    // A namespace: only after its name was typed.
    await page.getByRole("button", { name: "Delete namespace" }).click();
    await dialog.getByText("It has 4 messages, 2 sessions and 0 documents.").waitFor();
    await dialog.getByLabel("Forget").check();
    const go = dialog.getByRole("button", { name: "Forget", exact: true });
    for (const text of ["gone", "gone/one ", "GONE/ONE"]) {
      await dialog.getByLabel("Type the name").fill(text);
      assert.equal(await go.isDisabled(), true, text);
    }
    await dialog.getByLabel("Type the name").fill("gone/one");
    await go.click();
    await dialog.getByRole("heading", { name: "Forgotten" }).waitFor();
    await until("the list behind the dialog follows", async () => await page.locator("[data-namespace='gone/one']").count() === 0);
    await dialog.getByRole("button", { name: "Close" }).click();
    await page.getByRole("heading", { name: "Database" }).waitFor();
    assert.equal(await left(), 0);
  });

  check("documents, odd ids, and namespaces below are deleted as named", async (page, open) => {
    await server.put("odd/a", [{ id: "..", session: "s", role: "user", content: "dots" }, { id: "a/b%2Fc?d#e", session: "x/y", role: "user", content: "slashes" }]);
    await server.put("odd/a/below", [{ id: "kept", role: "user", content: "kept" }]);
    await server.call("PUT", "/v1/namespaces/odd%2Fa/documents/k%2F1", { value: 1 });
    const dialog = page.getByRole("dialog");
    const confirm = async () => {
      await dialog.getByRole("button", { name: "Delete", exact: true }).click();
      await dialog.getByRole("button", { name: "Close" }).click();
    };
    await open("#/odd%2Fa/documents");
    await page.getByRole("button", { name: "Delete document k/1" }).click();
    await confirm();
    await page.getByText("This namespace has no documents.").waitFor();
    for (const [session, id] of [["s", ".."], ["x%2Fy", "a/b%2Fc?d#e"]]) {
      await open(`#/odd%2Fa/sessions/${session}`);
      await page.getByRole("button", { name: `Delete message ${id}` }).click();
      await confirm();
      await page.getByText("There is no session").waitFor();
    }
    await server.put("odd/a", [{ id: "last", role: "user", content: "last" }]);
    await open("#/odd%2Fa/ask");
    await page.getByRole("button", { name: "Delete namespace" }).click();
    await dialog.getByLabel("Type the name").fill("odd/a");
    await confirm();
    await until("the list without it", async () => (await server.call("GET", "/v1/namespaces?prefix=odd")).namespaces.map((info) => info.namespace).join() === "odd/a/below");
  });

  check("hostile texts are shown, and do not run", async (page, open) => {
    const space = encodeURIComponent(HOSTILE_SPACE);
    await open();
    await page.getByLabel("Name contains").fill("<img");
    await page.getByRole("link", { name: HOSTILE_SPACE }).click();
    await page.getByRole("heading", { name: HOSTILE_SPACE }).waitFor();
    for (const text of HOSTILE) {
      await ask(page, text);
      await until("the hit", async () => (await page.locator(".hit .text").allTextContents()).includes(text));
      await open(`#/${space}/sessions/${encodeURIComponent(text)}`);
      await page.getByRole("heading", { name: text }).waitFor();
      await page.locator(".message summary").click();
      assert.equal(await page.locator(".message .text").textContent(), text);
      assert.equal(await page.locator(".message .who").textContent(), text);
      await page.getByRole("button", { name: "Delete message" }).click();
      await page.getByRole("dialog").getByText(text).first().waitFor();
      await page.keyboard.press("Escape");
      await open(`#/${space}/ask`);
    }
    await open(`#/${space}/sessions`);
    await until("the sessions", async () => await page.locator("ul[aria-label=Sessions] > li").count() === HOSTILE.length);
    await open(`#/${space}/documents`);
    await until("the documents", async () => await page.locator(".document").count() === HOSTILE.length);
    await open(`#/${space}/map`);
    await until("the points", async () => await page.locator(".map > svg > path").count() === HOSTILE.length);
    await page.locator(".map > svg > path").first().focus();
    await page.locator("#tip").waitFor();
    for (const hash of [`#/${space}/${encodeURIComponent(HOSTILE[1])}`, `#/%/x`, `#/${space}/ask?q=${encodeURIComponent(HOSTILE[1])}`, `#/..%2F../ask?q=x`, `#/../ask?q=x`]) await open(hash);
    // Nothing of a memory became an element.
    assert.equal(await page.locator("img, iframe, svg[onload], script:not(body > script)").count(), 0);
  });

  check("what is not there is said plainly", async (page, open) => {
    const alert = page.getByRole("alert");
    await open("#/acme%2Fada/sessions/nowhere");
    await page.getByText("There is no session \u201cnowhere\u201d in this namespace.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Delete session" }).count(), 0);
    await shot(page, "no-session");
    await open("#/acme%2Fada/ask?q=walnuts&session=nowhere");
    await page.getByText("0 hits in").waitFor();
    await page.getByText("There is no session \u201cnowhere\u201d in this namespace.").waitFor();
    await server.put("empty/one", [{ id: "call", session: "calls", role: "assistant", content: [{ type: "tool_call", id: "c", name: "f", arguments: {} }] }]);
    await open("#/empty%2Fone/ask?q=walnuts&session=calls");
    await page.getByText("Nothing was found: the session \u201ccalls\u201d has no messages with text.").waitFor();
    await open("#/no%2Fsuch/ask?q=walnuts");
    await page.getByText("Nothing was found: this namespace has no messages with text.").waitFor();
    await shot(page, "no-hits");
    assert.equal(await page.getByText("answerability").count(), 0);
    assert.equal(await alert.isVisible(), false);
  });

  check("problems are told in an alert", async (page, open) => {
    const alert = page.getByRole("alert");
    await open("#/acme%2Fada/map?sample=1");
    await alert.getByText("give 2 to 2000").waitFor();
    await alert.getByRole("button", { name: "Dismiss" }).click();
    assert.equal(await alert.isVisible(), false);
    await open("#/acme%2Fada/sessions/..");
    await alert.getByText("Use the command line").waitFor();
    await page.route("**/v1/**", (route) => route.abort());
    await page.getByRole("link", { name: "Documents" }).click();
    await alert.getByText("The server does not answer.").waitFor();
  });

  check("nothing is wider than a window of 380 px", async (page, open) => {
    const fits = async (name) => {
      const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= window, `${name}: ${content} px in ${window} px`);
    };
    await open();
    await page.locator("#namespaces a").first().waitFor();
    await fits("namespaces");
    const places = { ask: "?q=Why%20do%20the%20moons%20look%20blurred", sessions: "", "sessions/work": "", "sessions/garden": "", documents: "", blocks: "", map: "", index: "" };
    for (const space of ["acme/ada", HOSTILE_SPACE]) {
      for (const [tab, query] of Object.entries(places)) {
        await open(`#/${encodeURIComponent(space)}/${tab}${query}`);
        await page.waitForLoadState("networkidle");
        await fits(`${space} ${tab}`);
        const tops = await page.locator(".tabs a").evaluateAll((links) => links.map((link) => link.offsetTop));
        assert.deepEqual([tops.length, new Set(tops).size], [6, 1], "the tabs are in one line");
        assert.ok(await page.locator(".tabs").evaluate((tabs) => tabs.scrollWidth <= tabs.clientWidth), "all tabs are seen");
        if (space === "acme/ada") await shot(page, `narrow-${tab.replace("/", "-")}`);
      }
    }
    await page.getByRole("link", { name: "All namespaces" }).click();
    await page.locator("#namespaces a").first().waitFor();
    await open("#/acme%2Fada/ask");
    await page.getByRole("button", { name: "Delete namespace" }).click();
    await fits("dialog");
    await shot(page, "narrow-dialog");
  }, { viewport: { width: 380, height: 800 } });

  check("everything works from the keyboard", async (page, open) => {
    await server.put("keys/board", messages("k"));
    await open();
    await page.locator("#namespaces a").first().waitFor();
    const at = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") || document.activeElement.innerText || document.activeElement.id);
    // Each element that has the focus shows it.
    const tabTo = async (wanted) => {
      for (let steps = 0; steps < 150; steps++) {
        await page.keyboard.press("Tab");
        const shown = await page.evaluate(() => {
          const element = document.activeElement;
          return element === document.body || element.matches(".skip") || getComputedStyle(element).outlineStyle !== "none";
        });
        assert.ok(shown, `the focus is visible at ${await at()}`);
        if (wanted.test(await at())) return;
      }
      assert.fail(`Tab never comes to ${wanted}`);
    };
    await page.keyboard.press("Tab");
    assert.equal(await at(), "Skip to content");
    await tabTo(/^filter$/);
    await page.keyboard.type("keys/");
    await until("one namespace", async () => await page.locator("#namespaces a").count() === 1);
    await tabTo(/keys\/board/);
    await page.keyboard.press("Enter");
    await until("the title has the focus", async () => await at() === "keys/board");
    await tabTo(/^question$/);
    await page.keyboard.type("Who is allergic to walnuts?");
    await page.keyboard.press("Enter");
    await page.locator(".hit").first().waitFor();
    await tabTo(/^Score /);
    await page.locator("#tip").waitFor();
    await tabTo(/^Delete message k-kitchen-0$/);
    await page.keyboard.press("Enter");
    const dialog = page.getByRole("dialog");
    await until("the focus is on the harmless button", async () => await at() === "Cancel");
    await dialog.getByText("Ada is allergic to walnuts").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    await until("the focus is back", async () => await at() === "Delete message k-kitchen-0");
    await page.keyboard.press("Enter");
    await tabTo(/^Delete$/);
    await page.keyboard.press("Enter");
    await dialog.getByText("1 message deleted.").waitFor();
    await page.keyboard.press("Enter");
    await until("it is gone", async () => await page.locator(".hit").first().isVisible() && await page.locator("[data-id=k-kitchen-0]").count() === 0);
  });

  check("colors follow the system and the switch", async (page, open) => {
    const dark = () => page.evaluate(() => {
      const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
      return r + g + b < 200;
    });
    await open("#/acme%2Fada/ask?q=What%20does%20Ada%20pay%20for%20rent%3F");
    await page.locator(".hit").first().waitFor();
    assert.equal(await dark(), false);
    await shot(page, "desktop-light");
    await page.emulateMedia({ colorScheme: "dark" });
    assert.equal(await dark(), true);
    await shot(page, "desktop-dark");
    await page.getByRole("button", { name: "Light colors" }).click();
    assert.equal(await dark(), false);
    await page.reload();
    await page.getByRole("button", { name: "Dark colors" }).click();
    assert.equal(await dark(), true);
    await open("#/acme%2Fada/map");
    await page.locator(".map path").first().waitFor();
    await shot(page, "map-dark");
  });

  describe("with tokens", () => {
    let guarded;
    const tokens = {};
    before(async () => {
      const folder = mkdtempSync(join(tmpdir(), "mnemon-tokens-"));
      const file = join(folder, "tokens.toml");
      let text = "";
      for (const [name, rights, prefix] of [["all", "read,write,forget,admin"], ["reader", "read", "acme"]]) {
        const args = ["--format", "json", "token", "--name", name, "--rights", rights, ...(prefix ? ["--prefix", prefix] : [])];
        const { token, entry } = JSON.parse(execFileSync(MNEMON, args));
        tokens[name] = token;
        text += `[[token]]\nname = "${entry.name}"\nsha256 = "${entry.sha256}"\nrights = ${JSON.stringify(entry.rights)}\n${prefix ? `prefix = "${prefix}"\n` : ""}\n`;
      }
      writeFileSync(file, text);
      guarded = await Server.start(["--tokens", file]);
      await guarded.put("acme/ada", messages("t"), tokens.all);
      await guarded.put("other/bob", messages("u"), tokens.all);
      rmSync(folder, { recursive: true });
    });
    after(() => guarded?.stop());

    check("the page asks for a token, and keeps it for its tab alone", async (page, open, context) => {
      const sent = [];
      page.on("request", (request) => sent.push(request.headers().authorization));
      const field = page.getByLabel("Token", { exact: true });
      await open("#/acme%2Fada/sessions");
      await page.getByRole("heading", { name: "This server asks for a token" }).waitFor();
      await page.getByRole("alert").getByText("give a token of this server").waitFor();
      await shot(page, "token");
      await field.fill("mnemon_wrong");
      await page.getByRole("button", { name: "Use the token" }).click();
      await page.getByRole("alert").getByText("give a token of this server").waitFor();
      await field.fill("b\u00e4d token");
      await page.getByRole("button", { name: "Use the token" }).click();
      await page.getByRole("alert").getByText("no spaces").waitFor();
      await field.fill(tokens.all);
      await page.getByRole("button", { name: "Use the token" }).click();
      await page.getByRole("list", { name: "Sessions" }).getByRole("link", { name: "garden" }).waitFor();
      await page.locator("[data-namespace='other/bob']").waitFor();
      assert.equal(await field.isVisible(), false);
      assert.ok(sent.includes(`Bearer ${tokens.all}`));
      const kept = await page.evaluate(() => [JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie, document.documentElement.outerHTML]);
      assert.deepEqual(kept.map((text) => text.includes(tokens.all)), [true, false, false, false]);
      await page.reload();
      await page.getByRole("list", { name: "Sessions" }).waitFor();
      // Another tab has none.
      const other = await context.newPage();
      await other.goto(page.url());
      await other.getByRole("heading", { name: "This server asks for a token" }).waitFor();
      await page.getByRole("button", { name: "Token", exact: true }).click();
      await page.getByRole("button", { name: "Remove it now" }).click();
      await page.getByRole("alert").getByText("give a token of this server").waitFor();
      assert.equal(await page.evaluate(() => sessionStorage.length), 0);
    }, { at: () => guarded.url });

    check("a token sees and does what it may", async (page, open) => {
      await open("#/acme%2Fada/index");
      await page.getByLabel("Token", { exact: true }).fill(tokens.reader);
      await page.getByRole("button", { name: "Use the token" }).click();
      await page.getByText("need a token with the right admin").waitFor();
      assert.equal(await page.locator("#namespaces a").count(), 1);
      assert.equal(await page.getByRole("alert").isVisible(), false);
      await page.getByRole("link", { name: "Sessions" }).click();
      await page.getByRole("button", { name: "Delete session garden" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Delete", exact: true }).click();
      await dialog.getByRole("alert").getByText("this token has no right to forget").waitFor();
      await dialog.getByRole("button", { name: "Cancel" }).click();
      assert.equal((await guarded.call("GET", "/v1/namespaces?prefix=acme/ada", undefined, tokens.all)).namespaces[0].messages, 12);
    }, { at: () => guarded.url });
  });

  describe("with a language model", () => {
    let llm, forming, folder;
    const FORMED = `/v1/namespaces/${encodeURIComponent("users/ada")}`;
    before(async () => {
      llm = await recordedModel();
      folder = mkdtempSync(join(tmpdir(), "mnemon-formation-"));
      const config = join(folder, "serve.toml");
      writeFileSync(config, RULES);
      const url = `http://127.0.0.1:${llm.address().port}/v1`;
      forming = await Server.start(["--llm", url, "--llm-model", "recorded", "--config", config]);
      for (const [session, messages] of Object.entries(SAID)) {
        await forming.call("POST", `${FORMED}/sessions/${session}/messages`, { messages });
        await forming.call("POST", `${FORMED}/sessions/${session}/flush`);
      }
      // Without a session, as clients of MCP store it.
      await forming.put("users/ada", [{ id: "note", role: "user", name: "Ada", content: "I am allergic to walnuts.", created_at: "2026-03-04T08:00:00Z" }]);
      await until("all batches", async () => {
        const { sessions } = await forming.call("GET", `${FORMED}/formation`);
        return sessions.length === 3 && sessions.every(({ blocks }) => blocks.every(({ behind }) => !behind));
      }, 400);
    });
    after(async () => {
      await forming?.stop();
      llm?.close();
      if (folder) rmSync(folder, { recursive: true });
    });
    const at = () => forming.url;

    check("facts have their messages, and the model its costs", async (page, open) => {
      await open("#/users%2Fada/blocks");
      const facts = page.getByRole("list", { name: "facts" }).locator(":scope > li");
      await until("the facts", async () => await facts.count() === 4);
      const fact = facts.filter({ hasText: "Ada keeps her boat at the harbour of Porto." });
      await fact.getByText("From 2 messages").click();
      const sources = fact.locator(".origin > li");
      await until("its messages", async () => await sources.count() === 2);
      assert.match(await sources.first().textContent(), /^Ada .*I have bought a boat/);
      await facts.filter({ hasText: "allergic" }).getByText("From 1 message").click();
      await page.getByText("I am allergic to walnuts.", { exact: true }).waitFor();
      const { blocks } = await forming.call("GET", `${FORMED}/formation`);
      const rows = await page.getByRole("table").locator("tbody tr").allInnerTexts();
      const cells = blocks.map(({ name, kind, calls, prompt_tokens, completion_tokens, failures }) =>
        [name, kind, calls, prompt_tokens.toLocaleString("en"), completion_tokens, failures].join("\t"));
      assert.deepEqual(rows, cells);
      const facts_of = blocks.find(({ name }) => name === "facts");
      assert.deepEqual([facts_of.calls, facts_of.prompt_tokens, facts_of.failures], [4, 3200, 1]);
      await page.getByRole("row", { name: /^All/ }).waitFor();
      assert.deepEqual(JSON.parse(await page.locator(".profile pre").textContent()), { name: "Ada", boat: "Petrel", allergies: ["walnuts"] });
      await page.getByText("Ada bought the boat Petrel").waitFor();
      await shot(page, "formation-light");
      await page.emulateMedia({ colorScheme: "dark" });
      await shot(page, "formation-dark");
      await sources.first().getByRole("link", { name: "Ada" }).click();
      await page.locator(".message.target[data-id=b1]").waitFor();
    }, { at });

    check("facts and costs are not wider than a window of 380 px", async (page, open) => {
      await open("#/users%2Fada/blocks");
      await page.getByText("From 2 messages").first().click();
      await page.locator(".origin > li").first().waitFor();
      const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
      assert.ok(content <= window, `${content} px in ${window} px`);
      if (SCREENSHOTS) await page.screenshot({ path: join(SCREENSHOTS, "formation-narrow.png"), fullPage: true });
    }, { at, viewport: { width: 380, height: 800 } });

    check("batches that wait are told with the reason", async (page, open) => {
      await forming.call("POST", `${FORMED}/sessions/riddle/messages`, { messages: [{ role: "user", content: "What is it that has no name?" }] });
      await forming.call("POST", `${FORMED}/sessions/riddle/flush`);
      await until("a failure", async () => {
        const { sessions } = await forming.call("GET", `${FORMED}/formation`);
        return sessions.find(({ session }) => session === "riddle")?.blocks.every(({ retrying }) => retrying);
      }, 400);
      await open("#/users%2Fada/blocks");
      const waiting = page.getByRole("list", { name: "Waiting" }).locator("li");
      await until("the list", async () => await waiting.count() === 3);
      assert.match(await waiting.first().textContent(), /^facts of riddle: 1 batch to come, after a failure: .*503/);
      await shot(page, "formation-waiting");
    }, { at });
  });
});
