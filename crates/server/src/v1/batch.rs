//! Batches: operations on documents and messages of any namespaces, whose changes are one commit.
//!
//! An operation needs the right that its own route needs, and its caller sees its namespace: both are checked for all before
//! any runs. The reads of a batch together have the bounds of one search, so that a batch costs no more than a request may.

use std::sync::Arc;

use axum::{Extension, Json, extract::State, http::Method, response::Response};
use mnemon::{
    Document, DocumentSearch, MAX_K, MAX_QUERY_BYTES, Message, Namespace,
    document::{DocumentOperation, DocumentOutcome},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    documents::{NewDocument, SearchFields},
    messages::date,
    route::Route,
    schema::{KeySchema, MessageInputSchema},
};
use crate::{
    access::{Caller, CallerExtension, Right},
    app::App,
    bounds::{BoundedFilter, Cost, MAX_LIMIT},
    idempotency::OnlyRead,
    problem::Problem,
};

const MAX_OPERATIONS: usize = 1000;
/// Searches that take no longer than other requests. A batch with more takes a place for slow ones.
const MAX_LIGHT: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    let route = Route::new(
        Method::POST,
        "/batch",
        Right::Write,
        "Runs operations on documents and messages of any namespaces. All changes are one commit: all of them are stored, or none. \
         Reads show what was there before the batch.",
        batch,
    );
    vec![Route { right: None, ..route }.body::<Batch>().answer::<Answer>()]
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Batch {
    /// Up to 1000. All gets and searches together have the bounds of one search: 1000 documents, queries of 1 MiB, and filters
    /// with 1,000 conditions.
    #[schemars(length(max = MAX_OPERATIONS))]
    operations: Vec<Operation>,
    /// Embed all pending texts before the answer, so that those of this batch are found by meaning, too. Needs the right to write.
    /// Default: false.
    #[serde(default)]
    flush: bool,
}

/// An operation of a batch.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
#[schemars(rename = "BatchOperation", extend("type" = "object"))]
enum Operation {
    /// Reads a document.
    Get {
        #[schemars(with = "Namespace")]
        namespace: String,
        key: String,
    },
    /// Finds documents by a query, best first, or lists them, the last put first.
    Search {
        #[schemars(with = "Namespace")]
        namespace: String,
        #[serde(flatten)]
        search: SearchFields,
    },
    /// Stores a JSON value under a key, and indexes its texts.
    Put {
        #[schemars(with = "Namespace")]
        namespace: String,
        #[schemars(with = "KeySchema")]
        key: String,
        #[serde(flatten)]
        document: NewDocument,
    },
    /// Deletes a document.
    Delete {
        #[schemars(with = "Namespace")]
        namespace: String,
        key: String,
    },
    /// Refuses the whole batch with the status 409 unless a document has this value when the changes are stored, so that they
    /// replace no other than the one that was read.
    Expect {
        #[schemars(with = "Namespace")]
        namespace: String,
        key: String,
        /// The value. `null`: there is no such document.
        value: Value,
    },
    /// Stores messages, in order.
    PutMessages {
        #[schemars(with = "Namespace")]
        namespace: String,
        #[schemars(with = "Vec<MessageInputSchema>")]
        messages: Vec<Message>,
    },
    /// Deletes the messages with these ids. Unknown ones are ignored.
    DeleteMessages {
        #[schemars(with = "Namespace")]
        namespace: String,
        ids: Vec<String>,
    },
    /// Deletes a session with its messages.
    DeleteSession {
        #[schemars(with = "Namespace")]
        namespace: String,
        session: String,
    },
}

/// Counts what the reads of a batch may cost together.
#[derive(Default)]
struct Reads {
    searches: usize,
    /// The documents that they may return.
    documents: usize,
    /// The documents that ranked searches look for, those that their offsets leave out too.
    ranked: usize,
    /// The bytes of the queries.
    bytes: usize,
    filters: Cost,
}

impl Reads {
    /// Adds a search, and returns it with its filter.
    fn add(&mut self, mut search: DocumentSearch, filter: Option<BoundedFilter>) -> Result<DocumentSearch, Problem> {
        let (filter, cost) = BoundedFilter::divide(filter);
        search.filter = filter;
        self.searches += 1;
        self.documents += search.limit;
        self.bytes += search.query.as_ref().map_or(0, String::len);
        if search.query.is_some() || search.vector.is_some() {
            self.ranked = self.ranked.saturating_add(search.limit).saturating_add(search.offset);
        }
        self.filters = self.filters.with(cost).map_err(Problem::bad_request)?;
        Ok(search)
    }

    fn check(&self) -> Result<(), Problem> {
        for (number, most, name) in [
            (self.documents, MAX_LIMIT, "documents may be returned"),
            (self.ranked, MAX_K, "documents are looked for by queries, with those that offsets leave out"),
            (self.bytes, MAX_QUERY_BYTES, "bytes of queries are there"),
        ] {
            if number > most {
                return Err(Problem::bad_request(format!(
                    "{number} {name}, and {most} is the most of all gets and searches of a batch; divide it over several batches"
                )));
            }
        }
        Ok(())
    }

    fn are_heavy(&self) -> bool {
        self.searches > MAX_LIGHT || self.filters.is_heavy()
    }
}

impl Operation {
    /// Returns the operation of the library, if the caller may do it.
    fn checked(self, caller: &Caller, reads: &mut Reads) -> Result<DocumentOperation, Problem> {
        let right = match &self {
            Operation::Get { .. } | Operation::Search { .. } | Operation::Expect { .. } => Right::Read,
            Operation::Put { .. } | Operation::PutMessages { .. } => Right::Write,
            Operation::Delete { .. } | Operation::DeleteMessages { .. } | Operation::DeleteSession { .. } => {
                Right::Forget
            }
        };
        caller.require(right)?;
        Ok(match self {
            Operation::Get { namespace, key } => {
                reads.documents += 1;
                DocumentOperation::Get { namespace: caller.namespace(&namespace)?, key, refresh_ttl: false }
            }
            Operation::Search { namespace, search } => {
                let (search, filter) = search.divide()?;
                let search = reads.add(search, filter)?;
                DocumentOperation::Search { namespace: caller.namespace(&namespace)?, search }
            }
            Operation::Put { namespace, key, document } => {
                let (value, options) = document.divide();
                DocumentOperation::Put { namespace: caller.namespace(&namespace)?, key, value, options }
            }
            Operation::Delete { namespace, key } => {
                DocumentOperation::Delete { namespace: caller.namespace(&namespace)?, key }
            }
            Operation::Expect { namespace, key, value } => {
                let value = Some(value).filter(|value| !value.is_null());
                DocumentOperation::Expect { namespace: caller.namespace(&namespace)?, key, value }
            }
            Operation::PutMessages { namespace, mut messages } => {
                date(&mut messages);
                DocumentOperation::PutMessages { namespace: caller.namespace(&namespace)?, messages }
            }
            Operation::DeleteMessages { namespace, ids } => {
                DocumentOperation::DeleteMessages { namespace: caller.namespace(&namespace)?, ids }
            }
            Operation::DeleteSession { namespace, session } => {
                DocumentOperation::DeleteSession { namespace: caller.namespace(&namespace)?, session }
            }
        })
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BatchAnswer")]
struct Answer {
    /// One for each operation, in their order.
    outcomes: Vec<Outcome>,
}

/// The outcome of an operation.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "BatchOutcome")]
enum Outcome {
    /// The outcome of a get: null if there is no such document.
    Got { document: Option<Document> },
    /// The outcome of a search.
    Found { documents: Vec<Document> },
    /// The outcome of a delete of a document or a session: false if there was none.
    Deleted { deleted: bool },
    /// The outcome of a put of messages says how many are new, were replaced, and were unchanged.
    MessagesPut { new: u64, replaced: u64, unchanged: u64 },
    /// The outcome of a delete of messages has their number.
    MessagesDeleted {
        /// Their number.
        deleted: u64,
    },
    /// The outcome of a put or an expect is an empty object.
    #[schemars(extend("additionalProperties" = false))]
    Done {},
}

impl From<DocumentOutcome> for Outcome {
    fn from(outcome: DocumentOutcome) -> Self {
        match outcome {
            DocumentOutcome::Got(document) => Outcome::Got { document },
            DocumentOutcome::Found(documents) => Outcome::Found { documents },
            DocumentOutcome::Deleted(deleted) | DocumentOutcome::SessionDeleted(deleted) => {
                Outcome::Deleted { deleted }
            }
            DocumentOutcome::MessagesPut { new, replaced, unchanged } => {
                Outcome::MessagesPut { new, replaced, unchanged }
            }
            DocumentOutcome::MessagesDeleted(deleted) => Outcome::MessagesDeleted { deleted },
            _ => Outcome::Done {},
        }
    }
}

async fn batch(
    State(app): State<Arc<App>>,
    Extension(caller): CallerExtension,
    Json(batch): Json<Batch>,
) -> Result<(Option<Extension<OnlyRead>>, Response), Problem> {
    let number = batch.operations.len();
    if number > MAX_OPERATIONS {
        return Err(Problem::bad_request(format!("{number} operations, and {MAX_OPERATIONS} is the most of a batch")));
    }
    if batch.flush {
        caller.require(Right::Write)?;
    }
    let mut reads = Reads::default();
    let operations = batch.operations.into_iter().map(|operation| operation.checked(&caller, &mut reads));
    let operations: Vec<DocumentOperation> = operations.collect::<Result<_, _>>()?;
    reads.check()?;
    let is_change = |operation: &DocumentOperation| {
        !matches!(
            operation,
            DocumentOperation::Get { .. } | DocumentOperation::Search { .. } | DocumentOperation::Expect { .. }
        )
    };
    let only_reads = (!operations.iter().any(is_change)).then_some(Extension(OnlyRead));
    let _place = reads.are_heavy().then(|| app.slow_place()).transpose()?;
    let _flush = app.flush_place(batch.flush)?;
    let reader = app.reader();
    let outcomes = app.batch(&reader, operations).await?;
    if batch.flush {
        app.engine.flush().await?;
    }
    let answer = Answer { outcomes: outcomes.into_iter().map(Outcome::from).collect() };
    Ok((only_reads, app.json(reader, answer).await?))
}
