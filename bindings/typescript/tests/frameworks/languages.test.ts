/** One file in two languages: what Python's adapters stored is read and changed here, and then read there. */

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { env } from "node:process";

import { Document } from "@langchain/core/documents";
import { Embeddings } from "@langchain/core/embeddings";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { Mnemon } from "mnemon-engine";
import { MnemonChatMessageHistory, MnemonVectorStore } from "mnemon-engine/langchain";
import { MnemonStore } from "mnemon-engine/langgraph";
import { MnemonSession } from "mnemon-engine/openai-agents";
import { expect, it, onTestFinished } from "vitest";

import { Server } from "../server.js";

/** An interpreter with the wheel, and the packages that its tests need. */
const PYTHON = env["MNEMON_PYTHON"];
if (!PYTHON) console.log("skipped: one file in two languages, because MNEMON_PYTHON names no interpreter; `make test-python` makes one");

const LONG = "id/\u00e9".repeat(200);
// Too long for a content.
const LONG_TEXT = "\u{1f6a3}".repeat(300_000);
const SPACES = [["users", "a/d%2Fa"], ["line\nfeed\\"]];

/** A text's length in two directions, as in Python. */
class Lengths extends Embeddings {
  override async embedQuery(text: string): Promise<number[]> {
    return [(text.length % 7) + 1, (text.length % 3) + 1];
  }

  override async embedDocuments(texts: string[]): Promise<number[][]> {
    return Promise.all(texts.map((text) => this.embedQuery(text)));
  }
}

it.skipIf(!PYTHON).each(["auto", "given"])("shares a file whose model is %s", async (model) => {
  const server = new Server();
  onTestFinished(() => server.stop());
  const program = ["-B", "tests/frameworks/languages.py", join(server.folder, "memory.redb"), model];
  const python = (command: string) => execFileSync(PYTHON!, [...program, command], { encoding: "utf8", maxBuffer: 2 ** 26 });

  python("write");
  await server.start("127.0.0.1:0");
  const mnemon = new Mnemon({ url: server.url });
  const ada = mnemon.namespace("users/ada");
  const items = new MnemonStore(mnemon);
  const documents = new MnemonVectorStore(mnemon.namespace("documents"), model === "given" ? new Lengths({}) : undefined);
  const history = new MnemonChatMessageHistory(ada, "chat");
  const session = new MnemonSession(ada, "agents");

  for (const space of SPACES) expect((await items.get(space, "k/e.y\u00e9"))?.value).toEqual({ by: "python", text: "Ada goes rowing.", n: 1.5 });
  await items.put(SPACES[0]!, "k/e.y\u00e9", { by: "typescript" });
  await items.put(["new"], "n", { by: "typescript" });

  const [rowing] = await documents.similaritySearch("Ada goes rowing.", 1);
  expect(rowing).toEqual(new Document({ id: LONG, pageContent: "Ada goes rowing.", metadata: { by: "python", tags: ["sport", null] } }));
  if (model === "given") expect((await documents.similaritySearchVectorWithScore([3, 2], 1))[0]).toEqual([rowing, expect.closeTo(1, 3)]);
  await documents.addDocuments([
    new Document({ id: LONG, pageContent: "Ada goes skating.", metadata: { by: "typescript" } }),
    new Document({ id: "bo\u00e9", pageContent: "Bo bakes cake.", metadata: { by: "typescript" } }),
    new Document({ id: "new", pageContent: "Cy plays the violin.", metadata: { by: "typescript" } }),
  ]);

  const [human, ai, tool, long] = await history.getMessages();
  expect([human, ai, tool].map((message) => message?.constructor)).toEqual([HumanMessage, AIMessage, ToolMessage]);
  expect(human).toMatchObject({ content: "What time is it?", name: "ada", id: "m1" });
  expect(ai).toMatchObject({ content: "", tool_calls: [{ id: "c1", name: "clock", args: { zone: "UTC" } }] });
  expect(tool).toMatchObject({ content: "12:00", tool_call_id: "c1", name: "clock" });
  expect(long?.content === LONG_TEXT).toBe(true);
  await history.addMessages([new AIMessage({ content: "It is noon.", id: "m2" }), new ToolMessage({ content: "13:00", tool_call_id: "c2", name: "clock" })]);
  await history.addMessages([new HumanMessage(LONG_TEXT)]);

  expect(await session.getItems()).toMatchObject([
    { role: "user", content: "What time is it?" },
    { type: "function_call", callId: "c1", name: "clock", arguments: "{\"zone\":\"UTC\"}" },
    { type: "function_call_result", callId: "c1", output: { type: "text", text: "12:00" } },
  ]);
  await session.addItems([{ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text: "It is noon." }] }]);

  expect((await ada.memoryTool({ command: "view", path: "/memories/sport.md" })).content).toContain("Ada rows.");
  await ada.memoryTool({ command: "str_replace", path: "/memories/sport.md", old_str: "rows", new_str: "rows and sings" });

  await server.kill("SIGTERM");
  const read = JSON.parse(python("read")) as Record<string, unknown>;
  expect(read["items"]).toEqual([
    [["new"], "n", { by: "typescript" }],
    [SPACES[0], "k/e.y\u00e9", { by: "typescript" }],
    [SPACES[1], "k/e.y\u00e9", { by: "python", text: "Ada goes rowing.", n: 1.5 }],
  ]);
  expect(read["best"]).toBe("new");
  expect(read["documents"]).toEqual([
    ["bo\u00e9", "Bo bakes cake.", { by: "typescript" }],
    ["di", "Di reads.", { by: "python" }],
    [LONG, "Ada goes skating.", { by: "typescript" }],
    ["new", "Cy plays the violin.", { by: "typescript" }],
  ]);
  expect(read["history"]).toMatchObject([
    { type: "human", data: { content: "What time is it?", name: "ada", id: "m1" } },
    { type: "ai", data: { tool_calls: [{ id: "c1", name: "clock", args: { zone: "UTC" } }] } },
    { type: "tool", data: { content: "12:00", tool_call_id: "c1" } },
    { type: "human", data: { content: LONG_TEXT } },
    { type: "ai", data: { content: "It is noon.", id: "m2" } },
    { type: "tool", data: { content: "13:00", tool_call_id: "c2", name: "clock" } },
    { type: "human", data: { content: LONG_TEXT } },
  ]);
  expect(read["session"]).toMatchObject([
    { role: "user", content: "What time is it?" },
    { type: "function_call", call_id: "c1", name: "clock" },
    { type: "function_call_output", call_id: "c1", output: "12:00" },
    { role: "assistant" },
  ]);
  expect(read["file"]).toContain("Ada rows and sings.");
}, 120_000);
