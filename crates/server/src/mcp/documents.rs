//! The tools of documents, which are JSON values under keys of a namespace.

use mnemon::{Document, DocumentSearch, Engine, Namespace, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    answer::{Item, Kind, MAX_BYTES, Output, page_length},
    input::{Limit, Offset, TtlMinutes},
};
use crate::{
    access::Caller,
    app::App,
    bounds::{self, BoundedFilter},
    entity::Entity,
    problem::Problem,
    v1,
};

/// Documents that are read at a time to find the place of a cursor whose document was changed.
const READ: usize = 100;
/// Documents of a page that are read at a time.
const STEP: usize = 10;
/// The beginning of the error of a call whose ids name a part of a namespace.
const WHOLE: &str = "a document is";

/// A value and its key, what of it is searchable, and whose it is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RememberDocument {
    /// The key, unique in the namespace.
    key: String,
    /// The value: any JSON but null.
    value: Value,
    /// The paths to the texts that are searchable, up to 32, such as `["name", "notes[*]"]`. Default: the whole value.
    #[schemars(length(max = 32))]
    index: Option<Vec<String>>,
    /// Minutes after which the document expires. Default: never.
    ttl_minutes: Option<TtlMinutes>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn remember_document(app: &App, caller: &Caller, input: RememberDocument) -> Result<Output, Problem> {
    let namespace = input.entity.whole_namespace(caller, WHOLE)?;
    let options = v1::document_options(input.index, input.ttl_minutes.map(|minutes| minutes.0));
    app.engine.documents(&namespace).put(input.key.clone(), input.value, options).await?;
    Ok(Output::data(json!({ "key": input.key, "namespace": namespace })))
}

/// A document, whose it is, and where to begin in a long one.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetDocument {
    /// The key of the document.
    key: String,
    /// The byte of its JSON from which to return it, as the `cut` of a long one says. Default: 0.
    offset: Option<Offset>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn get_document(app: &App, caller: &Caller, input: GetDocument) -> Result<Output, Problem> {
    let namespace = input.entity.whole_namespace(caller, WHOLE)?;
    let document = app.engine.documents(&namespace).get(&input.key).await?;
    let document = document.ok_or_else(|| {
        Problem::not_found(
            "there is no document of this key there; get_documents lists them; check user_id or namespace, too",
        )
    })?;
    Ok(Output::one(&Item::document(document), input.offset.map_or(0, |offset| offset.0)))
}

/// A page of the documents of a user, agent or namespace.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetDocuments {
    /// Documents on a page; there are fewer on it if they are long. Default: 20.
    limit: Option<Limit>,
    /// The `next` of the last answer.
    cursor: Option<String>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn get_documents(app: &App, caller: &Caller, input: GetDocuments) -> Result<Output, Problem> {
    let namespace = input.entity.whole_namespace(caller, WHOLE)?;
    let after: Option<Place> = bounds::decode_cursor(input.cursor.as_deref())?;
    let page = |limit| page(app, &namespace, after.as_ref(), limit);
    let (documents, mut next) = page(input.limit.map_or(20, |limit| limit.0)).await?;
    let mut items: Vec<Item> = documents.into_iter().map(Item::document).collect();
    let fitting = page_length(&items);
    if fitting < items.len() {
        let shorter = page(fitting).await?;
        (items, next) = (shorter.0.into_iter().map(Item::document).collect(), shorter.1);
    }
    Ok(Output::page(Kind::Document, &items).with("next", next.map(|place| bounds::encode_cursor(&place))))
}

/// A cursor: the number of documents up to the last one of a page, the time at which that one was put, and its key.
pub(super) type Place = (usize, Timestamp, String);

/// Returns the page of the documents of a namespace after a place, the last put first, and the place at which it ends if
/// there are more.
pub(super) async fn page(
    app: &App,
    namespace: &Namespace,
    after: Option<&Place>,
    limit: usize,
) -> Result<(Vec<Document>, Option<Place>), Problem> {
    let documents = app.engine.documents(namespace);
    let read = |offset, limit| documents.search(DocumentSearch::default().offset(offset).limit(limit));
    let mut offset = 0;
    if let Some((seen, put, key)) = after {
        let is_last = |document: &Document| document.key == *key && document.updated_at == *put;
        offset = seen.saturating_sub(1);
        if !read(offset, 1).await?.first().is_some_and(is_last) {
            // Documents were put or deleted since, so the place of the cursor is searched.
            offset = 0;
            loop {
                let some = read(offset, READ).await?;
                let here = some.iter().position(|document| is_last(document) || document.updated_at < *put);
                offset += here.unwrap_or(some.len());
                if here.is_some() || some.len() < READ {
                    break;
                }
            }
        }
        if read(offset, 1).await?.first().is_some_and(is_last) {
            offset += 1;
        }
    }
    // A page of long documents is short, so only as many are read as may be on it.
    let (mut found, mut bytes, mut has_more) = (Vec::new(), 0, true);
    while has_more && found.len() < limit && bytes <= MAX_BYTES {
        let step = STEP.min(limit - found.len());
        let mut some = read(offset + found.len(), step + 1).await?;
        has_more = some.len() > step;
        some.truncate(step);
        bytes += some.iter().map(|document| document.value.to_string().len()).sum::<usize>();
        found.append(&mut some);
    }
    let place = |last: &Document| (offset + found.len(), last.updated_at, last.key.clone());
    let next = found.last().filter(|_| has_more).map(place);
    Ok((found, next))
}

/// A question, and whose documents are searched.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchDocuments {
    /// The question.
    query: String,
    /// Documents to return. Default: 10.
    limit: Option<Limit>,
    /// A filter on the values, such as `{"city": "Porto"}`.
    #[schemars(with = "Option<Map<String, Value>>")]
    filter: Option<BoundedFilter>,
    #[serde(flatten)]
    entity: Entity,
}

pub(super) async fn search_documents(app: &App, caller: &Caller, input: SearchDocuments) -> Result<Output, Problem> {
    let namespace = input.entity.whole_namespace(caller, WHOLE)?;
    if input.query.trim().is_empty() {
        return Err(Problem::bad_request("`query` is empty: ask a question, or list documents with get_documents"));
    }
    let search = DocumentSearch::default().query(input.query).limit(input.limit.map_or(10, |limit| limit.0));
    let found = app.search_documents(&app.reader(), &namespace, search, input.filter).await?;
    let items: Vec<Item> = found.into_iter().map(Item::document).collect();
    Ok(Output::ranking(Kind::Document, &items, MAX_BYTES))
}

/// Returns the documents of a namespace, and the files of the memory tool, that answer a question best; with `has_facts`, also
/// the facts of its collection. A file and a fact say which namespace `get_document` finds them in.
pub(super) async fn found(
    app: &App,
    reader: &Engine,
    namespace: &Namespace,
    query: &str,
    limit: usize,
    has_facts: bool,
) -> Result<Vec<Item>, Problem> {
    if limit == 0 || query.trim().is_empty() {
        return Ok(Vec::new());
    }
    let search = DocumentSearch::default().query(query).limit(limit);
    let mut found = vec![reader.documents(namespace).search(search.clone()).await?];
    // A namespace of the most labels has no files.
    if let Ok(files) = mnemon_memory_tool::files_namespace(namespace) {
        found.push(reader.documents(&files).search(search.clone()).await?);
    }
    if let Some((_, facts)) = app.formation.collection(reader, namespace).filter(|_| has_facts) {
        found.push(facts.search(search).await?);
    }
    // Scores of two searches do not compare, ranks do.
    let ranks = found.into_iter().flat_map(|documents| documents.into_iter().enumerate());
    let mut ranked: Vec<(usize, Document)> = ranks.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    let item = |(_, document): (usize, Document)| match document.namespace == *namespace {
        true => Item::document(document),
        false => {
            let namespace = document.namespace.to_string();
            Item::document(document).with("namespace", namespace)
        }
    };
    Ok(ranked.into_iter().take(limit).map(item).collect())
}
