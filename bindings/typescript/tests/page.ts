/** The program of a page: its title becomes what it found, or its error. */

import { Mnemon, type MnemonError } from "mnemon-engine";

async function main(): Promise<object> {
  const client = new Mnemon({ url: new URLSearchParams(location.search).get("url") ?? "", maxRetries: 1 });
  const ada = client.namespace("users/ada");
  await ada.put("I row on Thursdays.", { flush: true });
  const found = (await ada.recall("When do I row?", { k: 1 })).hits[0]?.content;
  await ada.documents.put("a/b", { text: "rowing" });
  const documents = (await ada.documents.search("rowing")).length;
  await ada.session("monday").put(["Hello", { role: "assistant", content: "Hello!" }]);
  const history = (await ada.session("monday").history({ limit: 1 }).toArray()).length;
  const error = await ada.recall(" ").catch((error: MnemonError) => error.type);
  const steps = client.reindex();
  let step = await steps.next();
  while (!step.done) step = await steps.next();
  return { found, documents, history, error, reindexed: step.value.to !== undefined };
}

main().then((answer) => (document.title = JSON.stringify(answer)), (error: Error) => (document.title = error.message));
