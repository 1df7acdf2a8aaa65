/** An agent that remembers: each turn is answered with a prompt made of its memory, and stored. Run it twice: it knows what you said. */

import { openLocal } from "mnemon-engine/local";
import type { Message } from "mnemon-engine";

/** Stands for a chat model. */
function answer(messages: Message[]): string {
  const memory = messages.find((message) => message.role === "system");
  return memory ? `I know: ${JSON.stringify(memory.content).match(/>([^<]+)<\/message>/)?.[1]}` : "I know nothing yet.";
}

const memory = await openLocal("memory.redb");
const ada = memory.namespace("users/ada");
for (const [id, text] of [["monday", "I moved my rowing lesson to Thursday."], ["tuesday", "When is my rowing lesson?"]] as const) {
  const session = ada.session(id);
  const { messages } = await session.assemble(text);
  const reply = answer(messages);
  await session.put([text, { role: "assistant", content: reply }]);
  console.log(`${text} ${reply}`);
}
memory.close();
