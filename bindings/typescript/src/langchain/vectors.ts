/** Documents that LangChain searches, stored as the Python package's `MnemonVectorStore` does. */

import { Document, type DocumentInterface } from "@langchain/core/documents";
import { Embeddings, type EmbeddingsInterface } from "@langchain/core/embeddings";
import { maximalMarginalRelevance } from "@langchain/core/utils/math";
import { type MaxMarginalRelevanceSearchOptions, VectorStore } from "@langchain/core/vectorstores";

import type { Namespace } from "../client.js";
import { InvalidArgumentError } from "../errors.js";
import { change, keyOf, listed } from "../names.js";
import { newId } from "../transport.js";
import type { BatchOperation, Filter, FoundDocument } from "../types.js";

interface Stored {
  id: string;
  page_content: string;
  metadata: Record<string, unknown>;
}

/** Documents of LangChain alone, where another program put others. */
const ALL: Filter = { page_content: { $exists: true } };

/**
 * The documents of a namespace, found by meaning and by words; the Python package's `MnemonVectorStore` has the same ones.
 *
 * The vectors are those of the server's model; or, on a server of a database of given vectors (`mnemon serve --model given:NAME:DIM`), those
 * of `embeddings`, or that `addVectors` gives. `filter` is a filter on the metadata in the server's language: `{ price: { $lt: 10 } }`.
 * Scores of a query are those of a recall: the higher the better, and not within limits; those of a vector are cosines. A call is one commit,
 * or several, in order, if it changes more than 1,000 documents, or sends more than 8 MiB.
 */
export class MnemonVectorStore extends VectorStore {
  declare FilterType: Filter;
  readonly #given: EmbeddingsInterface | undefined;

  constructor(readonly namespace: Namespace, embeddings?: EmbeddingsInterface) {
    super(embeddings ?? new ServerEmbeddings({}), {});
    this.#given = embeddings;
  }

  /** A store of a namespace with these texts added. */
  static override async fromTexts(
    texts: string[], metadatas: object[] | object, embeddings: EmbeddingsInterface | undefined, { namespace }: { namespace: Namespace },
  ): Promise<MnemonVectorStore> {
    const metadataOf = (at: number) => (Array.isArray(metadatas) ? metadatas[at] : metadatas) as Document["metadata"];
    const documents = texts.map((pageContent, at) => new Document({ pageContent, metadata: metadataOf(at) }));
    return MnemonVectorStore.fromDocuments(documents, embeddings, { namespace });
  }

  /** A store of a namespace with these documents added. */
  static override async fromDocuments(
    documents: DocumentInterface[], embeddings: EmbeddingsInterface | undefined, { namespace }: { namespace: Namespace },
  ): Promise<MnemonVectorStore> {
    const store = new MnemonVectorStore(namespace, embeddings);
    await store.addDocuments(documents);
    return store;
  }

  override _vectorstoreType(): string {
    return "mnemon";
  }

  /** Stores documents in the place of those with the same ids, and returns the ids; one without gets a new one. */
  override async addDocuments(documents: DocumentInterface[], options: { ids?: string[] } = {}): Promise<string[]> {
    return this.#add(documents, await this.#given?.embedDocuments(documents.map(({ pageContent }) => pageContent)), options.ids);
  }

  /** As `addDocuments`, with the vectors of the documents. The server has a database of given vectors. */
  override async addVectors(vectors: number[][], documents: DocumentInterface[], options: { ids?: string[] } = {}): Promise<string[]> {
    const [given, wanted] = [vectors.length, documents.length];
    if (given !== wanted) throw new InvalidArgumentError(`addVectors takes a vector for each document, not ${given} for ${wanted}`);
    return this.#add(documents, vectors, options.ids);
  }

  async #add(documents: DocumentInterface[], vectors: number[][] | undefined, given: string[] | undefined): Promise<string[]> {
    const ids = documents.map(({ id }, at) => given?.[at] ?? id ?? newId());
    const puts = documents.map(async ({ pageContent, metadata }, at): Promise<BatchOperation> => {
      const [id, vector] = [ids[at]!, vectors?.[at]];
      const value: Stored = { id, page_content: pageContent, metadata };
      // With its vector a document without text is found by its id.
      const index = vector && pageContent.trim() === "" ? ["id"] : ["page_content"];
      return { op: "put", namespace: this.namespace.name, key: await keyOf(id), value, index, ...(vector && { vectors: [vector] }) };
    });
    await change(this.namespace.mnemon, await Promise.all(puts), { flush: true });
    return ids;
  }

  /** The documents with the greatest cosines. */
  override async similaritySearchVectorWithScore(vector: number[], k: number, filter?: Filter): Promise<[Document, number][]> {
    return (await this.#search(null, k, filter, { vector })).map(scored);
  }

  override async similaritySearch(query: string, k = 4, filter?: Filter): Promise<Document[]> {
    return (await this.similaritySearchWithScore(query, k, filter)).map(([document]) => document);
  }

  override async similaritySearchWithScore(query: string, k = 4, filter?: Filter): Promise<[Document, number][]> {
    return (await this.#search(query, k, filter, { vector: await this.#given?.embedQuery(query) })).map(scored);
  }

  /** The `k` of the best `fetchK` documents that are close to the query and, the smaller `lambda` is, far from each other. */
  override async maxMarginalRelevanceSearch(query: string, options: MaxMarginalRelevanceSearchOptions<Filter>): Promise<Document[]> {
    const { k, fetchK = 20, lambda, filter } = options;
    const vector = await this.embeddings.embedQuery(query);
    const rows = (await this.#search(query, fetchK, filter, { vector, vectors: true })).map((found) => ({ found, vector: found.vectors?.[0] ?? [] }));
    // One that was added without a vector has zeros.
    const compared = rows.filter((row) => row.vector.some((component) => component !== 0));
    const chosen = maximalMarginalRelevance(vector, compared.map((row) => row.vector), lambda, k);
    return chosen.map((at) => scored(compared[at]!.found)[0]);
  }

  async #search(query: string | null, limit: number, filter: Filter | undefined, options: { vector?: number[]; vectors?: boolean }) {
    // JSON would leave it out, and all documents would match.
    if (typeof filter === "function") throw new InvalidArgumentError("a filter is an object, such as { price: { $lt: 10 } }, and no function");
    return this.namespace.documents.search<Stored>(query, { filter: { ...ALL, ...(filter && { metadata: filter }) }, limit, ...options });
  }

  /** Deletes the documents with these ids, or all. Ids that no document has are ignored. */
  override async delete({ ids, deleteAll = false }: { ids?: string[]; deleteAll?: boolean } = {}): Promise<void> {
    if (!ids && !deleteAll) throw new InvalidArgumentError("delete takes { ids }, or { deleteAll: true }");
    const { mnemon, name: namespace } = this.namespace;
    const keys = ids ? await Promise.all(ids.map((id) => keyOf(id))) : (await listed(mnemon, namespace, ALL)).map(({ key }) => key);
    await change(mnemon, keys.map((key) => ({ op: "delete", namespace, key })));
  }
}

function scored({ value: { id, page_content, metadata }, score }: FoundDocument<Stored>): [Document, number] {
  return [new Document({ id, pageContent: page_content, metadata }), score ?? 0];
}

class ServerEmbeddings extends Embeddings {
  override embedQuery = refuse;
  override embedDocuments = refuse;
}

async function refuse(): Promise<never> {
  throw new InvalidArgumentError(
    "the vectors of the server's model stay there: use addDocuments, similaritySearch and similaritySearchWithScore; or give the store " +
      "embeddings, `new MnemonVectorStore(namespace, embeddings)`, on a server of given vectors, `mnemon serve --model given:NAME:DIM`",
  );
}
