/** Messages that LangChain's chains retrieve. */

import { Document } from "@langchain/core/documents";
import { BaseRetriever, type BaseRetrieverInput } from "@langchain/core/retrievers";

import type { Namespace } from "../client.js";
import { partsOf, textOf } from "../messages.js";
import type { RecallOptions } from "../types.js";

/** The messages of a namespace that answer a question, as documents. Their metadata has the message's fields, and the score. */
export class MnemonRetriever extends BaseRetriever {
  override lc_namespace = ["mnemon", "retrievers"];
  readonly #namespace: Namespace;
  readonly #options: RecallOptions;

  constructor({ namespace, options = {}, ...fields }: BaseRetrieverInput & { namespace: Namespace; options?: RecallOptions }) {
    super(fields);
    this.#namespace = namespace;
    this.#options = options;
  }

  override async _getRelevantDocuments(query: string): Promise<Document[]> {
    const { hits } = await this.#namespace.recall(query, this.#options);
    return hits.map(({ id, session, role, name, created_at, metadata, score, content }) => {
      return new Document({ id, pageContent: textOf(partsOf(content)), metadata: { ...metadata, session, role, name, created_at, score } });
    });
  }
}
