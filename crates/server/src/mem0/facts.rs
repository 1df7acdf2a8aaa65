//! Facts: what a language model makes of added messages. They are items of the collection of a home, a namespace of a
//! user, agent, app or run, and memories beside its messages.
//!
//! An item is `{"text": "..."}`, with `metadata` if the request that added it had some: of the ids those that the home does
//! not say. The id of such a memory names the namespace of the collection, which is below the home.

use mnemon::{
    Collection, Document, DocumentSearch, Engine, Namespace,
    document::{DocumentOperation, DocumentOptions},
};
use serde_json::{Map, Value, json};

use super::{filter::Filter, memory::Memory};
use crate::{
    access::Caller,
    app::App,
    entity::{self, Entity, id_name},
    problem::Problem,
};

/// Items that are read at a time.
const BATCH: usize = 100;
/// Items that a search with a filter looks at: as many as a search of documents finds.
const SEARCHED: usize = 10_000;
const METADATA: &str = "metadata";

/// The collection of a home.
pub(super) struct Facts {
    home: Namespace,
    namespace: Namespace,
    collection: Collection,
}

impl Facts {
    /// Returns the collection of a home, if a model fills one.
    pub(super) fn of(app: &App, reader: &Engine, home: &Namespace) -> Option<Self> {
        let (namespace, collection) = app.formation.collection(reader, home)?;
        Some(Facts { home: home.clone(), namespace, collection })
    }

    /// Returns the collection of a home whose items are in this namespace.
    pub(super) fn at(app: &App, reader: &Engine, caller: &Caller, namespace: &Namespace) -> Option<Self> {
        let ends = namespace.as_str().match_indices('/').map(|(end, _)| &namespace.as_str()[..end]);
        let homes = ends.filter_map(|home| home.parse().ok());
        // The folder of all users is no home, so a user may have the id `facts`.
        let mut homes = homes.filter(|home| entity::from_namespace(caller, home).is_some());
        homes.find_map(|home| Facts::of(app, reader, &home).filter(|facts| facts.namespace == *namespace))
    }

    pub(super) fn home(&self) -> &Namespace {
        &self.home
    }

    fn memory(&self, caller: &Caller, item: Document) -> Memory {
        let Document { key, value, created_at, updated_at, .. } = item;
        let text = value["text"].as_str().unwrap_or_default();
        Memory::of_fact(caller, &self.home, &self.namespace, (key, text), metadata(&value), (created_at, updated_at))
    }

    pub(super) async fn get(&self, caller: &Caller, key: &str) -> Result<Option<Memory>, Problem> {
        Ok(self.collection.get(key).await?.map(|item| self.memory(caller, item)))
    }

    /// Finds facts, each with its score.
    pub(super) async fn search(
        &self,
        caller: &Caller,
        query: &str,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<(f32, Memory)>, Problem> {
        // The index knows the metadata of messages, so other conditions are evaluated on what it finds.
        let page = if *filter == Filter::All(Vec::new()) { limit } else { BATCH };
        let mut found = Vec::new();
        for offset in (0..=SEARCHED - page).step_by(page) {
            let items =
                self.collection.search(DocumentSearch::default().query(query).offset(offset).limit(page)).await?;
            let is_last = items.len() < page;
            let items = items.into_iter().map(|item| (item.score.unwrap_or_default(), self.memory(caller, item)));
            found.extend(items.filter(|(_, memory)| filter.matches(memory)));
            if is_last || found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns what `take` makes of the facts that a filter matches, the last changed first.
    pub(super) async fn matching<T>(
        &self,
        caller: &Caller,
        filter: &Filter,
        take: impl Fn(Memory) -> T,
    ) -> Result<Vec<T>, Problem> {
        let mut matching = Vec::new();
        for offset in (0..).step_by(BATCH) {
            let found = self.collection.search(DocumentSearch::default().offset(offset).limit(BATCH)).await?;
            let is_last = found.len() < BATCH;
            let found = found.into_iter().map(|item| self.memory(caller, item));
            matching.extend(found.filter(|memory| filter.matches(memory)).map(&take));
            if is_last {
                break;
            }
        }
        Ok(matching)
    }

    /// Deletes facts. Returns how many there were.
    pub(super) async fn delete(&self, keys: impl IntoIterator<Item = String>) -> Result<u64, Problem> {
        let mut deleted = 0;
        for key in keys {
            deleted += u64::from(self.collection.delete(&key).await?);
        }
        Ok(deleted)
    }

    /// Lets the model change the facts as the messages say, and returns the events. Nothing is stored if it fails.
    pub(super) async fn infer(
        &self,
        app: &App,
        caller: &Caller,
        messages: &[mnemon::Message],
        given: &Map<String, Value>,
    ) -> Result<Vec<Value>, Problem> {
        let report = app.formation.infer(&app.engine, &self.home, messages).await.map_err(|error| {
            let mut problem = Problem::from(error);
            problem.detail +=
                "; nothing was stored: repeat the request, or add the messages as they are, with infer=False";
            problem
        })?;
        let mut events = Vec::new();
        let before = report.before.iter().map(Some);
        let changed = report.updated.iter().zip(before.clone()).map(|(key, before)| (key, before, "UPDATE"));
        for (key, before, event) in report.inserted.iter().map(|key| (key, None, "ADD")).chain(changed) {
            // One that was deleted meanwhile has no event.
            let Some(mut item) = self.collection.get(key).await? else { continue };
            let mut all = before.map(metadata).unwrap_or_default();
            all.extend(given.clone());
            if !all.is_empty() && metadata(&item.value) != all {
                let expect = self.expect(key, item.value.clone());
                item.value[METADATA] = all.into();
                match app.engine.document_batch(vec![expect, self.put(key, item.value.clone())]).await {
                    // It has another text since, which has its own metadata.
                    Ok(_) | Err(mnemon::Error::DocumentChanged { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let mut memory = self.memory(caller, item).to_json();
            memory["event"] = event.into();
            if let Some(before) = before {
                memory["previous_memory"] = before["text"].clone();
            }
            events.push(memory);
        }
        for (key, before) in report.deleted.iter().zip(before.skip(report.updated.len()).flatten()) {
            let id = super::memory::write_id(&self.namespace, key);
            events.push(json!({ "id": id, "memory": before["text"], "event": "DELETE" }));
        }
        Ok(events)
    }

    /// Returns the operation that stores a changed fact.
    pub(super) fn changed(&self, memory: &Memory) -> DocumentOperation {
        let mut value = json!({ "text": memory.message.text() });
        let metadata = memory.stored_metadata();
        if !metadata.is_empty() {
            value[METADATA] = metadata.into();
        }
        self.put(&memory.message.id, value)
    }

    fn put(&self, key: &str, value: Value) -> DocumentOperation {
        let options = DocumentOptions::default().index(["text"]);
        DocumentOperation::Put { namespace: self.namespace.clone(), key: key.to_owned(), value, options }
    }

    fn expect(&self, key: &str, value: Value) -> DocumentOperation {
        DocumentOperation::Expect { namespace: self.namespace.clone(), key: key.to_owned(), value: Some(value) }
    }
}

fn metadata(item: &Value) -> Map<String, Value> {
    item[METADATA].as_object().cloned().unwrap_or_default()
}

/// Returns the ids of a memory's owner that its home does not say, as metadata.
pub(super) fn other_ids(entity: &Entity) -> Map<String, Value> {
    let given = entity.ids().into_iter().filter_map(|(kind, id)| Some((id_name(kind), id.as_deref()?.into())));
    given.skip(1).collect()
}
