//! The prefixes of queries and documents that the models of fastembed's catalogue need. The catalogue does not contain
//! them: they are taken from the model cards.
//!
//! An ONNX copy of a model (Qdrant's, Xenova's) uses the prefixes of the original.

/// Repositories, the prefix of queries, and the prefix of documents.
type Row = (&'static [&'static str], &'static str, &'static str);

const INSTRUCTION: &str = "Represent this sentence for searching relevant passages: ";

const ROWS: [Row; 7] = [
    // intfloat/multilingual-e5-small, "How to use": each input starts with "query: " or "passage: ".
    (
        &["intfloat/multilingual-e5-small", "intfloat/multilingual-e5-base", "Qdrant/multilingual-e5-large-onnx"],
        "query: ",
        "passage: ",
    ),
    // nomic-ai/nomic-embed-text-v1.5, "Task instruction prefixes"; lightonai/modernbert-embed-large, "Usage": the same.
    (
        &["nomic-ai/nomic-embed-text-v1", "nomic-ai/nomic-embed-text-v1.5", "lightonai/modernbert-embed-large"],
        "search_query: ",
        "search_document: ",
    ),
    // BAAI/bge-base-en-v1.5, "Model List": the query instruction for retrieval; passages have none.
    (
        &[
            "Xenova/bge-small-en-v1.5",
            "Xenova/bge-base-en-v1.5",
            "Xenova/bge-large-en-v1.5",
            "Qdrant/bge-small-en-v1.5-onnx-Q",
            "Qdrant/bge-base-en-v1.5-onnx-Q",
            "Qdrant/bge-large-en-v1.5-onnx-Q",
        ],
        INSTRUCTION,
        "",
    ),
    // The same list, for the Chinese models.
    (&["Xenova/bge-small-zh-v1.5", "Xenova/bge-large-zh-v1.5"], "为这个句子生成表示以用于检索相关文章：", ""),
    // mixedbread-ai/mxbai-embed-large-v1, "Quickstart": the prompt for queries.
    (&["mixedbread-ai/mxbai-embed-large-v1"], INSTRUCTION, ""),
    // Snowflake/snowflake-arctic-embed-m, "Usage": the query prefix.
    (
        &[
            "snowflake/snowflake-arctic-embed-xs",
            "snowflake/snowflake-arctic-embed-s",
            "Snowflake/snowflake-arctic-embed-m",
            "snowflake/snowflake-arctic-embed-m-long",
            "snowflake/snowflake-arctic-embed-l",
        ],
        INSTRUCTION,
        "",
    ),
    // google/embeddinggemma-300m, "Prompt instructions": retrieval.
    (&["onnx-community/embeddinggemma-300m-ONNX"], "task: search result | query: ", "title: none | text: "),
];

/// Returns the prefixes of queries and documents of a repository's model. They are empty if the model card asks for
/// none.
pub(super) fn of(repository: &str) -> (&'static str, &'static str) {
    let row = ROWS.iter().find(|(repositories, ..)| repositories.contains(&repository));
    row.map_or(("", ""), |(_, query, document)| (*query, *document))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::import::pull::hub;

    /// Checks that `ROWS` and the list below contain exactly the repositories of the catalogue.
    #[test]
    fn the_catalogue_is_covered() {
        // Models whose cards ask for no prefix.
        const NONE: [&str; 13] = [
            "Qdrant/all-MiniLM-L6-v2-onnx",
            "Xenova/all-MiniLM-L6-v2",
            "Xenova/all-MiniLM-L12-v2",
            "Xenova/all-mpnet-base-v2",
            "Qdrant/paraphrase-multilingual-MiniLM-L12-v2-onnx-Q",
            "Xenova/paraphrase-multilingual-MiniLM-L12-v2",
            "Xenova/paraphrase-multilingual-mpnet-base-v2",
            "BAAI/bge-m3",
            "Alibaba-NLP/gte-base-en-v1.5",
            "Alibaba-NLP/gte-large-en-v1.5",
            "Qdrant/clip-ViT-B-32-text",
            "jinaai/jina-embeddings-v2-base-code",
            "jinaai/jina-embeddings-v2-base-en",
        ];
        let catalogue: BTreeSet<String> = hub::rows().into_iter().map(|(_, model)| model.model_code).collect();
        let known: BTreeSet<String> = ROWS
            .iter()
            .flat_map(|(repositories, ..)| *repositories)
            .chain(&NONE)
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(catalogue, known);
        assert_eq!(of("intfloat/multilingual-e5-base"), ("query: ", "passage: "));
        assert_eq!(of("BAAI/bge-m3"), ("", ""));
    }
}
