/** A chain with a history and documents that it finds. Needs `mnemon serve`. */

import { Document } from "@langchain/core/documents";
import { AIMessage, HumanMessage } from "@langchain/core/messages";
import { FakeListChatModel } from "@langchain/core/utils/testing";
import { Mnemon } from "mnemon-engine";
import { MnemonChatMessageHistory, MnemonRetriever, MnemonVectorStore } from "mnemon-engine/langchain";

const ada = new Mnemon({ url: process.env.MNEMON_URL ?? "http://127.0.0.1:7411" }).namespace("users/ada");

const lessons = new MnemonVectorStore(ada.namespace("lessons"));
await lessons.addDocuments([new Document({ id: "1", pageContent: "Rowing is on Thursday at nine." }), new Document({ id: "2", pageContent: "Choir is on Monday." })]);

const history = new MnemonChatMessageHistory(ada, "today");
const model = new FakeListChatModel({ responses: ["On Thursday at nine."] });
const question = new HumanMessage("When do I row?");
const [found] = await lessons.asRetriever({ k: 1 }).invoke(question.text);
const answer = await model.invoke([...(await history.getMessages()), new HumanMessage(`Known: ${found?.pageContent}`), question]);
await history.addMessages([question, new AIMessage(answer.text)]);
console.log(answer.text, "of", found?.pageContent);

const [said] = await new MnemonRetriever({ namespace: ada, options: { k: 1, role: "assistant" } }).invoke("rowing on Thursday");
console.log("said:", said?.pageContent);
